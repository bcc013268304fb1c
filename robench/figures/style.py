"""Looks of figures: colours, markers and dashes by the place of a model, sizes, and names as inert text.

Colours are those of Okabe and Ito (2008), which readers with any colour vision distinguish, without the yellow that is
too light on white. Markers and dashes differ too, so that a grey print does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.ft2font import FT2Font

from robench.core.inert import clipped

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (3, 1, 1, 1, 1, 1)))
NEUTRAL = "#555555"
NAME_WIDTH, TITLE_WIDTH = 32, 30
FONT = "DejaVu Sans"
SMALL, TINY = 7.5, 6.5
# What a name says is never mathematics, and no font of the machine is used but matplotlib's own.
SETTINGS: Any = {
    "text.parse_math": False,
    "text.usetex": False,
    "axes.formatter.use_mathtext": False,
    "font.family": [FONT],
    "font.size": SMALL,
    "axes.titlesize": SMALL,
    "axes.labelsize": SMALL,
    "xtick.labelsize": TINY,
    "ytick.labelsize": TINY,
    "legend.fontsize": SMALL,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "figure.dpi": 100,
    "svg.fonttype": "path",
    "svg.hashsalt": "robench",
    # Fonts as outlines that journals take (TrueType), and not as bitmaps or Type 3.
    "pdf.fonttype": 42,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """Look of one model's points and lines."""

    colour: str
    marker: str
    dashes: Any


def style_of(place: int) -> Style:
    """Return the look of the model at this place, counted from 0; the first 40 differ without colours too."""
    return Style(
        colour=COLOURS[place % len(COLOURS)], marker=MARKERS[place % len(MARKERS)], dashes=DASHES[place % len(DASHES)]
    )


def legible(text: str, width: int = NAME_WIDTH) -> str:
    """Return text of at most ``width`` characters that the font has; invisible and other characters are escaped."""
    shown = "".join(each if ord(each) in _glyphs() else _escape(each) for each in clipped(text, width))
    return clipped(shown, width)


def legible_names(names: Sequence[str]) -> list[str]:
    """Return names for a legend, which stay different where truncation made them equal."""
    found: list[str] = []
    for name in names:
        shown, number = legible(name), 1
        while shown in found:
            number += 1
            shown = f"{legible(name, NAME_WIDTH - 5)} ({number})"
        found.append(shown)
    return found


_GLYPHS: set[int] = set()


def _glyphs() -> set[int]:
    if not _GLYPHS:
        path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{FONT.replace(' ', '')}.ttf"
        _GLYPHS.update(FT2Font(str(path)).get_charmap())
    return _GLYPHS


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
