"""Reader of the papers' figures: what each shows, and the results that it is drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge, Le, MinLen

from robench.core.errors import UnknownNameError
from robench.declare.document import Problem
from robench.declare.fields import Name
from robench.declare.published import Position, Spelling, Text
from robench.declare.schema import attempt, construct
from robench.declare.shipped import shipped_folder
from robench.declare.yaml_source import read_yaml

Draws = Literal["budget", "seeds", "training", "analysis", "sizes"]
Test = Literal["falls", "rises", "above", "stays"]
MOST_EXAMPLES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Results that a figure is drawn from.

    Attributes:
        models: entries of the registry; ``dataset`` or ``suite``: what they are measured on.
        condition: condition of the suite, of an analysis of perturbed examples.
        all_seeds: whether lines are means over training seeds.
    """

    models: Annotated[tuple[Text, ...], MinLen(1)]
    dataset: Text | None = None
    suite: Text | None = None
    condition: Text | None = None
    all_seeds: bool = False

    @property
    def data(self) -> str:
        """Return the name of the suite, or else of the dataset."""
        return self.suite or self.dataset or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """Statement on the shape of a printed figure, which is tested.

    Attributes:
        test: ``falls`` or ``rises``: by a least-squares fit of the line over the places, on their logarithms
            where the axis is logarithmic; ``above``: the mean of the line is above that of ``than``; ``stays``: the
            last value is at least half the first.
        panel: text of the title of the panels; ``line``, ``than``: labels of lines.
    """

    test: Test
    panel: Text
    line: Text
    than: Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Part of a figure, with a file of its own.

    Attributes:
        part: its name, such as ``left``; empty for a figure of one part.
        draws: how it is drawn; ``panels``: texts of the titles of its panels, none for all.
        analysis, settings, count: analysis, its fields, and its number of examples.
        epochs: whether it is of each epoch of the training.
        sizes: models by label of their line, in the order of ``ticks``, the names of their sizes.
        open: what the print leaves open, on which the verdicts depend.
        paper, twin: results of the print, and of its counterpart on small data; neither for formulas and sizes.
    """

    draws: Draws
    part: str = ""
    panels: tuple[Text, ...] = ()
    analysis: Text | None = None
    settings: Mapping[Text, Spelling] = field(default_factory=dict)
    epochs: bool = False
    count: Annotated[int, Ge(1), Le(MOST_EXAMPLES)] = 100
    sizes: Mapping[Text, tuple[Text, ...]] = field(default_factory=dict)
    ticks: tuple[Text, ...] = ()
    paper: Source | None = None
    twin: Source | None = None
    expected: tuple[Expectation, ...] = ()
    open: Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureEntry:
    """Figure in the file; ``drawn_as`` is the number of a figure of the paper with the same parts."""

    figure: Position
    shows: Text
    missing: Text | None = None
    drawn_as: Position | None = None
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FiguresEntry:
    """Figures of the papers, by paper."""

    papers: Mapping[Name, tuple[FigureEntry, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedFigure:
    """Figure of a paper.

    Attributes:
        shows: what it shows; ``missing``: why it is not drawn, empty if it is.
        parts: none if it is not drawn.
    """

    paper: str
    number: int
    shows: str
    missing: str
    parts: tuple[Part, ...]

    @property
    def name(self) -> str:
        """Return its name, such as ``rpc:3``."""
        return f"{self.paper}:{self.number}"

    def file_name(self, part: Part) -> str:
        """Return the name of a part's files, without suffix."""
        return f"{self.paper}-{self.number}{f'-{part.part}' if part.part else ''}"


def printed_figures() -> dict[str, PrintedFigure]:
    """Return the figures of the papers by name, in the order of the file that comes with robench."""
    return read_figures(shipped_folder() / "reports" / "published" / "figures.yaml")


def find_figure(name: str) -> PrintedFigure:
    """Return a figure by its name, such as ``rpc:3``. Raises UnknownNameError: no figure has it."""
    figures = printed_figures()
    if name not in figures:
        raise UnknownNameError("printed figure", name, figures)
    return figures[name]


def read_figures(path: Path) -> dict[str, PrintedFigure]:
    """Return the figures of a file by name.

    Raises:
        UsageError: there is no such file.
        DeclarationError: all problems of it, each with its line.
    """
    document = read_yaml(path)
    problems: list[Problem] = []
    found = attempt(partial(construct, FiguresEntry), document, (), problems)
    if found is not None:
        for paper, entries in found.papers.items():
            for place, entry in enumerate(entries):
                if wrong := _problem(entry, {each.figure: each for each in entries}):
                    problems.append(document.problem(("papers", paper, place), wrong))
    settled = document.settle(found, problems)
    return {figure.name: figure for paper, entries in settled.papers.items() for figure in _figures_of(paper, entries)}


def _figures_of(paper: str, entries: tuple[FigureEntry, ...]) -> list[PrintedFigure]:
    parts = {each.figure: each.parts for each in entries}
    return [
        PrintedFigure(
            paper=paper,
            number=each.figure,
            shows=each.shows,
            missing=each.missing or "",
            parts=each.parts if each.drawn_as is None else parts[each.drawn_as],
        )
        for each in entries
    ]


def _problem(entry: FigureEntry, entries: Mapping[int, FigureEntry]) -> str:
    stated = [name for name in ("missing", "drawn_as", "parts") if getattr(entry, name)]
    if len(stated) != 1:
        return f"must have one of missing, drawn_as and parts, got {' and '.join(stated) or 'none'}"
    if entry.drawn_as is not None and (entry.drawn_as not in entries or not entries[entry.drawn_as].parts):
        return f"drawn_as must be the number of a figure with parts, got {entry.drawn_as}"
    for part in entry.parts:
        if (part.draws == "analysis") != (part.analysis is not None):
            return "parts must have an analysis if they draw one, and no other part has"
        if any(len(models) != len(part.ticks) for models in part.sizes.values()):
            return f"each line of sizes must have a model for each of the {len(part.ticks)} ticks"
        if (part.draws == "sizes") != bool(part.sizes):
            return "parts must have sizes if they draw them, and no other part has"
    return ""
