"""Look of figures: sizes and fonts, colours, markers and dashes, and texts that are never mathematics.

Colours are those of Okabe and Ito (2008), which readers with any colour vision distinguish, without the yellow that is
too light on white. Markers and dashes differ too, so that a grey print does.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ft2font import FT2Font
from matplotlib.text import Text

from robench.core.checkpoint import entry_name
from robench.core.inert import clipped
from robench.figures.plots import Plot

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (3, 1, 1, 1, 1, 1)))
NEUTRAL = "#555555"
NAME_WIDTH = 32
FONT = "DejaVu Sans"
SIZE = 8.0
# What a name says is never mathematics, and no font of the machine is used but matplotlib's own.
SETTINGS: Any = {
    "text.parse_math": False,
    "text.usetex": False,
    "axes.formatter.use_mathtext": False,
    "font.family": [FONT],
    "font.size": SIZE,
    "axes.titlesize": SIZE,
    "axes.labelsize": SIZE,
    "xtick.labelsize": SIZE,
    "ytick.labelsize": SIZE,
    "legend.fontsize": SIZE,
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
    "pgf.texsystem": "pdflatex",
    "pgf.rcfonts": False,
}
# Signs that LaTeX does not print as they are.
_LATEX = {each: f"\\{each}" for each in "{}_$&#%"} | {
    "\\": r"\textbackslash{}",
    **{each: rf"\{each}{{}}" for each in "^~"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "—": "---", "…": r"\ldots{}"},
}


@contextmanager
def settings() -> Iterator[None]:
    """Draw under robench's settings and none of the user's, which are restored."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        yield


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """Look of one model's points and lines."""

    colour: str
    marker: str
    dashes: Any


def style_of(look: int, place: int) -> Style:
    """Return colour and marker by the model's number, different for 56 in a row, and dashes by its place."""
    return Style(
        colour=COLOURS[look % len(COLOURS)], marker=MARKERS[look % len(MARKERS)], dashes=DASHES[place % len(DASHES)]
    )


def looks_of(plot: Plot, registry: Iterable[str]) -> tuple[int, ...]:
    """Return the number of each model's colour and marker, the same in all figures and for all seeds of an entry.

    It is the place of the entry among the names of the registry; without one, a checksum of the name.
    """
    places = {name: place for place, name in enumerate(dict.fromkeys(map(entry_name, registry)))}

    def look_of(model: str) -> int:
        name = entry_name(model)
        return places.get(name, crc32(name.encode("utf-8", "backslashreplace")))

    return tuple(each if isinstance(each, int) else look_of(each) for each in plot.looks or plot.models)


def legible(text: str, width: int = NAME_WIDTH) -> str:
    """Return text of at most ``width`` characters that the font has; invisible and other characters are escaped."""
    shown = "".join(
        each if ord(each) in _glyphs() else each.encode("unicode_escape").decode("ascii")
        for each in clipped(text, width)
    )
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


def escape_texts(figure: Figure) -> None:
    """Replace each text of a figure by one that pdflatex prints as it was; signs that it may not have are escaped."""
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        labels = [text.get_text() for text in axis.get_ticklabels()]
        if (escaped := list(map(_in_latex, labels))) != labels:
            axis.set_ticks(axis.get_ticklocs(), escaped)
    for text in figure.findobj(Text):
        text.set_text(_in_latex(text.get_text()))


def _in_latex(text: str) -> str:
    # The minus of numbers is matplotlib's, which sets it itself.
    known = (each if each.isascii() or each in "\u2212—…" else each.encode("unicode_escape").decode() for each in text)
    return "".join(_LATEX.get(each, each) for part in known for each in part)


@cache
def _glyphs() -> frozenset[int]:
    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{FONT.replace(' ', '')}.ttf"
    return frozenset(FT2Font(str(path)).get_charmap())
