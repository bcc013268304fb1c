"""Leaderboards as one HTML page that needs nothing else: table, charts, notes, provenance, and a script over its data.

Without the script it is a table to read; with it, columns sort, rows are filtered and compared, and each number shows
its provenance.
"""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby, zip_longest

from robench.core.inert import NOTE_WIDTH, clipped, is_link
from robench.leaderboard.board import BoardRow, Chart, Leaderboard
from robench.leaderboard.chart import sample_of, svg_of
from robench.leaderboard.curves import chosen_lines
from robench.leaderboard.document import document_of, packed
from robench.leaderboard.tables import CLOSE_MARK, RANK, about_models, grid_of_board, notes_of, provenance_lines
from robench.reports.notes import grouped_notes
from robench.reports.page import page_of
from robench.reports.table import html_table

STYLES = ("page.css", "table.css")
SCRIPTS = (
    *("elements.js", "build.js", "table.js", "details.js", "compare.js", "columns.js", "address.js", "start.js"),
)
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
<svg id="bar" class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" hidden>\
<path class="seeds"/><path/></svg>
<dialog id="details" aria-labelledby="details-title"></dialog>
<dialog id="comparison" aria-labelledby="comparison-title"></dialog>
<dialog id="chooser" aria-labelledby="chooser-title"></dialog>
"""


def render_html(board: Leaderboard) -> str:
    """Return the leaderboard as a whole page, with a row a mechanism."""
    data, board = packed([document_of(board)]), board.shown
    suites = "; ".join(suite.description for suite in board.suites if suite.description)
    body = _BODY.format(
        table=table_of(board),
        sections="".join(_sections(board)),
        provenance="".join(f"<p>{escape(line)}</p>\n" for line in provenance_lines(board)),
    )
    return page_of(
        board.title,
        body,
        data,
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


def _marked(row: BoardRow, texts: Sequence[str], first: int) -> Iterator[str]:
    """Yield the texts of a row, numbers from the place ``first`` on, with the mark that the script sets too."""
    keys = [""] * first + [*row.cells]
    for key, text in zip_longest(keys, texts, fillvalue=""):
        rank = row.ranks.get(key)
        yield f"{text} {CLOSE_MARK}" if rank is not None and rank.is_close else text


def table_of(board: Leaderboard) -> str:
    """Return the table as one element of texts, in whose place the script builds its own."""
    grid = grid_of_board(board)
    caption = f"{grid.title}: {len(board.rows)} models, proportions in per cent, 95 % intervals in brackets"
    # Ranks come before the numbers, and flags after them.
    first = 1 + (grid.header[1:2] == (RANK,))
    lines = []
    for group, rows in groupby(zip(board.rows, grid.rows, strict=True), key=lambda each: each[0].group):
        lines += [[f"<b>{escape(clipped(group))}</b>"]] if group else []
        lines += [[escape(text) for text in _marked(row, texts, first)] for row, texts in rows]
    table = html_table(grid.header, lines, caption)
    nothing = "" if board.rows else "<p>No model has been measured on these suites yet.</p>\n"
    return f'<div id="board">{table}</div>{nothing}'
