"""The page on time series: its tables are those of the committed results."""

from __future__ import annotations

import runpy
from typing import Any

from conftest import ROOT

SCRIPT: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "results_pages.py"))


def test_the_tables_are_those_of_the_committed_results() -> None:
    series = SCRIPT["PAGES"]["series"]
    page = series.path.read_text()
    assert series.text(page) == page, "run `make generated`"
    assert page.count("| | softmax | rpc | twicing | bilateral | rkde | primal |") == 4
    assert "not measured" not in page
