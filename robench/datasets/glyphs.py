"""Characters rendered from fonts that ship with required libraries.

The fonts are an allow-list, since a font may lack a character and draw an empty box in its place. What FreeType draws
may differ by a grey level between releases of Pillow, which the fingerprint of a dataset made of it shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from PIL import Image, ImageDraw, ImageFilter, ImageFont

if TYPE_CHECKING:
    from collections.abc import Callable

# Side of the square canvas on which characters are drawn before they are reduced, in pixels.
CANVAS: Final = 96
_BITMAP_SCALE: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Font:
    """Text font with all letters and digits.

    Attributes:
        draw: function that returns a character as a mask, white on black.
        max_weight: maximum growth of strokes before the holes of characters close, see ``Style.weight``.
    """

    name: str
    source: str
    draw: Callable[[str], Image.Image]
    max_weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """Style of a rendered character.

    Attributes:
        weight: pixels of the canvas by which strokes grow on each side.
        slant: shift of the top to the right, as a fraction of the height.
        angle: counterclockwise, in degrees.
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
