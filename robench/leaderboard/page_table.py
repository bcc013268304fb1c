"""Table of the page: readable without a script, sorted and filtered by the page's own."""

from __future__ import annotations

from html import escape
from math import isfinite
from typing import TYPE_CHECKING

from robench.core.inert import clipped
from robench.leaderboard.chart import bar_of
from robench.leaderboard.tables import CLOSE_MARK, grid_of_board
from robench.reports.grid import cell_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from robench.leaderboard.board import BoardColumn, BoardRow, Leaderboard

NOTHING = '<tr class="nothing"><td colspan="{}">No model has been measured on these suites yet.</td></tr>'


def table_of(board: Leaderboard) -> str:
    """Return the table as one element: a row a model, a column a number, and flags where any model was checked."""
    grid = grid_of_board(board)
    headers = "".join(_header(label, place) for place, label in enumerate(grid.header))
    largest = {column.key: _largest(board, column) for column in board.columns}
    rows = [
        _row(board, row, place, texts[0], texts[len(board.columns) + 1 :], largest)
        for place, (row, texts) in enumerate(zip(board.rows, grid.rows, strict=True))
    ]
    body = "\n".join(rows) if rows else NOTHING.format(len(grid.header))
    caption = f"{escape(grid.title)}: {len(board.rows)} models, proportions in per cent, 95 % intervals in brackets"
    return (
        f'<table id="board">\n<caption class="hidden-text">{caption}</caption>\n'
        f"<thead><tr>{headers}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
    )


def _header(label: str, place: int) -> str:
    return f'<th scope="col" data-place="{place}">{escape(label)}</th>'


def _row(
    board: Leaderboard, row: BoardRow, place: int, name: str, flags: tuple[str, ...], largest: dict[str, float]
) -> str:
    about = "" if row.entry is None else f'<span class="about">{escape(clipped(row.entry.attention))}</span>'
    cells = "".join(_cell(row, column, largest[column.key]) for column in board.columns)
    is_raised = ' class="raised"' if row.raised else ""
    checked = "".join(f"<td{is_raised}>{escape(text)}</td>" for text in flags)
    head = f'<th scope="row"><span class="model">{escape(name)}</span>{about}</th>'
    return f'<tr data-row="{place}">{head}{cells}{checked}</tr>'


def _cell(row: BoardRow, column: BoardColumn, largest: float) -> str:
    cell, standing = row.cells[column.key], row.standings.get(column.key)
    value, bracket, interval = cell_text(cell).partition(" [")
    if cell.estimate is None:
        return f'<td class="missing">{escape(cell_text(cell))}</td>'
    kinds = [
        *(["best"] if standing and standing.is_best else []),
        *(["close"] if standing and standing.is_close else []),
    ]
    attribute = f' class="{" ".join(kinds)}"' if kinds else ""
    mark = f'<sup title="not distinguishable from the best">{CLOSE_MARK}</sup>' if "close" in kinds else ""
    low_high = f' <span class="interval">[{escape(interval)}</span>' if bracket else ""
    return (
        f"<td{attribute}>{escape(value)}{mark}{low_high}{bar_of(cell.estimate, largest, cell.estimate.of_seeds)}</td>"
    )


def _largest(board: Leaderboard, column: BoardColumn) -> float:
    """Return the right end of a column's bars: 1 of proportions, else the largest number there is."""
    return max([1.0, *_numbers(board, column)]) if column.unit == "share" else max(_numbers(board, column), default=0.0)


def _numbers(board: Leaderboard, column: BoardColumn) -> Iterator[float]:
    estimates = (row.cells[column.key].estimate for row in board.rows)
    for estimate in (each for each in estimates if each is not None):
        yield from (number for number in (estimate.value, estimate.high) if number is not None and isfinite(number))
