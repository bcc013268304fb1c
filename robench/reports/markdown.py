"""Markdown renderer: a table in GitHub's dialect.

Names are displayed literally: everything that Markdown would interpret as emphasis, a link, an image, mathematics or
HTML is escaped.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tabulate import tabulate

from robench.reports.grid import grid_of

if TYPE_CHECKING:
    from robench.core.report import Report
    from robench.reports.grid import Grid

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
