"""Rows and columns of printed tables that patterns choose."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from robench.core.errors import UsageError, did_you_mean
from robench.declare.printed import PublishedCell, PublishedTable
from robench.papers.table import PaperTable
from robench.papers.twins import TwinTable


def chosen_cells(
    tables: Sequence[PublishedTable], rows: Sequence[str] = (), columns: Sequence[str] = ()
) -> list[PublishedCell]:
    """Return the cells whose row and column match a pattern, without patterns all of them.

    A row matches by its label, its model or its twin's model, a column by its name; case does not count. Cells come in
    the order of the patterns of rows.

    Raises:
        UsageError: a pattern matches nothing in any table, or no cell has both a row and a column that match.
    """
    cells = [cell for table in tables for cell in table.cells]
    _check("--rows", rows, [name for cell in cells for name in _names(cell)])
    _check("--columns", columns, [cell.column for cell in cells])
    found = [
        cell for cell in cells if (not rows or _has(cell, rows)) and (not columns or _matches(cell.column, columns))
    ]
    if not found:
        raise UsageError("no number has both a row of --rows and a column of --columns; choose others")
    return sorted(found, key=lambda cell: next((i for i, each in enumerate(rows) if _has(cell, [each])), 0))


def part_of(table: PaperTable, cells: Collection[PublishedCell]) -> PaperTable:
    """Return a table with some of its printed cells, and the claims whose number is one of them.

    Verdicts stay those of the whole table, since they depend on the number of claims.
    """
    places = {(cell.row, cell.column) for cell in cells}
    labels = [cell.row for cell in cells]
    rows = [
        replace(row, cells={name: each for name, each in row.cells.items() if (row.label, name) in places})
        for row in sorted(table.rows, key=lambda row: labels.index(row.label) if row.label in labels else 0)
    ]
    claims = [
        each for each in table.claims if not {(each.row, each.column), (each.column, each.row)}.isdisjoint(places)
    ]
    kept = {name for _, name in places}
    return replace(
        table,
        rows=tuple(row for row in rows if row.cells),
        columns=tuple(name for name in table.columns if name in kept),
        claims=tuple(claims),
        hours={label: text for label, text in table.hours.items() if any(label in place for place in places)},
    )


def part_of_twins(table: TwinTable, cells: Collection[PublishedCell]) -> TwinTable:
    """Return the twins of some of a table's printed cells."""
    places = {(cell.row, cell.column): place for place, cell in reversed(list(enumerate(cells)))}
    rows = [
        replace(
            row, cells={name: each for name, each in row.cells.items() if not places.keys().isdisjoint(each.twin_of)}
        )
        for row in table.rows
    ]
    rows.sort(
        key=lambda row: min(
            (places[each] for of in row.cells.values() for each in of.twin_of if each in places), default=0
        )
    )
    kept = {name for row in rows for name in row.cells}
    return replace(
        table,
        rows=tuple(row for row in rows if row.cells),
        columns=tuple(column for column in table.columns if column.name in kept),
    )


def _has(cell: PublishedCell, patterns: Sequence[str]) -> bool:
    return any(_matches(name, patterns) for name in _names(cell))


def _names(cell: PublishedCell) -> list[str]:
    """Return the names of a cell's row: its label, its model and that one's twin."""
    return [each for each in (cell.row, cell.model, None if cell.twin is None else cell.twin.model) if each is not None]


def _matches(name: str, patterns: Sequence[str]) -> bool:
    # Labels have brackets of their own.
    return any(name == each or fnmatchcase(name.casefold(), each.casefold()) for each in patterns)


def _check(option: str, patterns: Sequence[str], names: Sequence[str]) -> None:
    for pattern in patterns:
        if not any(_matches(name, [pattern]) for name in names):
            raise UsageError(f"{option} {pattern!r} matches nothing.{did_you_mean(pattern, {*names})}")
