"""Opener of the test images of CIFAR-10 and CIFAR-100, from the published Python or binary version.

The Python version is a pickle. It is read by an unpickler that knows numpy's arrays and nothing else, so that no file
can run code.
"""

from __future__ import annotations

import hashlib
import io
import logging
import pickle
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from robench.core.errors import MissingDataError, described
from robench.core.files import read_regular
from robench.datasets.array_images import ArrayImages
from robench.datasets.user_impl import check_classes, fingerprint_of

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from robench.datasets.cifar import Cifar10
    from robench.datasets.user import UserDataset
    from robench.declarations.preprocessing import ImagePreprocessing

SIDE: Final = 32
VALUES: Final = 3 * SIDE * SIDE
NUM_PUBLISHED: Final = 10_000
# The published files have 31 MB.
LARGEST_FILE: Final = 1 << 28
# By module and name in the file: the first was written by Python 2's numpy, the second by newer versions.
_ADMITTED: Final = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
}


def open_cifar(declared: UserDataset, *, preprocessing: ImagePreprocessing, decode_workers: int) -> ArrayImages:
    """Open the test images; warn if the file is not the published one.

    Raises:
        MissingDataError: there is no such file, or it differs from the published one.
    """
    del decode_workers  # No image file is decoded.
    content: Cifar10 = declared.content  # type: ignore[assignment]  # the format of this implementation
    path = _find(declared.name, content)
    title = f"dataset {declared.name!r}: {path}"
    try:
        data = read_regular(path, LARGEST_FILE)
    except OSError as error:
        raise MissingDataError(f"cannot read {path} of dataset {declared.name!r}: {error.strerror}") from error
    is_binary = path.name == content.binary_file
    pixels, labels = _from_binary(data, title, content) if is_binary else _from_pickle(data, title, content)
    check_classes(declared, labels, content.classes, str(path))
    _warn_of_changes(title, content, data, len(labels), is_binary=is_binary)
    return ArrayImages(
        declared.name,
        pixels=pixels.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1),
        targets=labels,
        fingerprint=fingerprint_of(declared, sha256=hashlib.sha256(data).hexdigest()),
        num_classes=content.classes,
        preprocessing=preprocessing,
    )


class ArraysUnpickler(pickle.Unpickler):
    """Unpickler of lists, mappings, text, numbers and numpy's arrays that refuses everything else."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        """Return one of the few functions that pickles of arrays call; Any: they have no type in common.

        Raises:
            UnpicklingError: it is a different function.
        """
        if (module_name, global_name) not in _ADMITTED:
            raise pickle.UnpicklingError(f"it names {module_name}.{global_name}, which is not loaded")
        return super().find_class(module_name.replace("numpy.core", "numpy._core"), global_name)


def _find(name: str, content: Cifar10) -> Path:
    folders = [content.place, *(content.place / each for each in content.folders)]
    places = [folder / file for folder in folders for file in (content.file[0], content.binary_file)]
    for place in places:
        if place.is_file():
            return place
    wanted = f"{content.folders[0]}/{content.file[0]} or {content.folders[1]}/{content.binary_file}"
    raise MissingDataError(
        f"dataset {name!r}: the test images are not in {content.place}. Wanted {wanted} there; unpack the archive from"
        " https://www.cs.toronto.edu/~kriz/cifar.html"
    )


def _from_pickle(data: bytes, title: str, content: Cifar10) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    try:
        # Python 2's text is bytes in the file.
        loaded = ArraysUnpickler(io.BytesIO(data), encoding="bytes").load()
        named = {_text(key): value for key, value in loaded.items()}
        pixels, labels = named["data"], np.asarray(named[content.label_key])
        is_whole = isinstance(pixels, np.ndarray) and pixels.dtype == np.uint8 and pixels.shape == (len(labels), VALUES)
        if not is_whole or labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
            raise ValueError(f"data and {content.label_key} must be N rows of {VALUES} bytes, and N whole numbers")
    except (Exception, MemoryError) as error:  # a broken pickle may raise almost any type
        raise MissingDataError(
            f"{title} is not the published file, a pickle of images and labels ({described(error)}); unpack it again"
        ) from error
    return pixels, labels.astype(np.int64)


def _text(key: object) -> str:
    return key.decode() if isinstance(key, bytes) else str(key)


def _from_binary(data: bytes, title: str, content: Cifar10) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    width = content.label_bytes + VALUES
    if len(data) % width:
        raise MissingDataError(
            f"{title} has {len(data):,} bytes, wanted a multiple of {width:,}, as many as an image has; unpack it again"
        )
    rows = np.frombuffer(data, dtype=np.uint8).reshape(-1, width)
    return rows[:, content.label_bytes :], rows[:, content.label_bytes - 1].astype(np.int64)


def _warn_of_changes(title: str, content: Cifar10, data: bytes, num_images: int, *, is_binary: bool) -> None:
    wanted = content.file[1]
    # The binary version has no published checksum of its own; its size is known.
    is_published = (
        num_images == NUM_PUBLISHED if is_binary else hashlib.md5(data, usedforsecurity=False).hexdigest() == wanted
    )
    if not is_published:
        found = f"{num_images:,} images" + ("" if is_binary else " or another MD5")
        logging.getLogger("robench.datasets").warning(
            "%s is not the published file: %s, not %s images%s. What is measured on it compares with nothing published",
            title,
            found,
            f"{NUM_PUBLISHED:,}",
            "" if is_binary else f" of the MD5 {wanted}",
        )
