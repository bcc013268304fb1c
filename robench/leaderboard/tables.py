"""Leaderboards as tables in Markdown, LaTeX or CSV."""

from collections.abc import Iterator
from dataclasses import replace

from robench.comparison.pairing import tests_text
from robench.core.inert import NOTE_WIDTH, clipped
from robench.core.report import Report, Row
from robench.leaderboard.board import BoardColumn, BoardRow, Leaderboard
from robench.reports.grid import ONE_CHECKPOINT, Grid, grid_of
from robench.reports.machine_readable import numbers_of
from robench.reports.markup import csv_of, inert_text
from robench.reports.readable import latex_of, markdown_of

CLOSE_MARK = "†"
CLOSE = f"{CLOSE_MARK} not distinguishable from the best of its column at 5 % ({{}}); the best itself has it too."
UNTESTED = "No mark: distinguishable from the best, or not testable."
_HEADER = (
    *("model", "family", "attention", "architecture", "limit", "suite", "column", "metric", "conditions"),
    *("value", "low", "high", "num_examples", "missing", "all_examples", "batch_size"),
    *("p", "p_corrected", "test", "is_best", "is_close"),
)


def notes_of(board: Leaderboard) -> tuple[str, ...]:
    """Return the sentences that belong under every leaderboard."""
    of_weights = () if all(row.seeds for row in board.rows) else (ONE_CHECKPOINT,)
    described = tests_of(board)
    return (*of_weights, *((CLOSE.format(described), UNTESTED) if described else ()))


def tests_of(board: Leaderboard) -> str:
    """Return the tests behind the marks, and the numbers by which their p-values are multiplied; empty for none."""
    tests = [rank.test for row in board.rows for rank in row.ranks.values() if rank.test is not None]
    return (
        tests_text(tests, [column.num_columns for column in board.columns if column.suite], len(board.rows))
        if tests
        else ""
    )


def marked(row: BoardRow, key: str, text: str) -> str:
    """Return a cell's text with the mark of models not distinguishable from the best, where others were tested."""
    rank = row.ranks.get(key)
    return f"{text} {CLOSE_MARK}" if rank is not None and rank.is_close else text


def grid_of_board(board: Leaderboard) -> Grid:
    """Return the table as texts, before any markup."""
    columns = tuple(replace(each.column, key=each.key, label=each.label) for each in board.columns)
    report = Report(
        suite="",
        version=0,
        seed=0,
        columns=columns,
        rows=tuple(_plain_row(row) for row in board.rows),
        provenance={},
        # The grid itself adds notes on weights.
        notes=(
            *(note for note in notes_of(board) if note != ONE_CHECKPOINT),
            *(note for suite in board.suites for note in suite.notes),
        ),
    )
    grid = grid_of(report)
    keys = [each.key for each in columns]
    rows = [
        (name, *(marked(row, key, text) for key, text in zip(keys, texts, strict=False)), *texts[len(keys) :])
        for row, (name, *texts) in zip(board.rows, grid.rows, strict=True)
    ]
    return replace(
        grid, title=clipped(board.title, NOTE_WIDTH), rows=tuple(rows), provenance="; ".join(provenance_lines(board))
    )


def provenance_lines(board: Leaderboard) -> list[str]:
    """Return a line of provenance for each suite."""
    lines = []
    for suite in board.suites:
        facts = [f"{name} {text}" for name, text in suite.provenance.items()]
        lines.append(clipped(", ".join([suite.title, *facts, "proportions in per cent"]), NOTE_WIDTH))
    return lines


def render_markdown(board: Leaderboard) -> str:
    """Return the leaderboard as a table in GitHub's Markdown, its notes and provenance below."""
    return markdown_of(grid_of_board(board))


def render_latex(board: Leaderboard) -> str:
    """Return the leaderboard as a LaTeX tabular, its notes and provenance below; needs booktabs and T1 fonts."""
    return latex_of(grid_of_board(board))


def render_csv(board: Leaderboard) -> str:
    """Return the leaderboard as CSV in long form, one line a cell, numbers unrounded and proportions in [0, 1].

    ``p``, ``p_corrected`` and ``test`` are those of ``comparison.pairing.ranks``; missing ones are empty, as are
    missing numbers.
    """
    return csv_of(_HEADER, [line for row in board.rows for line in _lines(row, board)])


def _lines(row: BoardRow, board: Leaderboard) -> Iterator[tuple[object, ...]]:
    entry = row.entry
    facets = ("", "", "") if entry is None else (entry.family, entry.attention, entry.architecture)
    start = (*map(inert_text, (row.model, *facets)), row.limit)
    for column in board.columns:
        yield (*start, *_fields(row, column))
    if row.flags is not None:
        suites = "+".join(dict.fromkeys(suite for each in row.flags for suite in each.suites))
        of_row = (inert_text(suites), "flags", "num_raised", "", len(row.raised))
        yield (*start, *of_row, *[None] * 4, row.all_examples or None, row.batch_size, *[None] * 5)


def _fields(row: BoardRow, column: BoardColumn) -> tuple[object, ...]:
    cell, rank = row.cells[column.key], row.ranks.get(column.key)
    rank_fields = (None,) * 5 if rank is None else (rank.p, rank.adjusted, rank.test, rank.is_best, rank.is_close)
    return (
        inert_text(column.suite),
        inert_text(column.column.key),
        inert_text(column.column.metric),
        inert_text("+".join(column.column.conditions)),
        *numbers_of(cell),
        cell.num_examples,
        cell.missing,
        row.all_examples or None,
        row.batch_size,
        *rank_fields,
    )


def _plain_row(row: BoardRow) -> Row:
    return Row(
        model=row.model,
        cells=row.cells,
        limit=row.limit,
        all_examples=row.all_examples,
        batch_size=row.batch_size,
        seeds=row.seeds,
        notes=row.notes,
        flags=None if row.flags is None else tuple(each.flag for each in row.flags),
    )
