"""Twins of printed numbers: numbers of small models in the form of a paper's, under the names of their own suites."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from robench.core.rendered import PLAIN_STYLE, Rendered, Style
from robench.core.suite import Column
from robench.declare.printed import PublishedCell, PublishedTable, PublishedTwin
from robench.metrics import METRICS
from robench.papers.basis import Basis, Number

# Per cent above which all models are as good as they can be.
CEILING = 99.5


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinColumn:
    """Column of a suite of small data, in the unit of the printed numbers.

    Attributes:
        name: ``suite/condition/metric``, after ``1 - `` if the number is the complement.
        num_examples: fewest and most examples of a model's number; None if nothing is measured.
        is_at_ceiling: whether every number is above 99.5 %, and larger ones are better.
    """

    name: str
    heading: str
    suite: str
    unit: str
    num_examples: tuple[int, int] | None = None
    is_at_ceiling: bool = False

    @property
    def examples(self) -> str:
        """Number of examples, such as ``n = 600``."""
        if self.num_examples is None:
            return "n unknown"
        return f"n = {' to '.join(f'{each:,}' for each in dict.fromkeys(self.num_examples))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinCell:
    """Number of a twin of the printed numbers in some rows and columns; ``reason`` is the command that measures it."""

    ours: Number
    twin_of: tuple[tuple[str, str], ...]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinRow:
    """Numbers of a small model by name of the column; ``twin_of`` names the rows or columns of the paper's model."""

    model: str
    twin_of: str
    cells: Mapping[str, TwinCell]


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinTable(Rendered):
    """Twins of a printed table's models, measured on small data; fields have the meaning of those of ``PaperTable``."""

    renderers: ClassVar[str] = "robench.papers:TWIN_FORMATS"
    is_counted: ClassVar[bool] = True

    name: str
    title: str
    source: str
    columns: tuple[TwinColumn, ...]
    rows: tuple[TwinRow, ...]
    trained_on: tuple[str, ...] = ()
    measured_with: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    style: Style = PLAIN_STYLE

    @property
    def suites(self) -> tuple[str, ...]:
        """Names of the suites that measure the numbers."""
        return tuple(dict.fromkeys(column.suite for column in self.columns))

    @property
    def cells(self) -> tuple[TwinCell, ...]:
        """Numbers, row by row."""
        return tuple(cell for row in self.rows for cell in row.cells.values())


def twins_of(published: PublishedTable, basis: Basis) -> TwinTable | None:
    """Return the twins of a printed table; None if it has none.

    Raises:
        KeyError: a suite or model of the twins is not in the basis.
    """
    cells: dict[tuple[str, str], list[tuple[PublishedCell, PublishedTwin]]] = {}
    columns: dict[str, tuple[PublishedTwin, str]] = {}
    for cell in published.cells:
        if cell.twin is not None:
            name = f"{'1 - ' * cell.twin.complement}{cell.twin.suite}/{cell.twin.column_key}"
            columns.setdefault(name, (cell.twin, cell.unit))
            cells.setdefault((cell.twin.model, name), []).append((cell, cell.twin))
    if not cells:
        return None
    found = {place: _cell(published.name, each, basis) for place, each in cells.items()}
    models = list(dict.fromkeys(model for model, _ in cells))
    entries = [basis.checkpoints[model] for model in models if model in basis.checkpoints]
    suites = sorted({twin.suite for twin, _ in columns.values()})
    return TwinTable(
        name=published.name,
        title=published.title,
        source=published.source,
        columns=tuple(
            _column(name, twin, unit, [each.ours for (_, column), each in found.items() if column == name], basis)
            for name, (twin, unit) in columns.items()
        ),
        rows=tuple(
            TwinRow(
                model=model,
                twin_of=_counterpart(
                    published, [cell for (name, _), each in cells.items() if name == model for cell, _ in each]
                ),
                cells={column: each for (name, column), each in found.items() if name == model},
            )
            for model in models
        ),
        trained_on=tuple(dict.fromkeys(each.training_data for each in entries if each.training_data)),
        measured_with={name: basis.reports[name].provenance for name in suites if name in basis.reports},
    )


def _cell(table: str, cells: Sequence[tuple[PublishedCell, PublishedTwin]], basis: Basis) -> TwinCell:
    first, twin = cells[0]
    ours = basis.number(twin.suite, twin.model, twin.column_key, first.unit, complement=twin.complement)
    return TwinCell(
        ours=ours,
        twin_of=tuple((cell.row, cell.column) for cell, _ in cells),
        reason=basis.how_to(table, twin.model, is_twin=True) if ours.measured is None else "",
    )


def _column(name: str, twin: PublishedTwin, unit: str, numbers: Iterable[Number], basis: Basis) -> TwinColumn:
    column = basis.column(twin.suite, twin.column_key)
    # Without parentheses, such as those of a unit.
    label = column.label.removeprefix(f"{twin.suite} ").partition(" (")[0]
    measured = [number for number in numbers if number.measured is not None]
    examples = [number.num_examples for number in measured if number.num_examples is not None]
    return TwinColumn(
        name=name,
        heading=f"{twin.suite}: {'1 - ' * twin.complement}{label}",
        suite=twin.suite,
        unit=unit,
        num_examples=(min(examples), max(examples)) if examples else None,
        is_at_ceiling=_has_ceiling(column, twin)
        and bool(measured)
        and all((number.measured or 0) > CEILING for number in measured),
    )


def _has_ceiling(column: Column, twin: PublishedTwin) -> bool:
    """Return whether a number is a proportion, and larger ones are better."""
    metric = METRICS.get(column.metric)
    return metric is not None and metric.unit == "share" and metric.lower_is_better == twin.complement


def _counterpart(published: PublishedTable, cells: Sequence[PublishedCell]) -> str:
    """Return the rows of the paper's model, or its columns where models are columns, or both."""
    rows, columns = (
        list(dict.fromkeys(each)) for each in zip(*((cell.row, cell.column) for cell in cells), strict=True)
    )
    models = {(cell.row, cell.column): cell.model for cell in published.cells}
    if all(len({model for (row, _), model in models.items() if row == name}) == 1 for name in rows):
        return "; ".join(rows)
    if all(len({model for (_, column), model in models.items() if column == name}) == 1 for name in columns):
        return "; ".join(columns)
    return f"{'; '.join(rows)}: {'; '.join(columns)}"
