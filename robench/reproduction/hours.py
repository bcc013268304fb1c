"""Hours that the missing numbers of a table would take, by row or column, for its readers; no torch is needed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from robench.core.checkpoint import Checkpoint
from robench.core.suite import Suite
from robench.declare.printed import PublishedCell, PublishedTable
from robench.papers.forecast import NONE, Forecast
from robench.papers.table import PaperTable
from robench.reproduction.wanted import wanted_conditions, wanted_numbers


def with_hours(
    table: PaperTable,
    published: PublishedTable,
    suites: Mapping[str, Suite],
    checkpoints: Mapping[str, Checkpoint],
    forecast: Forecast,
) -> PaperTable:
    """Return a table with the hours of its missing numbers, of one training seed of each model."""
    missing = {
        (row.label, name)
        for row in table.rows
        for name, cell in row.cells.items()
        if cell.verdict.name == "not measured"
    }
    cells = [cell for cell in published.cells if (cell.row, cell.column) in missing]
    labels = dict.fromkeys(cell.column if published.has_models_in_columns else cell.row for cell in cells)
    hours = {
        label: _text([each for each in cells if label in (each.row, each.column)], suites, checkpoints, forecast)
        for label in labels
    }
    return replace(table, hours=hours)


def _text(
    cells: Sequence[PublishedCell],
    suites: Mapping[str, Suite],
    checkpoints: Mapping[str, Checkpoint],
    forecast: Forecast,
) -> str:
    """Return the hours of the models of some cells, trained and measured once."""
    trained, measured = [], []
    for model, conditions in wanted_conditions(wanted_numbers(cells), suites).items():
        checkpoint = checkpoints[model]
        trained.append(forecast.training(checkpoint))
        measured += [
            forecast.measuring(checkpoint, suites[suite].only(names).conditions) for suite, names in conditions.items()
        ]
    known = [
        "unknown" if any(each is None for each in parts) else str(sum((each for each in parts if each), NONE))
        for parts in (trained, measured)
    ]
    return f"training {known[0]}, measuring {known[1]}"
