"""Numbers of papers' tables that are to be measured, and the conditions that each model needs for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from robench.core.errors import UsageError
from robench.core.suite import Suite, names_of_conditions
from robench.declare.printed import PublishedCell, PublishedTwin


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """Number that is to be measured: of a registry entry, in the suite's column of this key."""

    model: str
    suite: str
    column: str


def wanted_numbers(cells: Sequence[PublishedCell], *, of_twins: bool = False) -> list[Number]:
    """Return the numbers behind printed cells, or their twins on small data, each once.

    Cells that robench cannot measure, and costs, have none; cells with two readings have one of each.

    Raises:
        UsageError: the cells have no such number.
    """
    found = [number for cell in cells for number in (_of_twin(cell.twin) if of_twins else _of_cell(cell))]
    if not found:
        what = "has a twin on small data" if of_twins else "is measured by a suite; 'robench table' says why"
        raise UsageError(f"none of the {len(cells)} chosen numbers {what}")
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
