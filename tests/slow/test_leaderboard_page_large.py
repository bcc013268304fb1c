"""A large page in a real browser."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from browser import resize
from test_leaderboard_page import all_of, board, driver, pytestmark

from robench.core.report import Cell, Estimate, Rank
from robench.leaderboard import render_html

if TYPE_CHECKING:
    from pathlib import Path

    from robench.leaderboard.board import Leaderboard

__all__ = ["board", "driver", "pytestmark"]


def test_a_large_table_sorts_and_shows_more_rows(
    driver: Any, board: Leaderboard, tmp_path: Path, record_property: pytest.RecordProperty
) -> None:
    """How long it takes is measured and not asserted: machines are shared."""
    large = repeated(board, num_models=200, num_columns=60)
    path = tmp_path / "large.html"
    path.write_text(render_html(large))
    resize(driver, 1280, 900)
    begun = time.perf_counter()
    driver.set_script_timeout(300)
    driver.get(path.as_uri())
    loaded = time.perf_counter() - begun
    script = """
        const button = document.querySelectorAll('#board thead button')[arguments[0]], begun = performance.now();
        button.click();
        document.querySelector('#board').getBoundingClientRect();
        return performance.now() - begun;
    """
    from selenium.webdriver.support.ui import WebDriverWait

    took = sorted(driver.execute_script(script, place) for place in range(1, 12))
    rows = [row.text for row in all_of(driver, "#board tbody .model")][:2]
    assert rows[0] != rows[1]
    assert len(all_of(driver, "#board tbody tr.later")) == 175
    driver.execute_script("document.querySelector('#more').scrollIntoView()")
    WebDriverWait(driver, 60).until(lambda opened: len(all_of(opened, "#board tbody tr.later")) <= 150)
    size = path.stat().st_size / 1e6
    measured = (
        f"200 models x 60 columns: {size:.1f} MB, loaded in {loaded:.1f} s, sorted in {took[5]:.0f} ms (median of 11)"
    )
    record_property("measured", measured)
    sys.stderr.write(f"\n{measured}\n")


def repeated(board: Leaderboard, *, num_models: int, num_columns: int) -> Leaderboard:
    column = board.columns[0]
    columns = tuple(replace(column, key=f"adv/{place}", label=f"column {place}") for place in range(num_columns))
    rows = []
    for place in range(num_models):
        shares = [(place * 37 + other * 11) % 101 / 101 for other in range(num_columns)]
        estimates = [Estimate(value=each, low=0.9 * each, high=0.9 * each + 0.1, num_examples=600) for each in shares]
        cells = [Cell(estimate=each, num_examples=600, missing=0) for each in estimates]
        rank = Rank(is_best=False, p=0.2, adjusted=0.5, is_close=True)
        keys = [each.key for each in columns]
        rows.append(
            replace(
                board.rows[-2],
                model=f"model-{place}",
                cells=dict(zip(keys, cells, strict=True)),
                ranks=dict.fromkeys(keys, rank),
            )
        )
    return replace(board, columns=columns, rows=tuple(rows), pairs={})
