"""Masks as pictures: colours of classes for colour-blind eyes too, hatched where no answer counts, a legend.

A mask is an array (H, W) of classes from 0, below 0 at pixels that count nowhere.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from robench.core.errors import UsageError
from robench.core.inert import clipped

Mask = NDArray[Any]
Colour = tuple[int, int, int]

# The eight colours of Okabe and Ito (2008), https://jfly.uni-koeln.de/color, black last; then their lighter, darker and
# greyer variants, each the one farthest from the stripes and all before it: by the smallest distance in CIELAB to
# normal, protanopic, deuteranopic and tritanopic eyes (Machado et al. 2009, doi:10.1109/TVCG.2009.113).
_TABLE = (
    "e69f00 56b4e9 009e73 f0e442 0072b2 d55e00 cc79a7 000000 5c2900 12374b 8e5427 a6d7f3 d0a953 606060 341700 c1c1c1 "
    "303030 005280 80b3d0 001c2c dcbea5 ad4c00 946c82 4e4b2a b77643 e9aa78 853a00 ecdacc 958e29 308dc1 efc360 00805d "
    "c2dbe8 00533d 4c2d15 200e00 324a58 a0bdce d0c971 f8f3ad 181818 86c9ef c6936a 76a1b8 d09000 a9a9a9 00111b 23678e "
    "58451c 636036 f4d590 797542 4f3a46 4ea3d3 91732e 1c2a32 703200 d6edfa d9d9d9 be8457 3d5a6b 527b91 994300 c3b936 "
    "d5af92 fdfbe3 c15500 e4ccb9 006248 835f73 90c2de f7dea9 8bafc3 482000 194a66 edba48 004432 007152 a67891 d9ce3c "
    "b4ccd9 f4ec78 7e4a22 cba8bb 008f68 0f2d3d b8913b f1c8a9 bab465 222113 3e81a7 f3e8e0 30b08d a58235 476b7e 3b2310 "
    "38361f 2d2127 164058 e5de7d a9cfe5 2d5f7b f9e8c1 e18c48 00271c 787878 689bb8 aca32f 484848 e6f4fc c6e6f8 edb990 "
    "b6def5 96d0f1 76c2ed be91aa dee8ee 8f8a4e cda17e e59b60 111a1e 8fc1b3 e0cad6 003627 18a780 48b99b d2b3c4 d9bfcd "
    "73abcb 725364 539f8a c49cb2 489ac8 387698 273a45 604655 d96d18 b5d3e4 cfe3ed af6830 ede7a2 0c2330 f7f1e2 e3cd9b "
    "dfc489 cba041 9bc3da dabb77 3e947d 795400 5d3719 005c90 452939 7f7823 091923 a49f59 0067a1 8dbbd5 9f5e2b e8a818 "
    "f2cc78 1e180a 2a896f 001811 eed2e1 78b5d6 f5d8c1 00273c faf6bf b7d7ce 231800 e8d6ad 60c3a8 514d16 367091 00314d "
    "6192ae 66bbeb 1a1007 f9e7d9 187fb9 dd7c30 fbf8d1 fbf1d9 2b190c ebb130 f3dee9 f3e966 1d3d4f 68631d 16483b b785a1 "
    "67ab98 d9eaf3 0e2e26 b96e97 267c65 eaf2f7 f7f19b 3b3810 f1eeba 0a221b a56287 e4b8d1 1c5473 d186af a8cbdf 925778 "
    "eddfbf 050f15 efeaae dfacc8 f2e8d1 78ccb5 24220a 1f1219 123b30 f6ee89 eae495 909090 6b5522 3e2d36 382700 003c5e "
    "f1e754 00476f f4f1c7 4692bd c1e7dd e8e189 254e65 f9f7df c1ddec 226f5a 7f4b68 7e6428 bb8100 a57200 1a5545 d5b265 "
    "453616 ddebf2 f6f4d3 4c84a3 321e29 da9fc0 322710 e7d6df 90d5c2 6d411e 0d1b23 1e6250 583448 60a7cf 152c39 "
)
COLOURS: tuple[Colour, ...] = tuple(
    (int(each[:2], 16), int(each[2:4], 16), int(each[4:], 16)) for each in _TABLE.split()
)
# Index in PNG files of pixels that count nowhere.
UNCOUNTED = len(COLOURS)
# Of stripes there, four pixels each.
_STRIPES = np.array([(235, 235, 235), (150, 150, 150)], np.uint8)
_SWATCH, _LINE, _WIDTH = 11, 15, 118


def indexed(mask: Mask) -> Image.Image:
    """Return a mask as an image whose indices are its classes, transparent (``UNCOUNTED``) where it is below 0.

    Raises:
        UsageError: it is not (H, W), or has a class without a colour.
    """
    _check(mask)
    image = Image.fromarray(np.where(mask < 0, UNCOUNTED, mask).astype(np.uint8), mode="P")
    image.putpalette([level for colour in (*COLOURS, (128, 128, 128)) for level in colour])
    image.info["transparency"] = UNCOUNTED
    return image


def hatched(mask: Mask, scale: int = 1) -> Image.Image:
    """Return a mask in its colours, enlarged by a whole factor, with grey stripes where it is below 0."""
    levels = np.array(indexed(mask).convert("RGB")).repeat(scale, 0).repeat(scale, 1)
    rows, columns = np.indices(levels.shape[:2])
    is_uncounted = (mask < 0).repeat(scale, 0).repeat(scale, 1)
    levels[is_uncounted] = _STRIPES[(rows + columns) // 4 % 2][is_uncounted]
    return Image.fromarray(levels)


def classes_in(masks: Sequence[Mask]) -> list[int]:
    """Return the classes that occur in some masks, ascending, below 0 left out; refuse masks as ``indexed`` does."""
    for mask in masks:
        _check(mask)
    found = {int(each) for mask in masks for each in np.unique(mask)}
    return sorted(each for each in found if each >= 0)


def _check(mask: Mask) -> None:
    if mask.ndim != 2:
        raise UsageError(f"only masks (H, W) can be drawn, got shape {mask.shape}")
    if mask.size and mask.max() >= UNCOUNTED:
        raise UsageError(
            f"masks of at most {UNCOUNTED} classes can be drawn, got class {mask.max()}; outcomes of such examples are"
            " in the tables of 'robench export'"
        )


def name_of(number: int, names: Sequence[str]) -> str:
    """Return the name of a class, or its number where the dataset has no names."""
    return names[number] if number < len(names) else str(number)


def hex_of(colour: Colour) -> str:
    """Return a colour as in style sheets, such as ``#e69f00``."""
    return "#{:02x}{:02x}{:02x}".format(*colour)


def legend_of(masks: Sequence[Mask], names: Sequence[str], width: int) -> Image.Image:
    """Return the colours and names of the classes in some masks, and the stripes if there are any, in columns."""
    entries: list[tuple[Image.Image, str]] = [
        (Image.new("RGB", (_SWATCH, _SWATCH), COLOURS[each]), name_of(each, names)) for each in classes_in(masks)
    ]
    if any((mask < 0).any() for mask in masks):
        entries.append((hatched(np.full((_SWATCH, _SWATCH), -1)), "not counted"))
    columns = max(1, width // _WIDTH)
    picture = Image.new("RGB", (width, -(-len(entries) // columns) * _LINE), "white")
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(size=11)
    for place, (swatch, name) in enumerate(entries):
        row, column = divmod(place, columns)
        picture.paste(swatch, (column * _WIDTH, row * _LINE + 2))
        shown = clipped(name, 40)
        while font.getlength(shown) > _WIDTH - _SWATCH - 10:
            shown = shown[:-1]
        pen.text((column * _WIDTH + _SWATCH + 4, row * _LINE), shown, fill=(0, 0, 0), font=font)
    return picture
