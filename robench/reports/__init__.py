"""Reports: tables built from records, and their renderers by the names of ``--format``.

A renderer is a pure function of the report: the same report gives the same text, with no clock and no machine in it.
Importing this package does not import pandas; the renderers that need it do so when called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from robench.core.report import Report
from robench.reports.arrangement import arranged
from robench.reports.build import build_report, report_of_store
from robench.reports.comma_separated import render_csv
from robench.reports.explanation import Explanation, explain
from robench.reports.holdings import Holding, holdings_of, without_shared
from robench.reports.html_page import render_html
from robench.reports.json_document import render_json
from robench.reports.latex import render_latex
from robench.reports.markdown import render_markdown
from robench.reports.results import Listing
from robench.reports.seeds import over_seeds
from robench.reports.selection import needs
from robench.reports.terminal import render_text
from robench.reports.unused import Unused, unused_in

Renderer = Callable[[Report], str]

RENDERERS: Mapping[str, Renderer] = {
    "text": render_text,
    "md": render_markdown,
    "csv": render_csv,
    "json": render_json,
    "latex": render_latex,
    "html": render_html,
}

__all__ = [
    "RENDERERS",
    "Explanation",
    "Holding",
    "Listing",
    "Renderer",
    "Unused",
    "arranged",
    "build_report",
    "explain",
    "holdings_of",
    "needs",
    "over_seeds",
    "report_of_store",
    "unused_in",
    "without_shared",
]
