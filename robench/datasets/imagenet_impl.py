"""Opener of published images of ImageNet-1k's classes, in any of their forms.

Sources: ILSVRC 2012 (Russakovsky et al. 2015, arXiv:1409.0575) and the sets of natural shifts that share its classes,
see ``datasets.imagenet``. Two JPEG decoders, and so two releases of Pillow, may differ by a grey level here and
there; that is a matter of provenance, and no part of the fingerprint.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Final

from robench.core.errors import DeclarationError
from robench.datasets.base import DatasetBase, class_indices_of
from robench.datasets.imagenet_folder import ImageSource, layout_of
from robench.datasets.imagenet_forms import find_images
from robench.datasets.packed_images import Stored
from robench.datasets.packed_pixels import find_packed
from robench.datasets.user_impl import DecodedImages
from robench.declarations.preprocessing import ImagePreprocessing

USUAL_PREPROCESSING: Final = ImagePreprocessing(
    mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), resize=256, crop=224, interpolation="bicubic"
)


def open_image_folder(
    declared: DatasetBase,
    *,
    data_root: Path | None,
    preprocessing: ImagePreprocessing | None,
    decode_workers: int,
    split: str,
) -> ImagenetFolder:
    """Open the images of a declared folder, with the usual resize and crop if no preprocessing is given."""
    declared.check_split(split)
    return ImagenetFolder(declared, data_root, preprocessing or USUAL_PREPROCESSING, decode_workers)


class ImagenetFolder(DecodedImages):
    """Images of a declared dataset in the order of the ids' SHA-256, decoded on access.

    An id is such as ``n01440764/ILSVRC2012_val_00000293``. The fingerprint is a SHA-256 over id, suffix and file size
    of every image, sorted by id, whichever form they are in. The images themselves are not read for it, which would
    take minutes: a re-encoded copy is detected by its sizes, a changed pixel in a file of the same size is not. The
    classes that logits are masked to and the resize rule, where there are any, are part of it, since outcomes depend on
    them.
    """

    def __init__(
        self, declared: DatasetBase, data_root: Path | None, preprocessing: ImagePreprocessing, decode_workers: int = 0
    ) -> None:
        applied = ruled(preprocessing, declared)
        self._source = source = find_images(data_root, layout_of(declared))
        fingerprint = _fingerprint(source, declared)
        super().__init__(declared.name, fingerprint, source.ids, source.targets, applied, decode_workers)
        self.packed = find_packed(declared.name, fingerprint, data_root, applied)

    def stored(self, position: int) -> Stored:
        """Return the place of an example's encoded image."""
        return self._source.stored(self._order[position])


def ruled(preprocessing: ImagePreprocessing, declared: DatasetBase) -> ImagePreprocessing:
    """Return the preprocessing with its resize replaced by the dataset's resize rule."""
    if declared.resize_rule is None:
        return preprocessing
    if declared.resize_rule != "none":
        return replace(preprocessing, interpolation=declared.resize_rule)
    size = declared.image_size
    if size is not None and preprocessing.crop is not None and preprocessing.crop > size:
        raise DeclarationError(
            f"dataset {declared.name!r} is published at {size}x{size} pixels and never resized: crop of the"
            f" checkpoint's preprocessing must be at most {size}, got {preprocessing.crop}"
        )
    return replace(preprocessing, resize=None)


def _fingerprint(source: ImageSource, declared: DatasetBase) -> str:
    images = zip(source.ids, source.suffixes, source.sizes.tolist(), strict=True)
    lines = sorted(f"{example_id}\t{suffix}\t{num_bytes}\n" for example_id, suffix, num_bytes in images)
    if declared.class_subset is not None:
        lines.insert(0, f"classes\t{','.join(map(str, class_indices_of(declared.class_subset)))}\n")
    if declared.resize_rule is not None:
        lines.insert(0, f"resize\t{declared.resize_rule}\n")
    return hashlib.sha256("".join(lines).encode()).hexdigest()
