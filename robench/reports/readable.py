r"""Renderers for readers: plain text, Markdown in GitHub's dialect, LaTeX and HTML.

LaTeX is a tabular with the rules of booktabs; its texts are escaped here because pandas' own escaping leaves ``<``,
``>``, dashes and a leading ``[``: the first three print as other characters, and the last is taken for the optional
argument of the ``\\`` or ``\midrule`` before it.
"""

import re
from collections.abc import Sequence
from html import escape
from textwrap import wrap

from robench.core.report import Report
from robench.reports.grid import Grid, grid_of
from robench.reports.markup import escaped, html_list, markdown_table, text_table
from robench.reports.page import html_page

_MAX_WIDTH, _LABEL_WIDTH = 120, 14


def render_text(report: Report) -> str:
    """Render the report as an aligned table without colours, with its notes and one line of provenance below.

    Best numbers have an asterisk. Headers of a table wider than 120 characters are wrapped; if it is still wider, it is
    transposed, with a column per model, where that is narrower.
    """
    grid = grid_of(report)
    notes = "".join(f"- {note}\n" for note in grid.notes)
    return "\n".join([f"{_narrow_table(grid)}\n", *([notes] if notes else []), f"{grid.provenance}\n"])


def _narrow_table(grid: Grid) -> str:
    lines = grid.lines("{} *".format)
    wrapped = [
        "\n".join(wrap(label, _LABEL_WIDTH, break_long_words=False, break_on_hyphens=False)) for label in grid.header
    ]
    tables = [text_table(grid.header, lines), text_table(wrapped, lines)]
    for table in tables:
        if _width(table) <= _MAX_WIDTH or not grid.rows:
            return table
    turned = grid.transposed
    return min(tables[0], text_table(turned.header, turned.lines("{} *".format)), key=_width)


def _width(table: str) -> int:
    return max(len(line) for line in table.splitlines())


def render_markdown(report: Report) -> str:
    """Render the report as a table, followed by its notes as a list and one line of provenance."""
    return markdown_of(grid_of(report))


def markdown_of(grid: Grid, above: Sequence[str] = (), below: Sequence[str] = ()) -> str:
    """Render a grid as a table, with blocks of Markdown above it, and between it and its notes."""
    notes = "\n".join(f"- {escaped(note)}" for note in grid.notes)
    blocks = [*above, markdown_grid(grid), *below, notes, escaped(grid.provenance)]
    return "\n\n".join(block for block in blocks if block) + "\n"


def markdown_grid(grid: Grid) -> str:
    """Render a grid as a table without notes."""
    return markdown_table(grid.header, grid.lines("**{}**".format), num_names=1)


_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\textquotedbl{}",
        "—": r"\textemdash{}",
        "…": r"\ldots{}",
        "†": r"\textdagger{}",
        **{character: f"\\{character}" for character in "&%$#_{}"},
    }
)


def render_latex(report: Report) -> str:
    """Render the report as a tabular, with notes and one line of provenance below; needs booktabs and T1 fonts."""
    return latex_of(grid_of(report))


def latex_of(grid: Grid, above: Sequence[str] = (), below: Sequence[str] = ()) -> str:
    """Render a grid as a tabular, with texts as paragraphs above it, and blocks of LaTeX between it and its notes."""
    texts = "".join(rf"\noindent {latex_escaped(text)}\par" + "\n" for text in above)
    notes = "".join(rf"\par\noindent {latex_escaped(text)}" + "\n" for text in (*grid.notes, grid.provenance))
    return (
        f"% Needs \\usepackage[T1]{{fontenc}} and \\usepackage{{booktabs}}.\n{texts}{latex_grid(grid)}{''.join(below)}"
        f"{{\\footnotesize\n{notes}\\par}}\n"
    )


def latex_grid(grid: Grid) -> str:
    """Render a grid as a tabular without notes."""
    import pandas as pd

    frame = pd.DataFrame(
        grid.lines(r"\textbf{{{}}}".format, latex_escaped), columns=[latex_escaped(text) for text in grid.header]
    )
    column_format = "l" + "r" * (len(grid.header) - 1)
    table: str = frame.style.hide(axis="index").to_latex(hrules=True, column_format=column_format)
    return table


def latex_escaped(text: str) -> str:
    """Return text that LaTeX prints as it is; printable text is expected."""
    # Two hyphens in a row would print as one dash.
    escaped = re.sub("-(?=-)", "-{}", text.translate(_LATEX))
    return f"{{}}{escaped}" if escaped.lstrip().startswith(("[", "*")) else escaped


def render_html(report: Report) -> str:
    """Render the report as a whole page: title, table, notes, provenance."""
    grid = grid_of(report)
    footer = f"<footer>{escape(grid.provenance)}</footer>"
    return html_page(grid.title, f'<div class="scroll">\n{_html_table(grid)}</div>\n{html_list(grid.notes)}{footer}')


def fragment_of(report: Report) -> str:
    """Render the report as elements for a notebook: table, notes, provenance."""
    grid = grid_of(report)
    below = f"<p><small>{escape(grid.provenance)}</small></p>\n"
    return f"<div>\n{_html_table(grid)}{html_list(grid.notes)}{below}</div>\n"


def _html_table(grid: Grid) -> str:
    header = "".join(f'<th scope="col">{escape(text)}</th>' for text in grid.header)
    rows = "".join(
        f'<tr><th scope="row">{name}</th>{"".join(f"<td>{text}</td>" for text in texts)}</tr>\n'
        for name, *texts in grid.lines("<b>{}</b>".format, escape)
    )
    return f"<table>\n<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n"
