"""Columns of costs and plots against cost: counts in their units without rank, and the measurements that are drawn."""

import json
from pathlib import Path
from typing import Any

import pytest
from figure_examples import board, points_of, whiskers_of

from robench.core.errors import IncompleteError, UsageError
from robench.costs import Counts
from robench.costs.stored import stored_costs
from robench.figures import CostAxis, cost_plot, seconds_axis
from robench.leaderboard import RENDERERS
from robench.leaderboard.costs import with_costs

COLUMN = "clean/top1_accuracy"
COUNTS = {
    "vit": Counts(parameters=5_700_000, linear=10**9, products=10**8, biases=0, norm_elements=10),
    "symvit": Counts(parameters=5_272_744, linear=10**9, products=2 * 10**8, biases=0, norm_elements=10),
}


def test_columns_of_costs_are_last_in_their_units_and_have_no_rank() -> None:
    found = with_costs(board(), COUNTS, ["products", "linear"])
    keys = [column.key for column in found.columns[len(board().columns) :]]
    assert keys == ["costs/parameters", "costs/multiply_adds/products", "costs/multiply_adds/linear"]
    rows = {row.model: row for row in found.rows}
    values = [each.value for key in keys if (each := rows["symvit"].cells[key].estimate) is not None]
    assert values == [5.272744, 1.2, 1.0]
    assert rows["rpc"].cells[keys[0]].estimate is None
    assert not any(key in row.ranks for row in found.rows for key in keys)
    assert [row.ranks for row in found.rows] == [row.ranks for row in board().rows]
    for name, render in RENDERERS.items():
        assert "multiply-adds (products, G)" in render(found), name
    assert json.loads(RENDERERS["json"](found))["test"] == json.loads(RENDERERS["json"](board()))["test"]


def axis(**values: float) -> CostAxis:
    return CostAxis(label="multiply-adds (G, products)", noun="counted multiply-adds", values=values, bounds={})


def test_points_are_the_numbers_of_both_and_whiskers_the_intervals() -> None:
    from robench.figures.draw import drawn

    plot = cost_plot(board(), COLUMN, axis(vit=1.1, symvit=1.2))
    cells = {row.model: row.cells[f"shift/{COLUMN}"].estimate for row in board().rows}
    for place in plot.panels[0].places:  # type: ignore[union-attr]  # it is of places
        estimate: Any = cells[place.model]
        assert (place.x, place.y) == ({"vit": 1.1, "symvit": 1.2}[place.model], 100 * estimate.value)
        assert place.y_bounds == (100 * estimate.low, 100 * estimate.high)
    assert set(plot.left_out) == {row.model for row in board().rows} - {"vit", "symvit"}
    assert plot.notes[0] == f"n = {cells['vit'].num_examples} examples a model."  # type: ignore[union-attr]  # it is there
    (axes,) = drawn(plot).axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("multiply-adds (G, products)", "top-1 accuracy (%)")
    for place, container in zip(plot.panels[0].places, axes.containers, strict=True):  # type: ignore[union-attr]  # likewise
        assert points_of(container) == ([place.x], [place.y])  # type: ignore[arg-type]  # containers of whiskers
        assert whiskers_of(container)[0] == pytest.approx(place.y_bounds)  # type: ignore[arg-type]  # likewise


def test_models_without_costs_and_unknown_columns_are_refused() -> None:
    with pytest.raises(IncompleteError, match="no model of shift, version 2 has counted multiply-adds"):
        cost_plot(board(), COLUMN, axis(other=1.0))
    with pytest.raises(UsageError, match="no column is named 'cleann/top1_accuracy'"):
        cost_plot(board(), "cleann/top1_accuracy", axis(vit=1.0))


def keep(folder: Path, model: str, median: float, at: str, **changes: object) -> None:
    """Keep a measurement as ``robench cost`` does."""
    seconds = {"median": median, "low": median / 2, "high": 2 * median, "mean": median}
    document = {
        "model": model,
        "protocol": {"name": "brief", "batch_size": 8},
        "input_shape": [3, 8, 8],
        "device": "cpu",
        "threads": 1,
        "versions": {"torch": "2.15.0"},
        "at": at,
        "inference": {"seconds": seconds, "peak_bytes": 10},
        **changes,
    }
    (folder / "costs").mkdir(exist_ok=True)
    (folder / "costs" / f"{model}-{at}.json").write_text(json.dumps(document))


def test_seconds_are_of_the_conditions_that_most_models_share_and_the_latest(tmp_path: Path) -> None:
    keep(tmp_path, "vit", 0.5, "2026-01-03", device="NVIDIA H200")
    keep(tmp_path, "vit", 0.001, "2026-01-01")
    keep(tmp_path, "vit", 0.002, "2026-01-02")
    keep(tmp_path, "symvit", 0.003, "2026-01-01")
    keep(tmp_path, "symvit", 0.9, "2026-01-02", threads=2)
    (tmp_path / "costs" / "growth.json").write_text('{"attention": "x"}')
    (tmp_path / "costs" / "broken.json").write_text('{"model": 1, "protocol": ')
    found = seconds_axis(stored_costs(tmp_path), ["vit", "symvit"])
    assert found.values == {"vit": 2.0, "symvit": 3.0}
    assert found.bounds == {"vit": (1.0, 4.0), "symvit": (1.5, 6.0)}
    assert found.note == "Times: median and quartiles on cpu, 1 threads, torch 2.15.0, protocol brief, batches of 8."
    assert seconds_axis((), ["vit"]).values == {}
