r"""Renderers for readers: plain text, Markdown in GitHub's dialect, LaTeX and HTML.

Names are displayed literally. In Markdown, everything that would be interpreted as emphasis, a link, an image,
mathematics or HTML is escaped. LaTeX is a tabular with the rules of booktabs; its texts are escaped here because
pandas' own escaping leaves ``<``, ``>``, dashes and a leading ``[``: the first three print as other characters, and the
last is taken for the optional argument of the ``\\`` or ``\midrule`` before it. HTML is a self-contained page without
scripts, fonts or images, light or dark by preference.
"""

from __future__ import annotations

import re
from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING

from tabulate import tabulate

from robench.reports.grid import grid_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robench.core.report import Report
    from robench.reports.grid import Grid

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
    tables = [_text_table(grid.header, grid), _text_table(tuple(map(_wrapped, grid.header)), grid)]
    for table in tables:
        if _width(table) <= _MAX_WIDTH or not grid.rows:
            return table
    turned = grid.transposed
    return min(tables[0], _text_table(turned.header, turned), key=_width)


def _wrapped(label: str) -> str:
    return "\n".join(wrap(label, _LABEL_WIDTH, break_long_words=False, break_on_hyphens=False))


def _text_table(header: Sequence[str], grid: Grid) -> str:
    # Without disable_numparse 68.70 becomes 68.7 and a model called 1e5 a number.
    lines = grid.lines("{} *".format)
    return tabulate(lines, headers=header, tablefmt="simple", disable_numparse=True)


def _width(table: str) -> int:
    return max(len(line) for line in table.splitlines())


# An underscore inside a word is never emphasis, and escaped it would be hard to read unrendered.
_SPECIAL = re.compile(r"[\\`*\[\]|~$#]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def render_markdown(report: Report) -> str:
    """Render the report as a table, followed by its notes as a list and one line of provenance."""
    return markdown_of(grid_of(report))


def markdown_of(grid: Grid) -> str:
    """Render a grid as a table."""
    table = tabulate(
        # Numbers are robench's own text, and their brackets are not links.
        [(escaped(name), *numbers) for name, *numbers in grid.lines("**{}**".format)],
        headers=[escaped(text) for text in grid.header],
        tablefmt="github",
        disable_numparse=True,
    )
    notes = "".join(f"- {escaped(note)}\n" for note in grid.notes)
    return "\n".join([f"{table}\n", *([notes] if notes else []), f"{escaped(grid.provenance)}\n"])


def escaped(text: str) -> str:
    """Return text that Markdown shows as it is; printable text is expected."""
    return _SPECIAL.sub(r"\\\g<0>", text).translate(_ENTITIES)


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


def latex_of(grid: Grid) -> str:
    """Render a grid as a tabular."""
    import pandas as pd

    frame = pd.DataFrame(
        grid.lines(r"\textbf{{{}}}".format, _latex_escaped), columns=[_latex_escaped(text) for text in grid.header]
    )
    column_format = "l" + "r" * (len(grid.header) - 1)
    table = frame.style.hide(axis="index").to_latex(hrules=True, column_format=column_format)
    below = "".join(rf"\par\noindent {_latex_escaped(text)}" + "\n" for text in (*grid.notes, grid.provenance))
    return (
        f"% Needs \\usepackage[T1]{{fontenc}} and \\usepackage{{booktabs}}.\n{table}{{\\footnotesize\n{below}\\par}}\n"
    )


def _latex_escaped(text: str) -> str:
    # Two hyphens in a row would print as one dash.
    escaped = re.sub("-(?=-)", "-{}", text.translate(_LATEX))
    return f"{{}}{escaped}" if escaped.lstrip().startswith(("[", "*")) else escaped


CSS = """\
:root { color-scheme: light dark; --ink: #1c1e21; --paper: #fff; --faint: #5f6670; --line: #d5d9de; --stripe: #f5f6f8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --paper: #16181b; --faint: #9aa2ac; --line: #363b42; --stripe: #1e2125; }
}
body { margin: 2rem auto; max-width: 72rem; padding: 0 1rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .4rem .8rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--paper); font-weight: normal; }
thead th { border-bottom: 2px solid var(--ink); }
tbody tr:nth-child(even) { background: var(--stripe); }
ul, footer { color: var(--faint); font-size: .875rem; overflow-wrap: anywhere; }
"""


def render_html(report: Report) -> str:
    """Render the report as a whole page: title, table, notes, provenance."""
    grid = grid_of(report)
    notes = "".join(f"<li>{escape(note)}</li>\n" for note in grid.notes)
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{escape(grid.title)}</title>
<style>
{CSS}</style>
</head>
<body>
<h1>{escape(grid.title)}</h1>
<div class="scroll">
{_html_table(grid)}</div>
{f"<ul>{chr(10)}{notes}</ul>{chr(10)}" if notes else ""}<footer>{escape(grid.provenance)}</footer>
</body>
</html>
"""


def fragment_of(report: Report) -> str:
    """Render the report as elements for a notebook: table, notes, provenance."""
    grid = grid_of(report)
    notes = "".join(f"<li>{escape(note)}</li>\n" for note in grid.notes)
    listed = f"<ul>\n{notes}</ul>\n" if notes else ""
    return f"<div>\n{_html_table(grid)}{listed}<p><small>{escape(grid.provenance)}</small></p>\n</div>\n"


def _html_table(grid: Grid) -> str:
    header = "".join(f'<th scope="col">{escape(text)}</th>' for text in grid.header)
    rows = "".join(
        f'<tr><th scope="row">{name}</th>{"".join(f"<td>{text}</td>" for text in texts)}</tr>\n'
        for name, *texts in grid.lines("<b>{}</b>".format, escape)
    )
    return f"<table>\n<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n"
