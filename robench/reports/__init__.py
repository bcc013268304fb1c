"""Reports: tables built from records, and their renderers by the names of ``--format``.

A renderer is a pure function of the report: the same report gives the same text, with no clock and no machine in it.
Importing this package does not import pandas; the renderers that need it do so when called.
"""

from collections.abc import Callable, Mapping

from robench.core.report import Report
from robench.reports.arrangement import arranged
from robench.reports.build import build_report, report_of_store
from robench.reports.explanation import Explanation, explain
from robench.reports.grid import grid_of
from robench.reports.holdings import Holding, Unused, holdings_of, unused_in, without_shared
from robench.reports.latex import latex_of
from robench.reports.machine_readable import render_csv, render_json
from robench.reports.results import Listing
from robench.reports.seeds import over_seeds
from robench.reports.selection import needs
from robench.reports.table import html_of, markdown_of, text_of

Renderer = Callable[[Report], str]

RENDERERS: Mapping[str, Renderer] = {
    "text": lambda report: text_of(grid_of(report), width=120),
    "md": lambda report: markdown_of(grid_of(report)),
    "csv": render_csv,
    "json": render_json,
    "latex": lambda report: latex_of(grid_of(report)),
    "html": lambda report: html_of(grid_of(report)),
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
