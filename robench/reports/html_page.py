"""HTML renderer: a self-contained page without scripts, fonts or images, light or dark by preference."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from robench.reports.grid import grid_of

if TYPE_CHECKING:
    from robench.core.report import Report
    from robench.reports.grid import Grid

_CSS = """\
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
th:first-child, td:first-child { text-align: left; }
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
{_CSS}</style>
</head>
<body>
<h1>{escape(grid.title)}</h1>
<div class="scroll">
{_table(grid)}</div>
{f"<ul>{chr(10)}{notes}</ul>{chr(10)}" if notes else ""}<footer>{escape(grid.provenance)}</footer>
</body>
</html>
"""


def _table(grid: Grid) -> str:
    import pandas as pd

    frame = pd.DataFrame(grid.rows, columns=list(grid.header))
    styler = frame.style.hide(axis="index").format(escape="html").format_index(escape="html", axis="columns")
    # The styles that pandas would add contain a random identifier.
    return styler.to_html(exclude_styles=True)
