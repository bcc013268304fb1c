"""Natural shifts of the digits: hard ones, their edges, and characters rendered from fonts in random styles.

Digits and letters from fonts are analogues of ImageNet-R and ImageNet-O (Hendrycks et al. 2021, arXiv:2006.16241 and
1907.07174): known classes in another medium, and unknown classes that look like the known ones. Rendered digits are
coloured, rotated, slanted and of several weights, at full resolution; letters are 8x8 pixels of 17 levels, enlarged as
the scans are, so that they differ from digits in content alone. Every example's draws are a function of its id alone.

The fonts ship with required libraries and are an allow-list, since a font may lack a character and draw an empty box in
its place. What FreeType draws may differ by a grey level between releases of Pillow, which the fingerprint of a dataset
made of it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from string import ascii_letters
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter, ImageFont
from sklearn.linear_model import RidgeClassifier  # type: ignore[import-untyped]  # scikit-learn ships no types
from sklearn.naive_bayes import BernoulliNB, MultinomialNB  # type: ignore[import-untyped]
from sklearn.tree import DecisionTreeClassifier  # type: ignore[import-untyped]

from robench.core.seeds import Stream, example_seed, stream_seed
from robench.datasets.digits import DIGITS_A, DIGITS_O, DIGITS_R, DIGITS_SKETCH
from robench.datasets.digits_impl import IMAGE_SIZE, Scan, by_id, enlarge, enlarged, split_scans
from robench.datasets.in_memory import InMemoryImages

MIN_MISTAKES: Final = 2
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
# Side of the square canvas on which characters are drawn before they are reduced, in pixels.
CANVAS: Final = 96
_BITMAP_SCALE: Final = 8


def hard_digits() -> InMemoryImages:
    """Return ``digits-a``, the test digits that weak classifiers misclassify, unchanged.

    Analogue of ImageNet-A (Hendrycks et al. 2021, arXiv:1907.07174: photographs that a ResNet-50 misclassifies). Four
    weak classifiers are trained on the training digits; an image counts as hard if at least two of them are wrong.
    Their mistakes are specific: a model that learns differently need not share them.
    """
    test = split_scans("test")
    hard = [
        scan for scan, wrong in zip(test, mistakes(split_scans("train"), test), strict=True) if wrong >= MIN_MISTAKES
    ]
    return InMemoryImages(DIGITS_A.name, *by_id(hard, enlarged(hard)))


def mistakes(train: Sequence[Scan], test: Sequence[Scan]) -> NDArray[np.int64]:
    """Return the number (N,) of weak classifiers trained on ``train`` that misclassify each of ``test``."""
    inputs, targets = _table(train)
    questions, answers = _table(test)
    classifiers = (BernoulliNB(binarize=8), MultinomialNB(), RidgeClassifier(), DecisionTreeClassifier(random_state=0))
    wrong = [classifier.fit(inputs, targets).predict(questions) != answers for classifier in classifiers]
    counts: NDArray[np.int64] = np.sum(wrong, axis=0, dtype=np.int64)
    return counts


def _table(scans: Sequence[Scan]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    return np.stack([scan.pixels.ravel() for scan in scans]), np.array([scan.target for scan in scans])


def sketched_digits() -> InMemoryImages:
    """Return ``digits-sketch``, the edges of the test digits; the example and its id are the test digit's.

    Analogue of ImageNet-Sketch (Wang et al. 2019, arXiv:1905.13549), computed instead of drawn.
    """
    scans = split_scans("test")
    return InMemoryImages(DIGITS_SKETCH.name, *by_id(scans, sketch(enlarged(scans))))


def sketch(images: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the edges of images (N, H, W), in [0, 1], of the same shape; an image without edges is black.

    The strength of an edge is the sum of the horizontal and the vertical Sobel derivative, each without its sign,
    divided by the largest of its image. Strokes become outlines, light on dark as strokes were.

    Pixels beyond the border are taken to be those on it. Enlarged digits are whole numbers of 1024ths, so that all
    sums are exact.
    """
    padded = np.pad(images.astype(np.float64), ((0, 0), (1, 1), (1, 1)), mode="edge")
    smoothed_down = padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]
    smoothed_across = padded[:, :, :-2] + 2 * padded[:, :, 1:-1] + padded[:, :, 2:]
    across = smoothed_down[:, :, 2:] - smoothed_down[:, :, :-2]
    down = smoothed_across[:, 2:] - smoothed_across[:, :-2]
    strength = np.abs(across) + np.abs(down)
    strongest = strength.max(axis=(1, 2), keepdims=True)
    return (strength / np.where(strongest > 0, strongest, 1)).astype(np.float32)


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
    opacity = np.asarray(fit(mask, height, IMAGE_SIZE - 4, IMAGE_SIZE), dtype=np.float64) / 255
    ink = np.array([lot.between(f"ink {channel}", _DARKEST_INK, 1.0) for channel in "rgb"])
    paper = np.array([lot.between(f"paper {channel}", 0.0, _LIGHTEST_PAPER) for channel in "rgb"])
    blended: NDArray[np.float64] = paper[:, None, None] + (ink - paper)[:, None, None] * opacity
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Font:
    """Text font with all letters and digits, which ``draw`` returns as masks, white on black.

    Strokes may grow by ``max_weight`` (``Style.weight``) before the holes of characters close.
    """

    name: str
    source: str
    draw: Callable[[str], Image.Image]
    max_weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """Style of a rendered character.

    Strokes grow by ``weight`` pixels of the canvas on each side, the top moves to the right by ``slant`` heights, and
    all turns counterclockwise by ``angle`` degrees.
    """

    weight: int
    slant: float
    angle: float


def draw(character: str, font: Font, style: Style) -> Image.Image:
    """Return a character as a mask, white on black, cropped to its bounding box."""
    mask = _cut(font.draw(character))
    if style.weight > 0:
        grown = 2 * style.weight
        mask = _padded(mask, grown, grown).filter(ImageFilter.MaxFilter(2 * style.weight + 1))
    lean = round(abs(style.slant) * mask.height)
    if lean:
        mask = _padded(mask, lean, 0)
        shear = (1, style.slant, -style.slant * mask.height / 2, 0, 1, 0)
        mask = mask.transform(mask.size, Image.Transform.AFFINE, shear, Image.Resampling.BILINEAR)
    return _cut(mask.rotate(style.angle, Image.Resampling.BILINEAR, expand=True))


def fit(mask: Image.Image, height: int, max_width: int, side: int) -> Image.Image:
    """Return a mask scaled to ``height``, or less to keep it within ``max_width``, centred in a square."""
    scale = min(height / mask.height, max_width / mask.width)
    size = (max(1, round(mask.width * scale)), max(1, round(mask.height * scale)))
    square = Image.new("L", (side, side))
    square.paste(mask.resize(size, Image.Resampling.BOX), ((side - size[0]) // 2, (side - size[1]) // 2))
    return square


def _draw_outline(character: str) -> Image.Image:
    return _written(character, _outlines(), CANVAS)


def _draw_bitmap(character: str) -> Image.Image:
    small = _cut(_written(character, _bitmaps(), CANVAS // _BITMAP_SCALE))
    large = small.resize((small.width * _BITMAP_SCALE, small.height * _BITMAP_SCALE), Image.Resampling.BICUBIC)
    # Steps of single pixels become strokes.
    return large.point(lambda value: 255 if value > 96 else 0)


@cache
def _outlines() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(CANVAS * 0.75)


@cache
def _bitmaps() -> ImageFont.ImageFont:
    return ImageFont.load_default_imagefont()


def _written(character: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, side: int) -> Image.Image:
    canvas = Image.new("L", (side, side))
    ImageDraw.Draw(canvas).text((side // 8, 0), character, fill=255, font=font)
    return canvas


def _cut(mask: Image.Image) -> Image.Image:
    box = mask.getbbox()
    if box is None:
        raise ValueError("the font has no such character")
    return mask.crop(box)


def _padded(mask: Image.Image, sideways: int, upright: int) -> Image.Image:
    padded = Image.new("L", (mask.width + 2 * sideways, mask.height + 2 * upright))
    padded.paste(mask, (sideways, upright))
    return padded


FONTS: Final = (
    Font(name="aileron", source="Aileron Regular, in Pillow (CC0)", draw=_draw_outline, max_weight=3),
    Font(
        name="courier",
        source="Courier bold of 8 pixels, from the X Window System, in Pillow",
        draw=_draw_bitmap,
        max_weight=0,
    ),
)
