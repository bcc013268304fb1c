"""Figures of the papers, drawn from results at the papers' scale, or from those of their twins on small data.

The shape of a figure is tested as the file of figures states, and only for results at the paper's scale and for
formulas: a twin has other data, and is compared with nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from pathlib import Path
from statistics import fmean, linear_regression

from robench.analyses import ANALYSES
from robench.analyses.results import FOLDER, Analysed, read_analysis
from robench.core.checkpoint import Checkpoint, entry_name
from robench.core.errors import IncompleteError
from robench.core.identity import to_plain
from robench.costs.stored import stored_costs
from robench.declare import find_checkpoints, find_suites, read_registries
from robench.declare.figures import Expectation, Part, PrintedFigure, Source
from robench.declare.schema import assigned
from robench.figures.analyses import analysis_plot
from robench.figures.costs import sizes_plot
from robench.figures.plots import (
    LinePanel,
    MapPanel,
    PlacePanel,
    Plot,
    SeedPanel,
    Series,
    budget_plot,
    seeds_plot,
    training_plot,
    with_panels,
)
from robench.leaderboard import leaderboard_of
from robench.store import FolderStore
from robench.training.history import history_path, read_history

# Folder of histories of trainings that were repeated on another machine, beside the results.
REPEATED = "training"
_REMAINS = 0.5
_MOST_PLACES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Results to draw figures from: records, and a folder whose ``analyses`` and ``costs`` are read."""

    store: FolderStore
    folder: Path
    registries: Sequence[Path] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeVerdict:
    """Verdict on the shape of a printed figure: the statement that was tested, and whether it holds."""

    statement: str
    holds: bool

    @property
    def text(self) -> str:
        """Return the verdict in words."""
        return f"{'as printed' if self.holds else 'differs'}: {self.statement}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnPart:
    """Part of a printed figure, as a plot; a twin is of small data, and compared with nothing."""

    plot: Plot
    source: str
    is_twin: bool
    verdicts: tuple[ShapeVerdict, ...]


def drawn_part(figure: PrintedFigure, part: Part, results: Results) -> DrawnPart:
    """Return a part of a figure from results at the paper's scale, or where there are none from its twin's.

    Raises:
        IncompleteError: there are no results of either.
    """

    def drawn(source: Source | None, name: str, note: str = "", *, is_twin: bool = False) -> DrawnPart:
        plot = with_panels(_plot(part, source, results), part.panels)
        verdicts = [verdict for each in part.expected for verdict in verdicts_on(each, plot)]
        notes = (f"Figure {figure.number} of {figure.paper}{f', {note}' if note else ''}.", *plot.notes)
        plot = replace(plot, notes=notes)
        return DrawnPart(plot=plot, source=name, is_twin=is_twin, verdicts=() if is_twin else tuple(verdicts))

    if part.paper is None and part.twin is None:
        return drawn(None, "formulas" if part.draws == "analysis" else "times and memory of one device")
    missing: list[str] = []
    for source in filter(None, (part.paper, part.twin)):
        is_twin = source is not part.paper
        note = f"a twin on {source.data}, not compared with the print" if is_twin else f"measured on {source.data}"
        try:
            return drawn(source, source.data, note, is_twin=is_twin)
        except IncompleteError as error:
            missing.append(str(error))
    raise IncompleteError(f"figure {figure.name} has no results: {'; '.join(missing)}")


def _plot(part: Part, source: Source | None, results: Results) -> Plot:
    if part.draws == "analysis":
        return analysis_plot(_analysed(part, source, results))
    if source is None:
        return sizes_plot(part.sizes, part.ticks, stored_costs(results.folder))
    checkpoints = find_checkpoints(source.models, results.registries, all_seeds=source.all_seeds)
    if part.draws == "training":
        return _training(checkpoints, results)
    board = leaderboard_of(
        find_suites([source.data], results.registries, None),
        results.store,
        models=[checkpoint.name for checkpoint in checkpoints],
        checkpoints=read_registries(results.registries),
        average_seeds=source.all_seeds,
        is_tested=False,
    )
    return seeds_plot(board) if part.draws == "seeds" else budget_plot(board, all_models=True)


def _training(checkpoints: Sequence[Checkpoint], results: Results) -> Plot:
    paths = {each.name: history_path(each.folder / each.weights.uri) for each in checkpoints}
    repeated = {name: results.folder / REPEATED / f"{name}.history.json" for name in paths}
    paths = {name: path if path.exists() else repeated[name] for name, path in paths.items()}
    if absent := [name for name, path in paths.items() if not path.exists()]:
        raise IncompleteError(f"no training history of {', '.join(absent)}")
    plot = training_plot([read_history(path) for path in paths.values()])
    if again := [name for name, path in paths.items() if path == repeated[name]]:
        plot = replace(plot, notes=(*plot.notes, f"Of {' and '.join(again)}: a repeated training, of other last bits."))
    return plot


def _analysed(part: Part, source: Source | None, results: Results) -> list[Analysed]:
    """Return the results of the part's analysis, on the examples that most models, conditions and epochs have."""
    assert part.analysis is not None  # the reader checks it
    settings = [f"{name}={value}" for name, value in part.settings.items()]
    wanted = to_plain(assigned(ANALYSES[part.analysis], settings, "settings", "analysis"))
    # An analysis under attack is shown beside that of clean examples.
    conditions = {None} if source is None else {"clean", source.condition or "clean"}
    dataset = _dataset_of(source, results)
    found: dict[tuple[str, ...], dict[tuple[object, ...], Analysed]] = {}
    for path in sorted((results.folder / FOLDER).glob(f"{part.analysis}-*.parquet")):
        analysed = read_analysis(path)
        facts = analysed.facts
        model = facts.get("model", "")
        is_wanted = source is None or (entry_name(model) in source.models and facts["dataset"] == dataset)
        is_wanted = is_wanted and ("epoch" in facts) == part.epochs
        if is_wanted and facts["settings"] == wanted and facts.get("condition") in conditions:
            of_examples = found.setdefault(analysed.examples, {})
            of_examples[model, facts.get("condition"), facts.get("epoch")] = analysed
    if not found:
        raise IncompleteError(f"no result of 'robench analyse {part.analysis}'{f' on {dataset}' if dataset else ''}")
    models = [] if source is None else list(source.models)
    order = {model: place for place, model in enumerate(models)}
    chosen = max(found.values(), key=lambda each: (len(each), len(next(iter(each.values())).examples)))
    return sorted(chosen.values(), key=lambda each: order.get(entry_name(each.facts.get("model", "")), 0))


def _dataset_of(source: Source | None, results: Results) -> str | None:
    if source is None or source.suite is None:
        return None if source is None else source.dataset
    (suite,) = find_suites([source.suite], results.registries, None)
    return suite.conditions[0].dataset.name


def verdicts_on(expectation: Expectation, plot: Plot) -> list[ShapeVerdict]:
    """Return whether the lines of a plot are as a statement says, a verdict for each panel that has them."""
    found = []
    for panel in plot.panels:
        if not isinstance(panel, LinePanel) or expectation.panel not in panel.title:
            continue
        lines = {each.model: each for each in panel.series if not each.is_seed}
        names = [name for name in (expectation.line, expectation.than) if name is not None]
        if all(name in lines and len(_values(lines[name], panel)) > 1 for name in names):
            found.append(_verdict(expectation, panel, [lines[name] for name in names]))
    return found


def _values(series: Series, panel: LinePanel) -> list[tuple[float, float]]:
    """Return the numbers that a statement is about: not the clean one, at budget 0, which no print has."""
    clean = [x for x, _ in panel.ticks if x == 0]
    return [(each.x, each.value) for each in series.points if each.value is not None and each.x not in clean]


def _verdict(expectation: Expectation, panel: LinePanel, lines: Sequence[Series]) -> ShapeVerdict:
    where, line = f"in panel {panel.title!r}", lines[0].model
    values = _values(lines[0], panel)
    if expectation.test == "above":
        means = [fmean(value for _, value in _values(each, panel)) for each in lines]
        statement = f"{line} is above {lines[1].model} {where} (means {means[0]:.4g} and {means[1]:.4g})"
        return ShapeVerdict(statement=statement, holds=means[0] > means[1])
    if expectation.test == "stays":
        ratio = values[-1][1] / values[0][1]
        statement = f"{line} keeps at least {_REMAINS:.0%} of its first value {where} ({ratio:.1%})"
        return ShapeVerdict(statement=statement, holds=ratio >= _REMAINS)
    places = [log(x) if panel.is_logarithmic else x for x, _ in values]
    trend = linear_regression(places, [value for _, value in values])[0]
    statement = f"{line} {expectation.test} {where} (least squares: {trend:.4g} for each unit)"
    return ShapeVerdict(statement=statement, holds=trend < 0 if expectation.test == "falls" else trend > 0)


def index_of(figures: Sequence[PrintedFigure], found: Mapping[str, DrawnPart | str], suffix: str) -> str:
    """Return a page on figures, as Markdown: each with its source, verdicts and file, or the reason why it is missing.

    ``found`` are the parts by the names of their files without suffix: drawn, or the reason why they are not.
    """
    lines = [
        "# The papers' figures",
        "",
        "Written by `robench figure paper`. A twin is of small data, and no comparison with the print.",
    ]
    for figure in figures:
        lines += ["", f"## {figure.name}", "", f"{figure.shows[0].upper()}{figure.shows[1:]}."]
        if figure.missing:
            lines += ["", f"Not drawn: {figure.missing}."]
        for part in figure.parts:
            name = figure.file_name(part)
            drawn = found[name]
            if isinstance(drawn, str):
                lines += ["", f"Not drawn: {drawn}."]
                continue
            verdicts = [f"- {verdict.text}." for verdict in drawn.verdicts]
            if part.open and verdicts:
                verdicts.append(f"- The print leaves open {part.open}.")
            kind = f"Twin on {drawn.source}" if drawn.is_twin else f"From {drawn.source}"
            lines += ["", f"{kind}; [numbers]({name}.csv).", *([""] if verdicts else []), *verdicts]
            lines += ["", f"![{figure.name}: {figure.shows}]({name}{suffix})"]
    return "\n".join((*lines, ""))


NUMBERS_HEADER = ("panel", "line", "x", "y", "value", "low", "high")


def numbers_of(plot: Plot) -> list[list[object]]:
    """Return the numbers of a plot, one a row, with the columns of ``NUMBERS_HEADER``.

    Maps of very many places are left out; the result of their analysis has them.
    """
    rows: list[list[object]] = []
    for panel in plot.panels:
        if isinstance(panel, LinePanel):
            ticks = dict(panel.ticks)
            rows += [
                [panel.title, each.model, ticks.get(point.x, point.x), "", point.value, point.low, point.high]
                for each in panel.series
                if not each.is_seed
                for point in each.points
            ]
        elif isinstance(panel, MapPanel) and len(panel.x) * len(panel.y) <= _MOST_PLACES:
            rows += [
                [panel.title, panel.label, x, y, value, None, None]
                for y, row in zip(panel.y, panel.values, strict=True)
                for x, value in zip(panel.x, row, strict=True)
            ]
        elif isinstance(panel, SeedPanel | PlacePanel):
            rows += _point_rows(panel)
    return rows


def _point_rows(panel: SeedPanel | PlacePanel) -> list[list[object]]:
    if isinstance(panel, SeedPanel):
        return [
            [panel.title, row.model, "", "", fmean(row.seeds) if row.seeds else None, row.low, row.high]
            for row in panel.rows
        ]
    return [[panel.title, each.model, each.x, "", each.y, *(each.y_bounds or (None, None))] for each in panel.places]
