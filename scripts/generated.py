"""Writes the files that are made of the code (``make generated``): schemas, suites, and pages of the documentation.

``python scripts/generated.py --check`` writes nothing and names all that are not up to date. Nothing here needs
torch; counts of models and tables of results, which take minutes, have scripts of their own.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import analysis_page
import archives_table
import attention_page
import contributing_page
import mechanism_gallery
import page_counts
import paper_suites
import shift_suites

from robench.core.inert import inert_json
from robench.declare.json_schema import FILES, json_schema

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
# Parts of pages: each script returns the page with its part as it should be.
PARTS: dict[str, Callable[[str], str]] = {
    "CONTRIBUTING.md": contributing_page.page,
    "docs/analysis.md": analysis_page.page,
    "docs/gallery.md": mechanism_gallery.page,
    "docs/reproducing.md": archives_table.page,
}


@cache
def contents() -> dict[str, str]:
    """Return the text of each file by its path in the repository."""
    found = {f"schemas/{kind}.json": inert_json(json_schema(kind)) + "\n" for kind in FILES}
    found |= {
        f"suites/{name}": text for script in (paper_suites, shift_suites) for name, text in script.texts().items()
    }
    found["docs/attention.md"] = attention_page.page()
    found |= {path: page((ROOT / path).read_text()) for path, page in PARTS.items()}
    return found | {path: page_counts.page(path, (ROOT / path).read_text()) for path in page_counts.PAGES}


def stale() -> dict[str, str]:
    """Return the files that are not up to date, with the text that each should have."""
    return {
        path: text
        for path, text in contents().items()
        if not (ROOT / path).exists() or (ROOT / path).read_text() != text
    }


if __name__ == "__main__":
    found = stale()
    if "--check" in sys.argv:
        sys.exit("\n".join(["run `make generated`, which writes", *found]) if found else 0)
    for path, text in found.items():
        (ROOT / path).write_text(text)
