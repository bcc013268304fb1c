"""Opener of the handwritten digits inside scikit-learn: 1,797 real scans, small enough for a laptop's CPU.

Source: UCI Optical Recognition of Handwritten Digits, its test part (Alpaydin & Kaynak 1998), as scikit-learn's
``load_digits``: 8x8 pixels of 0..16. Here each is divided by 16 and enlarged to 32x32 by bilinear interpolation
(half-pixel centres, edges clamped, which is ``align_corners=False``), and has three equal channels.

The source has no split. Ours is stratified, 1,197 train and 600 test, and depends on ids alone. The scans come from
13 writers whom scikit-learn does not distinguish, so the same hand is on both sides: accuracies here are not those of
unseen writers.
"""

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from robench.core.errors import UsageError
from robench.datasets.digits import DIGITS
from robench.datasets.in_memory import InMemoryImages
from robench.datasets.order import stratified_split

SCALE: Final = 4
IMAGE_SIZE: Final = 8 * SCALE
SPLITS: Final = ("train", "test")


class Digits(InMemoryImages):
    """Split of the digits."""

    def __init__(self, split: str = "test") -> None:
        scans = split_scans(split)
        super().__init__(DIGITS.name, *by_id(scans, enlarged(scans)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scan:
    """Digit of the source: ``id`` is its index there, ``pixels`` are (8, 8) values of 0..16."""

    id: str
    target: int
    pixels: NDArray[np.float64]


def split_scans(split: str) -> list[Scan]:
    """Return the scans of one split in the order of the ids' SHA-256."""
    if split not in SPLITS:
        raise UsageError(f"dataset 'digits' has no split {split!r}, only {' and '.join(SPLITS)}")
    return list(_scans()[split])


@cache
def _scans() -> dict[str, list[Scan]]:
    rows = source_rows()
    labels = {f"digits/{index:04d}": int(row[64]) for index, row in enumerate(rows)}
    train, test = stratified_split(labels, DIGITS.num_examples)
    return {
        split: [
            Scan(id=example_id, target=labels[example_id], pixels=rows[int(example_id[-4:]), :64].reshape(8, 8))
            for example_id in ids
        ]
        for split, ids in (("train", train), ("test", test))
    }


def source_rows() -> NDArray[np.float64]:
    """Return the 64 pixels and the class of each scan, (1797, 65).

    They are read from scikit-learn's file, since importing ``sklearn.datasets`` takes as long as torch.
    """
    package = find_spec("sklearn")
    file = Path(str(package and package.origin)).parent / "datasets" / "data" / "digits.csv.gz"
    if not file.is_file():
        from sklearn.datasets import load_digits  # type: ignore[import-untyped]  # scikit-learn ships no types

        source = load_digits()
        return np.column_stack([source.data, source.target])
    with gzip.open(file, "rt", encoding="ascii") as lines:
        rows: NDArray[np.float64] = np.loadtxt(lines, delimiter=",")
    return rows


def by_id(scans: Sequence[Scan], images: NDArray[np.float32]) -> tuple[dict[str, int], dict[str, NDArray[np.float32]]]:
    """Return the class and the image (1, H, W) of each scan, from images (N, H, W), by its id."""
    shown = {scan.id: image[None] for scan, image in zip(scans, images, strict=True)}
    return {scan.id: scan.target for scan in scans}, shown


def enlarged(scans: Sequence[Scan]) -> NDArray[np.float32]:
    """Return the images (N, 32, 32) of scans in [0, 1]."""
    return enlarge(np.stack([scan.pixels for scan in scans]))


def enlarge(images: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return images (N, 8, 8) of 0..16 as (N, 32, 32) in [0, 1], bilinearly interpolated.

    Weights are eighths along each axis, so that a pixel is a whole number of 1024ths: exact in float32, on any machine.
    """
    weights = _eighths(images.shape[-1])
    return ((weights @ images.astype(np.int64) @ weights.T) / (64 * 16)).astype(np.float32)


def _eighths(size: int) -> NDArray[np.int64]:
    """Return (4 * size, size) interpolation weights, in eighths."""
    weights = np.zeros((SCALE * size, size), dtype=np.int64)
    for row in range(SCALE * size):
        # In eighths of a source pixel, the centre of target pixel r lies at 8 * ((r + 1/2) / 4 - 1/2).
        left, right_weight = divmod(2 * row - 3, 8)
        weights[row, max(left, 0)] += 8 - right_weight
        weights[row, min(left + 1, size - 1)] += right_weight
    return weights
