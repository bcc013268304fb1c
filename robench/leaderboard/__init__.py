"""Leaderboards over one or several suites, and their renderers by the name that ``--format`` calls them.

A renderer is a pure function of the leaderboard: the same one gives the same bytes, with no clock and no machine in it.
"""

from collections.abc import Callable, Mapping

from robench.leaderboard.board import PLAIN, Leaderboard
from robench.leaderboard.build import arranged_board, board_columns, leaderboard_of, ranked
from robench.leaderboard.document import MANIFEST_NAME, render_json, render_manifest
from robench.leaderboard.page import render_html
from robench.leaderboard.settings import settings_of
from robench.leaderboard.tables import render_csv, render_latex, render_markdown

Renderer = Callable[[Leaderboard], str]

RENDERERS: Mapping[str, Renderer] = {
    "html": render_html,
    "md": render_markdown,
    "csv": render_csv,
    "json": render_json,
    "latex": render_latex,
}
SUFFIXES: Mapping[str, str] = {"html": ".html", "md": ".md", "csv": ".csv", "json": ".json", "latex": ".tex"}

__all__ = [
    "MANIFEST_NAME",
    "PLAIN",
    "RENDERERS",
    "SUFFIXES",
    "Leaderboard",
    "Renderer",
    "arranged_board",
    "board_columns",
    "leaderboard_of",
    "ranked",
    "render_manifest",
    "settings_of",
]
