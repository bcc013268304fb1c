"""Leaderboards as one HTML page that needs nothing else: table, charts, notes, provenance, and a script over its data.

Without the script it is a table to read; with it, columns sort, rows are filtered and compared, and each number shows
its provenance.
"""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from math import isfinite

from robench.core.inert import NOTE_WIDTH, clipped, is_link
from robench.leaderboard.board import BoardColumn, BoardRow, Chart, Leaderboard
from robench.leaderboard.chart import bar_of, sample_of, svg_of
from robench.leaderboard.curves import chosen_lines
from robench.leaderboard.document import document_of
from robench.leaderboard.tables import CLOSE_MARK, about_models, grid_of_board, notes_of, provenance_lines
from robench.reports.grid import cell_text
from robench.reports.notes import grouped_notes
from robench.reports.page import page_of
from robench.reports.table import html_table

STYLES = ("page.css", "table.css")
SCRIPTS = ("elements.js", "table.js", "details.js", "compare.js", "columns.js", "start.js")
_FLAGS = """\
A flag is a sign that a number under attack cannot be believed: gradients that are masked, an attack that
failed where a weaker one succeeded, or predictions that change by themselves. It says nothing against the model; follow
its advice and measure again."""
_BODY = """\
<main>
<div id="tools" class="tools" role="search" aria-label="Rows and columns" hidden></div>
<p id="status" class="status" role="status"></p>
<div class="scroll" role="region" aria-label="Leaderboard" tabindex="0">
{table}
</div>
{sections}</main>
<footer>
{provenance}</footer>
<dialog id="details" aria-labelledby="details-title"></dialog>
<dialog id="comparison" aria-labelledby="comparison-title"></dialog>
<dialog id="chooser" aria-labelledby="chooser-title"></dialog>
"""


def render_html(board: Leaderboard) -> str:
    """Return the leaderboard as a whole page."""
    suites = "; ".join(suite.description for suite in board.suites if suite.description)
    body = _BODY.format(
        table=table_of(board),
        sections="".join(_sections(board)),
        provenance="".join(f"<p>{escape(line)}</p>\n" for line in provenance_lines(board)),
    )
    return page_of(
        board.title,
        body,
        document_of(board),
        about=(board.settings.note, board.suite_titles if board.settings.title else "", suites),
        package="robench.leaderboard",
        styles=STYLES,
        scripts=SCRIPTS,
    )


def _sections(board: Leaderboard) -> Iterator[str]:
    notes = "".join(f"<li>{escape(clipped(note, NOTE_WIDTH))}</li>\n" for note in _notes(board))
    yield f'<section id="notes"><h2>Notes</h2>\n<ul>\n{notes}</ul></section>\n'
    yield _models(board)
    if any(row.raised for row in board.rows):
        yield f'<section id="flags"><h2>Flags</h2>\n<p>{_FLAGS}</p>\n{_flags(board)}</section>\n'
    if board.curves:
        yield _charts("curves", "Accuracy against the budget", board.curves, board.left_out)
    if board.profiles:
        yield _charts("profiles", "Accuracy against the severity of corruptions", board.profiles)


def _notes(board: Leaderboard) -> Iterator[str]:
    yield from notes_of(board)
    for suite in board.suites:
        yield from suite.notes
    yield from grouped_notes([(clipped(row.model), row.notes) for row in board.rows])


def _models(board: Leaderboard) -> str:
    """Return the table of models with facts from registries; nothing of a leaderboard without rows."""
    header, rows = about_models(board)
    if not rows:
        return ""
    caption = "Models: where they were published, what they were trained on, and when they were measured"
    table = html_table(header, [(escape(clipped(name)), *map(_linked, texts)) for name, *texts in rows], caption)
    return (
        '<section id="models"><h2>Models</h2>\n<div class="scroll" role="region" aria-label="Models" tabindex="0">\n'
        f"{table}</div></section>\n"
    )


def _linked(text: str) -> str:
    shown = escape(clipped(text))
    return f'<a href="{escape(text)}" rel="noopener noreferrer nofollow">{shown}</a>' if is_link(text) else shown


def _flags(board: Leaderboard) -> str:
    items = []
    for row in board.rows:
        for flag in row.raised:
            words = f"{flag.finding}; {flag.advice} (rule: {flag.source})"
            items.append(
                f"<dt>{escape(clipped(row.model))}: {escape(clipped(flag.name))}</dt>"
                f"<dd>{escape(clipped(words, NOTE_WIDTH))}</dd>\n"
            )
    return f"<dl>\n{''.join(items)}</dl>"


def _charts(identifier: str, title: str, charts: Sequence[Chart], left_out: Sequence[str] = ()) -> str:
    groups = "".join(_group(name, list(of)) for name, of in groupby(charts, key=lambda chart: chart.group))
    others = f"<p>In no chart: {escape(clipped(', '.join(left_out), NOTE_WIDTH))}.</p>\n" if left_out else ""
    return f'<section id="{identifier}"><h2>{title}</h2>\n{groups}{others}</section>\n'


def _group(name: str, charts: Sequence[Chart]) -> str:
    """Return charts that share a legend, and so the models that they show: the best over all of them."""
    models = chosen_lines(charts)
    styles = {model: style for style, model in enumerate(models)}
    num_models = len({model for chart in charts for model in chart.lines})
    left_out = (
        f"<p>The best {len(models)} of {num_models} models by their mean.</p>\n" if num_models > len(models) else ""
    )
    legend = "".join(f"<li>{sample_of(model, style)}{escape(clipped(model))}</li>" for model, style in styles.items())
    figures = "".join(
        f"<figure>{svg_of(chart, styles)}<figcaption>{escape(clipped(chart.title))}</figcaption></figure>\n"
        for chart in charts
    )
    return (
        f'<h3>{escape(clipped(name))}</h3>\n{left_out}<ul class="legend">{legend}</ul>\n'
        f'<div class="figures">\n{figures}</div>\n'
    )


NOTHING = '<tr class="nothing"><td colspan="{}">No model has been measured on these suites yet.</td></tr>'


def table_of(board: Leaderboard) -> str:
    """Return the table as one element: a row a model, a column a number, and flags where any model was checked."""
    grid = grid_of_board(board)
    rank = -1 if board.settings.sort is None else 1
    headers = "".join(
        f'<th scope="col" data-place="{place}"{" class=rank" if place == rank else ""}>{escape(label)}</th>'
        for place, label in enumerate(grid.header)
    )
    largest = {column.key: _largest(board, column) for column in board.columns}
    rows = [
        _row(board, row, place, texts, largest)
        for place, (row, texts) in enumerate(zip(board.rows, grid.rows, strict=True))
    ]
    body = "\n".join(rows) if rows else NOTHING.format(len(grid.header))
    caption = f"{escape(grid.title)}: {len(board.rows)} models, proportions in per cent, 95 % intervals in brackets"
    return (
        f'<table id="board">\n<caption class="hidden-text">{caption}</caption>\n'
        f"<thead><tr>{headers}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
    )


def _row(board: Leaderboard, row: BoardRow, place: int, texts: tuple[str, ...], largest: dict[str, float]) -> str:
    about = "" if row.entry is None else f'<span class="about">{escape(clipped(row.entry.attention))}</span>'
    cells = "".join(_cell(row, column, largest[column.key]) for column in board.columns)
    kind = "flags raised" if row.raised else "flags"
    # The model's name, perhaps its rank, the numbers, and perhaps the flags.
    num_first = 1 if board.settings.sort is None else 2
    checked = "".join(f'<td class="{kind}">{escape(text)}</td>' for text in texts[num_first + len(board.columns) :])
    head = f'<th scope="row"><span class="model">{escape(texts[0])}</span>{about}</th>'
    rank = "".join(
        f'<td class="rank" title="{escape(clipped(row.unranked))}">{text}</td>' for text in texts[1:num_first]
    )
    return f'<tr data-row="{place}">{head}{rank}{cells}{checked}</tr>'


def _cell(row: BoardRow, column: BoardColumn, largest: float) -> str:
    cell, rank = row.cells[column.key], row.ranks.get(column.key)
    value, bracket, interval = cell_text(cell).partition(" [")
    if cell.estimate is None:
        return f'<td class="missing">{escape(cell_text(cell))}</td>'
    kinds = [*(["best"] if rank and rank.is_best else []), *(["close"] if rank and rank.is_close else [])]
    attribute = f' class="{" ".join(kinds)}"' if kinds else ""
    how = "" if rank is None or rank.test is None else f", p = {rank.adjusted:.2g} by {rank.test}, corrected"
    mark = f'<sup title="not distinguishable from the best{how}">{CLOSE_MARK}</sup>' if "close" in kinds else ""
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
