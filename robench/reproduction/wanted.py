"""Numbers of papers' tables that are to be measured, and the conditions that each model needs for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from robench.core.errors import UsageError
from robench.core.suite import Suite, names_of_conditions
from robench.declare.printed import PublishedCell, PublishedTable, PublishedTwin

# Labels that are shown of all that a pattern might have meant.
MOST_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """Number that is to be measured.

    Attributes:
        model: entry of the registry; ``column``: key of the suite's column.
    """

    model: str
    suite: str
    column: str


def chosen_numbers(
    tables: Sequence[PublishedTable], rows: Sequence[str] = (), columns: Sequence[str] = (), *, of_twins: bool = False
) -> list[Number]:
    """Return the numbers of the cells whose row and column match, each once; without patterns all of them.

    A row matches by its label or its model, a column by its name; case does not count. Cells that robench cannot
    measure, and costs, have none; cells with two readings have one of each. ``of_twins`` returns those of the twins on
    small data instead.

    Raises:
        UsageError: a pattern matches nothing, or no number is left.
    """
    cells = [cell for table in tables for cell in table.cells]
    _check_matches("--rows", rows, [name for cell in cells for name in (cell.row, cell.model) if name is not None])
    _check_matches("--columns", columns, [cell.column for cell in cells])
    chosen = [
        cell
        for cell in cells
        if (not rows or any(_matches(name, rows) for name in (cell.row, cell.model or "")))
        and (not columns or _matches(cell.column, columns))
    ]
    found = [number for cell in chosen for number in (_of_twin(cell.twin) if of_twins else _of_cell(cell))]
    if not found:
        names = ", ".join(table.name for table in tables)
        what = "has a twin on small data" if of_twins else "can be measured by a suite; 'robench table' says why"
        raise UsageError(f"none of the {len(chosen)} chosen numbers of {names} {what}")
    return list(dict.fromkeys(found))


def wanted_conditions(numbers: Sequence[Number], suites: Mapping[str, Suite]) -> dict[str, dict[str, set[str]]]:
    """Return the names of the conditions that each model needs, by model and suite."""
    wanted: dict[str, dict[str, set[str]]] = {}
    for number in numbers:
        suite = suites[number.suite]
        column = next(each for each in suite.columns if each.key == number.column)
        of_model = wanted.setdefault(number.model, {})
        of_model.setdefault(suite.name, set()).update(names_of_conditions(suite, column))
    return wanted


def _of_cell(cell: PublishedCell) -> list[Number]:
    return [
        Number(model=each.model, suite=each.suite, column=each.column_key)
        for _, each in cell.as_read
        if each.model is not None and each.suite is not None and each.column_key is not None
    ]


def _of_twin(twin: PublishedTwin | None) -> list[Number]:
    return [] if twin is None else [Number(model=twin.model, suite=twin.suite, column=twin.column_key)]


def _matches(name: str, patterns: Sequence[str]) -> bool:
    # Labels have brackets of their own.
    return any(name == each or fnmatchcase(name.casefold(), each.casefold()) for each in patterns)


def _check_matches(option: str, patterns: Sequence[str], names: Sequence[str]) -> None:
    known = list(dict.fromkeys(names))
    for pattern in patterns:
        if not any(_matches(name, [pattern]) for name in known):
            shown = ", ".join(map(repr, known[:MOST_SHOWN])) + (", ..." if len(known) > MOST_SHOWN else "")
            raise UsageError(f"{option} {pattern!r} matches nothing; there are {shown}")
