"""HTML renderer: a self-contained page without scripts, fonts or images, light or dark by preference."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from robench.reports.grid import grid_of

if TYPE_CHECKING:
    from robench.core.report import Report
    from robench.reports.grid import Grid

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
{_table(grid)}</div>
{f"<ul>{chr(10)}{notes}</ul>{chr(10)}" if notes else ""}<footer>{escape(grid.provenance)}</footer>
</body>
</html>
"""


def fragment_of(report: Report) -> str:
    """Render the report as elements for a notebook: table, notes, provenance."""
    grid = grid_of(report)
    notes = "".join(f"<li>{escape(note)}</li>\n" for note in grid.notes)
    listed = f"<ul>\n{notes}</ul>\n" if notes else ""
    return f"<div>\n{_table(grid)}{listed}<p><small>{escape(grid.provenance)}</small></p>\n</div>\n"


def _table(grid: Grid) -> str:
    header = "".join(f'<th scope="col">{escape(text)}</th>' for text in grid.header)
    rows = "".join(
        f'<tr><th scope="row">{name}</th>{"".join(f"<td>{text}</td>" for text in texts)}</tr>\n'
        for name, *texts in grid.lines("<b>{}</b>".format, escape)
    )
    return f"<table>\n<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n"
