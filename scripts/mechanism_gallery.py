"""Draws docs/gallery/mechanisms (``make pictures``), and has the table of docs/gallery.md that shows them.

A picture a mechanism: similarity of tokens by layer and milliseconds by the number of tokens, both beside softmax
attention's, and the class token's attention, clean and attacked. All numbers are those of reports/mechanisms.json and
growth.json, which ``scripts/mechanism_numbers.py`` measures.
"""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from robench.attention import ATTENTIONS
from robench.figures.plots import LinePanel, MapPanel, Plot, Series
from robench.leaderboard.board import Point

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from matplotlib.figure import Figure

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "gallery" / "mechanisms"
TABLE = re.compile(r"(?<=<!-- mechanisms -->\n).*?(?=<!-- /mechanisms -->)", re.DOTALL)
NUMBERS: dict[str, Any] = json.loads((ROOT / "reports" / "mechanisms.json").read_text())
GROWTH: dict[str, Any] = json.loads((ROOT / "reports" / "growth.json").read_text())
BASELINE = "softmax"
# Conditions of the heat maps, with what their titles say.
CONDITIONS = {"clean": "clean", NUMBERS["condition"]: "attacked"}
ATTACK = "PGD at 8/255"
TICKS = (64, 256, 1024)
# Leaves 20 steps of the maps' scale of colours, and a quarter of the bytes.
DOTS_PER_INCH = 150
NUM_COLOURS = 80
MILLISECONDS = 1e3


def page(text: str) -> str:
    """Return the page with the table of the measured numbers."""
    return TABLE.sub(lambda found: "".join(f"{line}\n" for line in table()), text)


def table() -> Iterator[str]:
    """Yield the lines of the table: a row for each kind of attention, with or without a model of the digits."""
    yield "| mechanism | clean, % | attacked, % | attention moved, % | similarity | exponent | picture |"
    yield "|---|---:|---:|---:|---:|---:|---|"
    for kind in ATTENTIONS.builtin:
        found, name = NUMBERS["mechanisms"].get(kind), f"[`{kind}`](attention.md#{kind})"
        if found is None:
            yield f"| {name}, no model of the digits | | | | | | |"
            continue
        alt = f"{kind}: tokens' similarity, milliseconds{', heat maps' if found['maps'] else ''}"
        picture = f'<img src="gallery/mechanisms/{kind}.png" alt="{alt}" width="440">'
        yield f"| {name}, `{found['model']}` | {' | '.join(seen(kind))} | {picture} |"


def seen(kind: str) -> Iterator[str]:
    """Yield what a picture shows, in numbers."""
    found = NUMBERS["mechanisms"][kind]
    for condition in CONDITIONS:
        yield f"{100 * found['accuracy'][condition]['values']:.0f}"
    yield f"{100 * found['change']['values']:.1f}" if found["change"] else "no weights"
    yield f"{found['similarity']['values'][-1]:.3f}"
    yield f"{GROWTH['mechanisms'][kind]['exponents']['seconds']:.2f}"


def plot(kind: str) -> Plot:
    """Return the plot of a mechanism: lines with a legend, then heat maps where there are weights."""
    found = NUMBERS["mechanisms"][kind]
    kinds = list(dict.fromkeys((BASELINE, kind)))
    lines = (_similarity(kinds), _costs(kinds))
    maps = tuple(_map(found, condition) for condition in CONDITIONS) if found["maps"] else ()
    return Plot(
        panels=(*lines, *maps),
        models=tuple(kinds),
        labels=tuple(kinds),
        notes=tuple(_notes(found, [NUMBERS["mechanisms"][each]["model"] for each in kinds])),
        columns=2,
    )


def _similarity(kinds: Sequence[str]) -> LinePanel:
    series = []
    for kind in kinds:
        found = NUMBERS["mechanisms"][kind]["similarity"]
        series.append(Series(model=kind, points=_points(range(len(found["values"])), found, "values")))
    return LinePanel(
        title="cosine similarity of tokens",
        x_label="blocks passed (0: embedding)",
        y_label="mean over pairs of tokens",
        ticks=(),
        series=tuple(series),
        is_per_cent=False,
    )


def _costs(kinds: Sequence[str]) -> LinePanel:
    series = []
    for kind in kinds:
        seconds = GROWTH["mechanisms"][kind]["seconds"]
        scaled = {name: [MILLISECONDS * each for each in values] for name, values in seconds.items()}
        series.append(Series(model=kind, points=_points(GROWTH["tokens"], scaled, "median")))
    return LinePanel(
        title="cost of one layer, 192 wide",
        x_label="tokens",
        y_label="forward pass (ms)",
        ticks=(),
        series=tuple(series),
        is_per_cent=False,
        is_logarithmic=True,
        is_logarithmic_in_y=True,
    )


def _points(places: Sequence[int], found: Mapping[str, Sequence[float]], middle: str) -> tuple[Point, ...]:
    rows = zip(places, found[middle], found["low"], found["high"], strict=True)
    return tuple(Point(x=float(x), value=value, low=low, high=high) for x, value, low, high in rows)


def _map(found: Mapping[str, Any], condition: str) -> MapPanel:
    values = found["maps"][condition]
    return MapPanel(
        title=f"layer {found['layer']}, {CONDITIONS[condition]}",
        x_label="column of patches",
        y_label="row of patches",
        x=tuple(map(float, range(len(values[0])))),
        y=tuple(map(float, range(len(values)))),
        values=tuple(map(tuple, values)),
        label="attention of class token",
    )


def _notes(found: Mapping[str, Any], models: Sequence[str]) -> Iterator[str]:
    count, passes = NUMBERS["count"], GROWTH["protocol"]["repeats"]
    yield f"{' and '.join(models)}, one training seed, {count} examples of digits; whiskers: Student's t 95 %."
    yield f"Cost: {GROWTH['device']}, {GROWTH['threads']} thread, median and quartiles of {passes} passes."
    if found["maps"]:
        yield f"Maps: means of heads and examples, largest of each is 1; {ATTACK}."
    else:
        yield f"No heat maps: layer {found['layer']} has no weights."


def figure_of(kind: str) -> Figure:
    """Return the figure of a mechanism, with one scale of colours for both heat maps."""
    # Imported here: the table is written without matplotlib.
    from matplotlib.ticker import FixedLocator, NullLocator

    from robench.figures.draw import drawn

    declared = plot(kind)
    figure = drawn(declared, 5.5)
    figure.axes[1].xaxis.set_major_locator(FixedLocator(TICKS))
    figure.axes[1].xaxis.set_minor_locator(NullLocator())
    maps = [panel for panel in declared.panels if isinstance(panel, MapPanel)]
    largest = max((value for panel in maps for row in panel.values for value in row), default=0.0)
    for axes in figure.axes:
        for image in axes.images:
            image.set_clim(0.0, largest)
    return figure


def picture(kind: str) -> bytes:
    """Return the picture of a mechanism as a PNG of few colours."""
    from robench.figures.draw import settings

    drawn, content = io.BytesIO(), io.BytesIO()
    with settings():
        figure_of(kind).savefig(drawn, format="png", dpi=DOTS_PER_INCH, facecolor="white")
    few = (
        Image.open(drawn)
        .convert("RGB")
        .quantize(NUM_COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    )
    few.save(content, "png", optimize=True)
    return content.getvalue()


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for each in NUMBERS["mechanisms"]:
        (FOLDER / f"{each}.png").write_bytes(picture(each))
