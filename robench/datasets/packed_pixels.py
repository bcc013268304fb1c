"""Decoded, resized and cropped images of a dataset in one file, mapped into memory in place of decoding.

``DATA_ROOT/packed/NAME-KEY.pixels`` has the bytes (N, H, W, C) of all examples in the dataset's order. The ``.json``
beside it describes them: the dataset's fingerprint, the fields of the preprocessing that decide pixels, and a
SHA-256 of each block of examples, which is compared whenever the block is read. KEY is a digest of fingerprint and
fields, so that a file of other images or another preprocessing is never found.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from robench.core.errors import MissingDataError, UsageError
from robench.core.files import replacing, write_whole
from robench.core.identity import key_of
from robench.core.shard import DatasetIdentity
from robench.declarations.preprocessing import ImagePreprocessing

FOLDER = "packed"
BLOCK = 64


@runtime_checkable
class Packable(Protocol):
    """Dataset of encoded images, which are decoded on access unless they are ``packed``."""

    identity: DatasetIdentity
    preprocessing: ImagePreprocessing
    packed: "PackedPixels | None"

    def __len__(self) -> int:
        """Return the number of examples."""

    def bytes_of(self, start: int, stop: int) -> NDArray[np.uint8]:
        """Return the bytes (B, H, W, C) of examples [start, stop)."""


def contents(fingerprint: str, preprocessing: ImagePreprocessing) -> dict[str, Any]:
    """Return the images, by their fingerprint, and the fields of a preprocessing that decide their bytes."""
    return {
        "fingerprint": fingerprint,
        "resize": preprocessing.resize,
        "longer_at_most": preprocessing.longer_at_most,
        "crop": preprocessing.crop,
        "interpolation": preprocessing.interpolation,
        "num_channels": preprocessing.num_channels or 3,
    }


class PackedPixels:
    """Packed images of a dataset.

    Raises:
        MissingDataError: the file is cut, or it is of other images than its name says.
    """

    def __init__(self, path: Path, wanted: dict[str, Any]) -> None:
        self._path = path
        try:
            about = json.loads(path.with_suffix(".json").read_bytes())
            found, self._digests, shape = about["contents"], about["blocks"], tuple(about["shape"])
            if len(self._digests) != -(-shape[0] // BLOCK):
                raise ValueError
        except (ValueError, LookupError, TypeError):
            raise self._damaged("has no readable list of its blocks beside it") from None
        if found != wanted:
            raise self._damaged(f"is of {found}, wanted {wanted}")
        if path.stat().st_size != int(np.prod(shape)):
            raise self._damaged(f"has {path.stat().st_size:,} bytes, wanted {int(np.prod(shape)):,}")
        self._pixels = np.memmap(path, np.uint8, mode="r", shape=shape)

    def read(self, start: int, stop: int) -> NDArray[np.uint8]:
        """Return the bytes (B, H, W, C) of examples [start, stop).

        Raises:
            MissingDataError: they have changed since they were packed.
        """
        for number in range(start // BLOCK, -(-stop // BLOCK)):
            block = self._pixels[number * BLOCK : (number + 1) * BLOCK]
            if hashlib.sha256(block.data).hexdigest() != self._digests[number]:
                raise self._damaged(f"has changed in examples {number * BLOCK} to {number * BLOCK + len(block) - 1}")
        return np.array(self._pixels[start:stop])

    def _damaged(self, found: str) -> MissingDataError:
        return MissingDataError(f"{self._path} {found}: delete it, and run 'robench data pack' again")


def path_of(name: str, data_root: Path, wanted: dict[str, Any]) -> Path:
    """Return the path of the packed images of a dataset."""
    return data_root / FOLDER / f"{name}-{key_of(wanted)}.pixels"


def find_packed(
    name: str, fingerprint: str, data_root: Path | None, preprocessing: ImagePreprocessing
) -> PackedPixels | None:
    """Return the packed images of a dataset, None where there are none; raises like ``PackedPixels``."""
    if data_root is None:
        return None
    path = path_of(name, data_root, wanted := contents(fingerprint, preprocessing))
    return PackedPixels(path, wanted) if path.with_suffix(".json").exists() and path.exists() else None


def pack(
    dataset: Packable,
    data_root: Path,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Path:
    """Decode all images of a dataset into one file, and return its path; an existing file is written anew.

    Raises:
        UsageError: the images differ in size after the preprocessing.
        ExampleError: an image cannot be read.
    """
    wanted = contents(dataset.identity.fingerprint, dataset.preprocessing)
    path = path_of(dataset.identity.name, data_root, wanted)
    shape: tuple[int, ...] | None = None
    digests, total = [], len(dataset)
    with replacing(path) as temporary, temporary.open("wb") as file:
        for start in range(0, total, BLOCK):
            block = dataset.bytes_of(start, min(start + BLOCK, total))
            if shape not in (None, block.shape[1:]):
                raise UsageError(
                    f"images of {dataset.identity.name!r} have {shape} and {block.shape[1:]} pixels and channels after "
                    "resize and crop, wanted one size; name a model whose preprocessing has a crop"
                )
            shape = block.shape[1:]
            digests.append(hashlib.sha256(block.data).hexdigest())
            file.write(block.data)
            on_progress(start + len(block), total)
    about = {"contents": wanted, "shape": [total, *(shape or ())], "blocks": digests}
    write_whole(path.with_suffix(".json"), json.dumps(about).encode())
    return path
