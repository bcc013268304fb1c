"""Reader of printed tables of papers: a YAML file per table, whose cells combine the fields of row and column."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, MinLen

from robench.core.errors import UnknownNameError
from robench.costs import RULES
from robench.declare.document import Document, Number, Problem, show
from robench.declare.fields import Checked, Name, ReadBy, refused, values_of
from robench.declare.printed import (
    Better,
    PrintedCost,
    PublishedCell,
    PublishedReading,
    PublishedRow,
    PublishedTable,
    PublishedTwin,
    Reading,
)
from robench.declare.schema import attempt, construct
from robench.declare.shipped import shipped_folder
from robench.declare.yaml_source import read_yaml

_FILE = re.compile(r"([a-z0-9-]+)-([1-9][0-9]*)")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_COLUMN = ("model", "suite", "condition", "metric")


def _spelling(value: object) -> str:
    """Return a value of a protocol as written."""
    if isinstance(value, Number):
        return value.text
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        return str(value)
    raise refused("text or a number", value)


Text = Annotated[str, Checked(lambda text: None if str(text).strip() else "must not be empty")]
Spelling = Annotated[str, ReadBy(_spelling)]
Position = Annotated[int, Ge(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinFields:
    """Fields of a cell's twin; None defers to the column, to the table's defaults, or to the cell itself."""

    model: str | None = None
    suite: str | None = None
    condition: str | None = None
    metric: str | None = None
    complement: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingFields:
    """Fields in which a reading differs from the cell; a null in ``protocol`` is a field that the reading lacks."""

    condition: str | None = None
    protocol: Mapping[Text, Spelling | None] = field(default_factory=dict)
    inferred: tuple[Text, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """Readings of a cell by the authors' code and by the text; None where there is no condition of it."""

    code: ReadingFields | None = None
    text: ReadingFields | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellFields(TwinFields):
    """Fields of cells given by a table, a column or a row; None defers to the others."""

    unit: str | None = None
    missing: Text | None = None
    mean: bool | None = None
    cost: PrintedCost | None = None
    better: Better | None = None
    protocol: Mapping[Text, Spelling] = field(default_factory=dict)
    inferred: tuple[Text, ...] | None = None
    readings: Readings | None = None
    twin: TwinFields = field(default_factory=TwinFields)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnEntry(CellFields):
    """Entry of a column in a file; ``baseline`` names another column."""

    name: Text
    baseline: Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowEntry(CellFields):
    """Entry of a row in a file; ``baseline`` is the label of another row."""

    label: Text
    baseline: Text | None = None
    line: Position
    lines: Annotated[tuple[str, ...], MinLen(1)]
    printed: Annotated[tuple[Text | None, ...], MinLen(1)]
    models: Mapping[str, str] = field(default_factory=dict)
    remarks: Mapping[str, Text] = field(default_factory=dict)
    inconsistent: Mapping[str, Text] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEntry:
    """Entry of a table in a file."""

    paper: Name
    table: Position
    title: Text
    source: Text
    text: Text
    caption_line: Position
    runs: Position
    columns: Annotated[tuple[ColumnEntry, ...], MinLen(1)]
    rows: Annotated[tuple[RowEntry, ...], MinLen(1)]
    counted: bool = True
    claims: Literal["none"] | None = None
    reason: Text | None = None
    defaults: CellFields = field(default_factory=CellFields)


def published_tables() -> dict[tuple[str, int], Path]:
    """Return the files of the printed tables that come with robench, by paper and number, in this order."""
    found = {}
    for path in (shipped_folder() / "reports" / "published").glob("*.yaml"):
        if named := _FILE.fullmatch(path.stem):
            found[named[1], int(named[2])] = path
    return dict(sorted(found.items()))


def load_published(paper: str, number: int) -> PublishedTable:
    """Return a printed table that comes with robench.

    Raises:
        UnknownNameError: there is no such table.
        DeclarationError: all problems of its file.
    """
    tables = published_tables()
    if (paper, number) not in tables:
        known = [f"{each}:{of_paper}" for each, of_paper in tables]
        raise UnknownNameError("printed table", f"{paper}:{number}", known)
    return read_published(tables[paper, number])


def read_published(path: Path) -> PublishedTable:
    """Return the printed table of a YAML file named ``PAPER-NUMBER.yaml``.

    Raises:
        UsageError: there is no such file.
        DeclarationError: all problems of it, each problem with its line, and with row and column where it is of one
            cell.
    """
    document = read_yaml(path)
    problems: list[Problem] = []
    entry = attempt(partial(construct, TableEntry), document, (), problems)
    if entry is not None:
        if path.stem != (stem := f"{entry.paper}-{entry.table}"):
            problems.append(document.problem(("table",), f"must be in a file {stem}.yaml, got {path.name}"))
        problems += _row_problems(document, entry)
        problems += _claim_problems(document, entry)
        problems += _cell_problems(document, entry)
    return _table(document.settle(entry, problems))


def _table(entry: TableEntry) -> PublishedTable:
    return PublishedTable(
        **values_of(entry, "table", "columns", "rows", "counted", "claims", "reason", "defaults"),
        number=entry.table,
        columns=tuple(column.name for column in entry.columns),
        rows=tuple(_row(entry, row) for row in entry.rows),
        is_counted=entry.counted,
        baselines=_baselines(entry.columns) | _baselines(entry.rows),
        no_claims=entry.reason,
    )


def _baselines(entries: Sequence[ColumnEntry] | Sequence[RowEntry]) -> dict[str, str]:
    return {_label(each): each.baseline for each in entries if each.baseline is not None}


def _label(entry: ColumnEntry | RowEntry) -> str:
    return entry.name if isinstance(entry, ColumnEntry) else entry.label


def _row(entry: TableEntry, row: RowEntry) -> PublishedRow:
    cells = (
        None if printed is None else _cell(entry.defaults, column, row, printed)
        for column, printed in zip(entry.columns, row.printed, strict=True)
    )
    return PublishedRow(label=row.label, lines=row.lines, line=row.line, cells=tuple(cells))


def _cell(defaults: CellFields, column: ColumnEntry, row: RowEntry, printed: str) -> PublishedCell:
    stated = _stated(defaults, column, row)
    return PublishedCell(
        **{name: getattr(stated, name) for name in (*_COLUMN, "missing", "cost", "protocol")},
        row=row.label,
        column=column.name,
        printed=printed,
        unit=stated.unit or "",
        complement=bool(stated.complement),
        is_mean=bool(stated.mean),
        twin=_twin(stated),
        remark=row.remarks.get(column.name),
        inconsistent=row.inconsistent.get(column.name),
        better=stated.better or "higher",
        readings=_readings(stated),
        inferred=stated.inferred or (),
    )


def _readings(stated: CellFields) -> tuple[PublishedReading, ...]:
    if stated.readings is None:
        return ()
    found: dict[Reading, ReadingFields | None] = {"code": stated.readings.code, "text": stated.readings.text}
    return tuple(
        PublishedReading(
            by=by,
            condition=each.condition or stated.condition or "",
            protocol={name: text for name, text in {**stated.protocol, **each.protocol}.items() if text is not None},
            inferred=(stated.inferred if each.inferred is None else each.inferred) or (),
        )
        for by, each in found.items()
        if each is not None
    )


def _stated(defaults: CellFields, column: ColumnEntry, row: RowEntry) -> CellFields:
    """Return the combined fields of a cell: later ones take precedence, mappings are merged key by key.

    ``models`` of its row takes precedence over ``model``.
    """
    layers: tuple[CellFields, ...] = (defaults, column, row)
    twins = [layer.twin for layer in layers]
    stated = CellFields(
        **_last(layers, (*_COLUMN, "complement", "unit", "missing", "mean", "cost", "better", "inferred", "readings")),
        protocol={name: text for layer in layers for name, text in layer.protocol.items()},
        twin=TwinFields(**_last(twins, (*_COLUMN, "complement"))),
    )
    return replace(stated, model=row.models.get(column.name, stated.model))


def _last(layers: Sequence[TwinFields], names: Sequence[str]) -> dict[str, Any]:
    return {name: value for layer in layers for name in names if (value := getattr(layer, name)) is not None}


def _twin(stated: CellFields) -> PublishedTwin | None:
    """Return the twin, which exists if both a model and a suite are named; other fields may come from the cell."""
    if stated.twin.model is None or stated.twin.suite is None:
        return None
    return PublishedTwin(**_last((stated, stated.twin), (*_COLUMN, "complement")))


def _row_problems(document: Document, entry: TableEntry) -> Iterator[Problem]:
    """Yield the problems of rows and columns as a whole."""
    names = [column.name for column in entry.columns]
    for below, key, values in (("columns", "name", names), ("rows", "label", [row.label for row in entry.rows])):
        for index, value in enumerate(values):
            if (first := values.index(value)) < index:
                message = f"{show(value)} is given twice, first as {below}[{first}]; give each a {key} of its own"
                yield document.problem((below, index, key), message)
    for index, row in enumerate(entry.rows):
        if len(row.printed) != len(names):
            message = (
                f"row {show(row.label)} must have a number or null for each of {len(names)} columns,"
                f" got {len(row.printed)}"
            )
            yield document.problem(("rows", index, "printed"), message)
        for field_name in ("models", "remarks", "inconsistent"):
            for name in sorted(getattr(row, field_name).keys() - set(names)):
                message = f"must be the name of a column, got {show(name)}; row {show(row.label)}"
                yield document.problem(("rows", index, field_name, name), message)


def _claim_problems(document: Document, entry: TableEntry) -> Iterator[Problem]:
    """Yield the problems of baselines: of rows, or of columns where models are columns, or ``claims: none``."""
    if (entry.claims is None) != (entry.reason is None):
        message = "must be given with the other: claims: none, and in reason why the table claims no gain"
        yield document.problem(("claims" if entry.claims else "reason",), message)
    of_rows, of_columns = _baselines(entry.rows), _baselines(entry.columns)
    if of_rows and of_columns:
        index, first = next((i, each) for i, each in enumerate(entry.rows) if each.baseline is not None)
        message = f"row {show(first.label)} has a baseline, and so have columns; leave out one, the models are either"
        yield document.problem(("rows", index, "baseline"), message)
    elif of_rows or of_columns:
        below, entries = ("rows", entry.rows) if of_rows else ("columns", entry.columns)
        for where, message in _baseline_problems(
            entry, below, [_label(each) for each in entries], of_rows or of_columns
        ):
            yield document.problem(where, message)
    elif entry.counted and entry.claims is None:
        message = "no row or column has a baseline; name them, or state claims: none and the reason"
        yield document.problem(("rows",), message)


def _baseline_problems(
    entry: TableEntry, below: str, names: list[str], baselines: Mapping[str, str]
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield places and problems of baselines, of rows or of columns; none if it is unknown which one a name means."""
    if len(set(names)) < len(names):
        return
    for index, name in enumerate(names):
        baseline, where = baselines.get(name), (below, index, "baseline")
        if baseline is None:
            if name not in baselines.values():
                message = f"{show(name)} needs a baseline, since no other has it as baseline; name one of the {below}"
                yield (below, index), message
        elif entry.claims is not None or not entry.counted:
            yield where, "must be left out where the table has claims: none, or counts no results"
        elif baseline not in names or baseline == name:
            yield where, f"must be another of the {below}, got {show(baseline)}; {show(name)}"
        elif baseline in baselines:
            yield where, f"{show(baseline)} has a baseline of its own, {show(baselines[baseline])}; name that one"


def _cell_problems(document: Document, entry: TableEntry) -> Iterator[Problem]:
    for index, row in enumerate(entry.rows):
        for position, (column, printed) in enumerate(zip(entry.columns, row.printed, strict=False)):
            if printed is None:
                continue
            cell = f"row {show(row.label)}, column {show(column.name)}"
            for message in _problems_of(entry, column, row, printed):
                yield document.problem(("rows", index, "printed", position), f"{cell}: {message}")


def _problems_of(entry: TableEntry, column: ColumnEntry, row: RowEntry, printed: str) -> Iterator[str]:
    stated = _stated(entry.defaults, column, row)
    absent = [name for name in _COLUMN if getattr(stated, name) is None]
    if entry.counted and not _NUMBER.fullmatch(printed):
        yield f"must be a number without its unit, got {show(printed)}"
    elif column.name not in row.remarks and not occurs(printed, row.lines):
        yield f"{printed} is not in the row's lines; correct it, or explain the print under remarks"
    if stated.unit is None:
        yield "has no unit; state one, '' for none, in the row, the column or defaults"
    if stated.mean:
        others = [_stated(entry.defaults, each, row) for each in entry.columns if each is not column]
        yield from _mean_problems(stated, absent, others)
    else:
        yield from _source_problems(stated, absent)
    for name in stated.inferred or ():
        if name in stated.protocol:
            yield f"{name} is in protocol, and also inferred; leave it out of inferred if the paper prints it"
    twin = stated.twin
    if twin.model is not None and twin.suite is not None:
        lacking = [name for name in absent if getattr(twin, name) is None]
        if lacking:
            yield f"its twin lacks {', '.join(lacking)}; state them in twin"


def _mean_problems(stated: CellFields, absent: Collection[str], others: Sequence[CellFields]) -> Iterator[str]:
    """Yield the problems of a mean over the other cells of its row."""
    if stated.cost is not None or stated.missing is not None or not {"model", "suite"} <= set(absent):
        yield "is a mean over its row, and has also missing, cost, model or suite; leave out what does not apply"
    elif not others or any(each.mean or each.cost or each.unit != stated.unit for each in others):
        yield "is a mean over its row, whose other columns must be of its unit, and neither means nor costs"


def _source_problems(stated: CellFields, absent: Collection[str]) -> Iterator[str]:
    """Yield the problems of what measures a number: a column of a suite, a cost, or nothing."""
    cost = stated.cost
    if cost is None:
        if stated.missing is not None and not absent:
            yield "has model, suite, condition and metric, and also missing; leave out what does not apply"
        if stated.missing is None and absent:
            yield f"lacks {', '.join(absent)}; state them, or say in missing what robench lacks"
        return
    if stated.missing is not None or not {"suite", "condition", "metric"} <= set(absent):
        yield "has a cost, and also missing, suite, condition or metric; leave out what does not apply"
    if cost.is_count and "model" in absent:
        yield "has a cost that is counted, and lacks model; state it"
    if (cost.rule is not None) != (cost.kind == "multiply-adds"):
        yield "must have a cost.rule for multiply-adds, and for nothing else"
    elif cost.rule is not None and cost.rule not in RULES:
        yield f"cost.rule must be one of {', '.join(RULES)}, got {show(cost.rule)}"


def occurs(printed: str, lines: tuple[str, ...]) -> bool:
    """Return whether a number is printed in one of the lines, not as part of a longer number.

    >>> occurs("4.5", ("PGD 4.5 (1)",)), occurs("4.5", ("PGD 14.5 4.53",))
    (True, False)
    """
    whole = re.compile(rf"(?<![0-9.]){re.escape(printed)}(?![0-9]|\.[0-9])")
    return any(whole.search(line) for line in lines)
