"""Declaration of a folder of images with a subfolder for each class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from robench.datasets.user import FilesFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFolder(FilesFormat):
    """Images in class folders, read as torchvision's ImageFolder reads them.

    The folders below ``path``, sorted by name as text, are classes 0, 1, ...; images lie in them at any depth. Names
    that begin with a dot are ignored, as are files without the suffix of an image.

    Attributes:
        image_size: side of the square images that the model sees, in pixels: the shorter side of each image is resized
            to it, and the central square kept. None for the resize and crop of the model's preprocessing; if that has
            none either, all files must have one size.
    """

    kind: ClassVar[str] = "image-folder"
    implementation: ClassVar[str] = "robench.datasets.image_folder_impl:open_class_folders"

    image_size: Annotated[int | None, Ge(1), Le(4096)] = None

    @property
    def side(self) -> int | None:
        """Return the side of the square images, if the declaration fixes it."""
        return self.image_size
