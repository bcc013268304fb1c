"""Columns of costs beside those of a leaderboard's suites: parameters and multiply-adds, which have no rank."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from robench.core.checkpoint import entry_name
from robench.core.report import Cell, Estimate
from robench.core.suite import Column
from robench.costs import Counts
from robench.leaderboard.board import BoardColumn, Leaderboard

PARAMETERS = "parameters"
MULTIPLY_ADDS = "multiply_adds"


def with_costs(board: Leaderboard, counts: Mapping[str, Counts], rules: Sequence[str]) -> Leaderboard:
    """Return the leaderboard with parameters, and multiply-adds by each rule, as its last columns.

    ``counts`` are by model; those of models that are not counted are missing. Training seeds have those of their entry.
    """
    counts = {entry_name(model): each for model, each in counts.items()} | dict(counts)
    numbers = [
        {model: each.parameters / 1e6 for model, each in counts.items()},
        *({model: each.multiply_adds(rule) / 1e9 for model, each in counts.items()} for rule in rules),
    ]
    values = dict(zip(cost_columns(rules), numbers, strict=True))
    rows = tuple(
        replace(
            row,
            cells={
                **row.cells,
                **{column.key: _cell(found.get(row.model), column) for column, found in values.items()},
            },
        )
        for row in board.rows
    )
    below = None if board.by_mechanism is None else with_costs(board.by_mechanism, counts, rules)
    return replace(board, columns=(*board.columns, *values), rows=rows, by_mechanism=below).headline_first()


def cost_columns(rules: Sequence[str]) -> list[BoardColumn]:
    """Return the columns of parameters, and of multiply-adds by each rule."""
    return [
        _column(PARAMETERS, "parameters (M)", "M"),
        *(_column(f"{MULTIPLY_ADDS}/{rule}", f"multiply-adds ({rule}, G)", "G") for rule in rules),
    ]


def _column(name: str, label: str, unit: str) -> BoardColumn:
    key = f"costs/{name}"
    return BoardColumn(
        key=key,
        suite="",
        label=label,
        column=Column(key=key, label=label, metric=label, conditions=()),
        measurements=(),
        metric=label,
        unit=unit,
        interval="none: a count is exact",
        lower_is_better=True,
        num_columns=0,
    )


def _cell(value: float | None, column: BoardColumn) -> Cell:
    if value is None:
        return Cell(estimate=None, num_examples=0, missing=None)
    estimate = Estimate(value=value, low=None, high=None, num_examples=0, unit=column.unit)
    return Cell(estimate=estimate, num_examples=0, missing=0)
