"""A report as a table in GitHub's Markdown.

Names are shown as they are: what Markdown would read as emphasis, a link, an image, mathematics or HTML is escaped.
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
    """Return the report as a table, its notes as a list below, and one line of provenance below that."""
    return markdown_of(grid_of(report))


def markdown_of(grid: Grid) -> str:
    """Return a grid as such a table."""
    table = tabulate(
        # Numbers are robench's own text, and their brackets no link.
        [(_escape(name), *numbers) for name, *numbers in grid.rows],
        headers=[_escape(text) for text in grid.header],
        tablefmt="github",
        disable_numparse=True,
    )
    notes = "".join(f"- {_escape(note)}\n" for note in grid.notes)
    return "\n".join([f"{table}\n", *([notes] if notes else []), f"{_escape(grid.provenance)}\n"])


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text).translate(_ENTITIES)
