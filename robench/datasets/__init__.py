"""Labelled examples in a fixed order, inputs in pixel units.

Datasets are opened by name, and what opens one (scikit-learn, torchvision, timm) is imported only then: the decoding
processes import this package too, and start seconds sooner without them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from robench.core.errors import DeclarationError, UnknownNameError, UsageError
from robench.declarations.datasets import DATASETS, DIGITS, IMAGENET_1K
from robench.declarations.preprocessing import ImagePreprocessing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from robench.core.protocols import Dataset, Declaration
    from robench.declarations.datasets import DatasetDeclaration

TEST_SPLIT = "test"


class Opener(Protocol):
    """Opens one dataset."""

    def __call__(
        self,
        declared: DatasetDeclaration,
        *,
        data_root: Path | None,
        preprocessing: ImagePreprocessing | None,
        decode_workers: int,
        split: str,
    ) -> Dataset:
        """Return the dataset; see ``open_dataset``."""


def open_dataset(
    name: str,
    *,
    data_root: Path | None,
    preprocessing: Declaration | None,
    decode_workers: int = 0,
    split: str = TEST_SPLIT,
) -> Dataset:
    """Open a dataset by its declared name.

    Args:
        name: a key of ``declarations.datasets.DATASETS``.
        data_root: folder below which datasets on disk are searched; not needed for those inside a library.
        preprocessing: resize and crop are applied here, mean and std by the victim; None for the dataset's usual one.
        decode_workers: processes that decode image files, 0 for none beside this one; no pixel depends on it.
        split: ``test`` is what is measured; ``train`` is what published checkpoints are trained on.

    Raises:
        UnknownNameError: no such dataset.
        UsageError: the dataset has no such split, or the number of processes is negative.
        MissingDataError: it is not where it was looked for.
        DeclarationError: the preprocessing does not go with the dataset.
    """
    if name not in OPENERS:
        raise UnknownNameError("dataset", name, OPENERS)
    if decode_workers < 0:
        raise UsageError(f"the number of decoding processes must be at least 0, got {decode_workers}")
    if not isinstance(preprocessing, ImagePreprocessing | None):
        raise DeclarationError(f"dataset {name!r} holds images: preprocessing must be 'image', got {preprocessing}")
    return OPENERS[name](
        DATASETS[name], data_root=data_root, preprocessing=preprocessing, decode_workers=decode_workers, split=split
    )


def _open_embedded(
    declared: DatasetDeclaration,
    *,
    data_root: Path | None,
    preprocessing: ImagePreprocessing | None,
    decode_workers: int,
    split: str,
) -> Dataset:
    del data_root, decode_workers  # The images are inside libraries, as numbers or as fonts.
    size = declared.image_size
    for field in ("resize", "crop"):
        if (asked := getattr(preprocessing, field, None)) not in (None, size):
            raise DeclarationError(
                f"dataset {declared.name!r} has images of {size}x{size} pixels and no other: {field} of the"
                f" checkpoint's preprocessing must be left out, got {asked}"
            )
    if declared.name == DIGITS.name:
        from robench.datasets.digits_impl import Digits

        return Digits(split)
    _check_split(declared, split)
    from robench.datasets.digit_shifts import DIGIT_SHIFTS

    return DIGIT_SHIFTS[declared.name]()


def _open_image_folder(
    declared: DatasetDeclaration,
    *,
    data_root: Path | None,
    preprocessing: ImagePreprocessing | None,
    decode_workers: int,
    split: str,
) -> Dataset:
    _check_split(declared, split)
    from robench.datasets.imagenet_impl import USUAL_PREPROCESSING, ImagenetFolder

    return ImagenetFolder(declared, data_root, preprocessing or USUAL_PREPROCESSING, decode_workers)


def _check_split(declared: DatasetDeclaration, split: str) -> None:
    if split != TEST_SPLIT:
        images = " (the validation images)" if declared.name == IMAGENET_1K.name else ""
        raise UsageError(f"dataset {declared.name!r} has no split {split!r} here, only {TEST_SPLIT!r}{images}")


OPENERS: Mapping[str, Opener] = {
    name: _open_embedded if declared.folder is None else _open_image_folder for name, declared in DATASETS.items()
}
