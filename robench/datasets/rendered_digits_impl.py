"""Openers of ``digits-r`` and ``digits-o``: characters rendered from fonts in random styles.

Analogues of ImageNet-R and ImageNet-O (Hendrycks et al. 2021, arXiv:2006.16241 and 1907.07174): known classes in
another medium, and unknown classes that look like the known ones. Here rendered digits are coloured, rotated, slanted
and of several weights, at full resolution; letters are 8x8 pixels of 17 levels, enlarged as the scans are, so that they
differ from digits in content alone.

Every example's draws are a function of its id alone.
"""

from __future__ import annotations

from string import ascii_letters
from typing import TYPE_CHECKING, Final

import numpy as np

from robench.core.seeds import Stream, example_seed, stream_seed
from robench.datasets.digits import DIGITS_O, DIGITS_R
from robench.datasets.digits_impl import IMAGE_SIZE, enlarge
from robench.datasets.glyphs import FONTS, Style, draw, fit
from robench.datasets.in_memory import InMemoryImages

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL import Image

# The same shapes as the digits 0, 1, 5 and 2, in upper and in lower case.
NOT_LETTERS: Final = "OoIlSsZz"
LETTERS: Final = "".join(letter for letter in ascii_letters if letter not in NOT_LETTERS)
DIGITS_PER_CLASS: Final = DIGITS_R.num_examples // DIGITS_R.num_classes
EXAMPLES_PER_LETTER: Final = DIGITS_O.num_examples // len(LETTERS)
_MAX_ANGLE: Final = 15.0
_MAX_SLANT: Final = 0.25
# Few scans of digits are wider, of 8 columns.
_SCAN_WIDTH: Final = 6
_DARKEST_INK: Final = 0.6
_LIGHTEST_PAPER: Final = 0.3


def rendered_digits() -> InMemoryImages:
    """Return ``digits-r``: equally many of each digit, light ink on dark paper as in the scans, both coloured."""
    targets = {f"digits-r/{digit}/{number:02d}": digit for digit in range(10) for number in range(DIGITS_PER_CLASS)}
    return InMemoryImages(DIGITS_R.name, targets, {each: _rendition(each, digit) for each, digit in targets.items()})


def rendered_letters() -> InMemoryImages:
    """Return ``digits-o``: equally many of each letter, all labelled 0 since none has a class."""
    letters = {
        f"digits-o/{ord(letter):02x}/{number:02d}": letter
        for letter in LETTERS
        for number in range(EXAMPLES_PER_LETTER)
    }
    pixels = enlarge(np.stack([_scanned(example_id, letter) for example_id, letter in letters.items()]))
    return InMemoryImages(
        DIGITS_O.name,
        dict.fromkeys(letters, 0),
        {example_id: image[None] for example_id, image in zip(letters, pixels, strict=True)},
    )


def _rendition(example_id: str, digit: int) -> NDArray[np.float32]:
    """Return (3, 32, 32) values that are whole grey levels."""
    lot = _Lot(example_id)
    mask = _drawn(str(digit), lot)
    height = 24 + lot.below("height", 7)
    share = np.asarray(fit(mask, height, IMAGE_SIZE - 4, IMAGE_SIZE), dtype=np.float64) / 255
    ink = np.array([lot.between(f"ink {channel}", _DARKEST_INK, 1.0) for channel in "rgb"])
    paper = np.array([lot.between(f"paper {channel}", 0.0, _LIGHTEST_PAPER) for channel in "rgb"])
    blended: NDArray[np.float64] = paper[:, None, None] + (ink - paper)[:, None, None] * share
    return (blended * 255).round().astype(np.float32) / np.float32(255)


def _scanned(example_id: str, letter: str) -> NDArray[np.float64]:
    """Return (8, 8) values of 0..16, like the source of the digits."""
    lot = _Lot(example_id)
    return np.round(np.asarray(fit(_drawn(letter, lot), 8, _SCAN_WIDTH, 8), dtype=np.float64) * 16 / 255)


def _drawn(character: str, lot: _Lot) -> Image.Image:
    font = FONTS[lot.below("font", len(FONTS))]
    style = Style(
        weight=lot.below("weight", font.max_weight + 1),
        slant=lot.between("slant", -_MAX_SLANT / 2, _MAX_SLANT),
        angle=lot.between("angle", -_MAX_ANGLE, _MAX_ANGLE),
    )
    return draw(character, font, style)


class _Lot:
    """Per-example random draws: the same on every machine, in every release of numpy."""

    def __init__(self, example_id: str) -> None:
        self._seed = example_seed(0, "fonts", "render", example_id)

    def between(self, purpose: str, low: float, high: float) -> float:
        return low + (high - low) * stream_seed(self._seed, Stream(purpose=purpose)) / 2**64

    def below(self, purpose: str, bound: int) -> int:
        return stream_seed(self._seed, Stream(purpose=purpose)) * bound >> 64
