"""Scenes of digits: scikit-learn's handwritten digits on parts of its two photographs, with labels of all pixels.

A scene is a part of 48x48 pixels of a photograph at half its size, with four to seven digits where there is room. A
scan of 8x8 pixels is drawn at 16x16, bilinearly (half-pixel centres, edges clamped); its ink, 0 to 256, is the opacity
of a colour, which is the one of four random colours that differs most from the background there. Labels follow from it:
pixels of at least 160 are their digit, below 64 they keep the label from before, and in between are ignored. A later
digit covers an earlier one; their squares share at most 4 rows or columns.

Nothing is in both splits: digits are those of the split of ``digits``, and training scenes have the left three quarters
of the photographs, test scenes the last one. All is computed in whole numbers from per-example random words, so that
bytes are equal on every machine whose JPEG decoder reads the two photographs alike.
"""

import hashlib
from collections.abc import Iterator
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_sample_images  # type: ignore[import-untyped]  # scikit-learn ships no types

from robench.core.seeds import example_seed
from robench.datasets.arrays_impl import ArrayImages
from robench.datasets.digits_impl import split_scans
from robench.datasets.segmentation import DIGIT_SCENES
from robench.declarations.preprocessing import ImagePreprocessing
from robench.draws import Words
from robench.tasks.segmentation import IGNORED

SIDE: Final = 48
DIGIT_SIDE: Final = 16
FEWEST_DIGITS, MOST_DIGITS = 4, 7
LARGEST_OVERLAP: Final = 4
BACKGROUND: Final = 10
# Ink from which a pixel is of its digit, and below which it keeps its label.
STRONG, WEAK = 160, 64
_OPAQUE: Final = 256
_NUM_COLOURS: Final = 4
# Of the background: photograph, row and column; of each digit: scan, place and colours; and the number of digits.
_NUM_WORDS: Final = 4 + MOST_DIGITS * (2 + 3 * _NUM_COLOURS)
_PLACES: Final = SIDE - DIGIT_SIDE + 1


def made(split: str) -> ArrayImages:
    """Return the scenes of a split."""
    num_scenes = DIGIT_SCENES.num_examples_of(split) or 0
    ids = [f"{DIGIT_SCENES.name}/{split}/{number:04d}" for number in range(num_scenes)]
    pixels = np.empty((num_scenes, SIDE, SIDE, 3), dtype=np.uint8)
    targets = np.empty((num_scenes, SIDE, SIDE), dtype=np.int64)
    photographs, scans = backgrounds(split), split_scans(split)
    inks = drawn(np.stack([scan.pixels for scan in scans]))
    classes = np.array([scan.target for scan in scans])
    words = Words()
    for number, example_id in enumerate(ids):
        random = iter(words.of(example_seed(0, DIGIT_SCENES.name, "scene", example_id), _NUM_WORDS).tolist())
        pixels[number], targets[number] = _scene(photographs, inks, classes, random)
    digest = hashlib.sha256("\n".join(ids).encode())
    digest.update(pixels.tobytes())
    digest.update(targets.astype("<i8").tobytes())
    return ArrayImages(
        DIGIT_SCENES.name,
        pixels=pixels,
        targets=targets,
        fingerprint=digest.hexdigest(),
        num_classes=DIGIT_SCENES.num_classes,
        preprocessing=ImagePreprocessing(mean=(), std=()),
        ids=ids,
        task=DIGIT_SCENES.task,
    )


def backgrounds(split: str) -> list[NDArray[np.uint8]]:
    """Return the part (H, W, 3) of each photograph at half its size that the scenes of a split are cut from."""
    parts = []
    for photograph in _photographs():
        edge = photograph.shape[1] * 3 // 4
        parts.append(photograph[:, edge:] if split == "test" else photograph[:, :edge])
    return parts


@cache
def _photographs() -> list[NDArray[np.uint8]]:
    """Return china.jpg and flower.jpg, (213, 320, 3) each: the means of 2x2 pixels, rounded down."""
    halves = []
    for image in load_sample_images().images:
        height, width = image.shape[0] // 2, image.shape[1] // 2
        blocks = image[: 2 * height, : 2 * width].reshape(height, 2, width, 2, 3).astype(np.int64)
        halves.append((blocks.sum((1, 3)) // 4).astype(np.uint8))
    return halves


def drawn(scans: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the ink (N, 16, 16) of scans (N, 8, 8) of 0 to 16: whole numbers from 0 to 256."""
    size = scans.shape[-1]
    # Quarters: three of the nearest pixel and one of the next, which at an edge is the same.
    weights = np.zeros((2 * size, size), dtype=np.int64)
    for row in range(2 * size):
        nearest, other = row // 2, row // 2 + (1 if row % 2 else -1)
        weights[row, nearest] += 3
        weights[row, min(max(other, 0), size - 1)] += 1
    ink: NDArray[np.int64] = weights @ scans.astype(np.int64) @ weights.T
    return ink


def _scene(
    photographs: list[NDArray[np.uint8]], inks: NDArray[np.int64], classes: NDArray[np.int64], random: Iterator[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return pixels (48, 48, 3) and targets (48, 48) of one scene from its random words."""

    def below(bound: int) -> int:
        return next(random) * bound >> 64

    photograph = photographs[below(len(photographs))]
    top, left = (below(photograph.shape[axis] - SIDE + 1) for axis in (0, 1))
    pixels = photograph[top : top + SIDE, left : left + SIDE].astype(np.int64)
    targets = np.full((SIDE, SIDE), BACKGROUND)
    is_free = np.ones((_PLACES, _PLACES), dtype=np.bool_)
    for _ in range(FEWEST_DIGITS + below(MOST_DIGITS - FEWEST_DIGITS + 1)):
        free = np.flatnonzero(is_free)
        if not len(free):
            break
        row, column = divmod(int(free[below(len(free))]), _PLACES)
        reach = DIGIT_SIDE - LARGEST_OVERLAP - 1
        is_free[max(0, row - reach) : row + reach + 1, max(0, column - reach) : column + reach + 1] = False
        scan = below(len(inks))
        square = slice(row, row + DIGIT_SIDE), slice(column, column + DIGIT_SIDE)
        ink, behind = inks[scan], pixels[square]
        # The farthest of several colours can be seen on any background.
        levels = [next(random) >> 56 for _ in range(3 * _NUM_COLOURS)]
        colours = [levels[start : start + 3] for start in range(0, len(levels), 3)]
        red, green, blue = (behind.sum((0, 1)) // DIGIT_SIDE**2).tolist()
        colour = max(colours, key=lambda each: abs(each[0] - red) + abs(each[1] - green) + abs(each[2] - blue))
        opacity = ink[..., None]
        pixels[square] = (behind * (_OPAQUE - opacity) + np.array(colour) * opacity + _OPAQUE // 2) // _OPAQUE
        targets[square] = np.where(ink >= STRONG, classes[scan], np.where(ink < WEAK, targets[square], IGNORED))
    return pixels, targets
