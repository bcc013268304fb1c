"""Declarations of users' files: a folder with a subfolder for each class, a CSV file that lists images, and arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from robench.datasets.user import DomainFormat, FilesFormat
from robench.declarations.base import FieldProblem
from robench.domains.images import IMAGES


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
    implementation: ClassVar[str] = "robench.datasets.image_files_impl:open_class_folders"

    image_size: Annotated[int | None, Ge(1), Le(4096)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageList(DomainFormat):
    """CSV file with a header and a row for each image, or for each ``.npy`` file of an input of another domain.

    Paths of images are relative to the CSV file's folder, and must stay below it. Labels that are all whole numbers are
    class numbers; otherwise they are names, which are numbered in the order of their sorted text.

    Attributes:
        image_column, label_column: names of the columns in the header.
        image_size: side of the square images in pixels, as in ``image-folder``.
    """

    kind: ClassVar[str] = "csv"
    implementation: ClassVar[str] = "robench.datasets.image_files_impl:open_list"

    image_column: str = "path"
    label_column: str = "label"
    image_size: Annotated[int | None, Ge(1), Le(4096)] = None

    def contradictions(self) -> list[FieldProblem]:
        """Refuse one column for both path and label, and a size of inputs that are not images."""
        problems = DomainFormat.contradictions(self)
        if self.domain != IMAGES.name and self.image_size is not None:
            problems.append(("image_size", f"must be left out for {self.domain}, got {self.image_size}"))
        if self.image_column != self.label_column:
            return problems
        return [*problems, ("label_column", f"must differ from image_column, got {self.label_column!r} for both")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrays(DomainFormat):
    """Inputs and labels in an npz file, which is read without pickle.

    Images are uint8 of the shape (N, height, width) or (N, height, width, channels), or floats in [0, 1] of the shape
    (N, channels, height, width); inputs of other domains are floats with the axes of the domain. Labels are N whole
    numbers from 0.

    Attributes:
        inputs, targets: names of the two arrays.
    """

    kind: ClassVar[str] = "npz"
    implementation: ClassVar[str] = "robench.datasets.arrays_impl:open_arrays"

    inputs: str = "inputs"
    targets: str = "targets"

    def contradictions(self) -> list[FieldProblem]:
        """Refuse one array for both inputs and labels."""
        problems = DomainFormat.contradictions(self)
        if self.inputs == self.targets:
            problems.append(("targets", f"must differ from inputs, got {self.targets!r} for both"))
        return problems
