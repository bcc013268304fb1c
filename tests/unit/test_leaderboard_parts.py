"""Parts of leaderboards: ranks with corrected tests, pairs, charts, columns of costs, plots against them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from figure_examples import board, points_of, whiskers_of
from scipy.stats import binomtest, ttest_ind

from robench.comparison import pairing
from robench.comparison.pairing import PairTest, pair_test, pairs_of, ranks
from robench.core.errors import IncompleteError, UsageError
from robench.costs import Counts
from robench.costs.stored import stored_costs
from robench.figures import CostAxis, cost_plot, seconds_axis
from robench.leaderboard import RENDERERS
from robench.leaderboard.board import Chart, Point
from robench.leaderboard.chart import colour_of, sample_of, svg_of
from robench.leaderboard.costs import with_costs
from robench.leaderboard.curves import MOST_LINES, chosen_lines
from robench.metrics.contributions import Contributions, Sample


def verdicts(text: str, first: int = 0) -> Contributions:
    """One character an example, 1 for right."""
    return contributions([each == "1" for each in text], first)


def contributions(values, first: int = 0) -> Contributions:
    ids = np.array([f"e{place:04d}" for place in range(first, first + len(values))])
    return Contributions((Sample(ids, np.array(values)),))


def share(text: str) -> float:
    return text.count("1") / len(text)


TEXTS = {"a": "1" * 30 + "0" * 10, "b": "1" * 28 + "0" * 12, "c": "1" * 10 + "0" * 30}


# Two columns, three models.
SIZE = {"num_columns": 2, "num_models": 3}


class TestRanks:
    def found(self, **options):
        values = {name: share(text) for name, text in TEXTS.items()}
        return ranks(
            values,
            {name: verdicts(text) for name, text in TEXTS.items()},
            **{"lower_is_better": False, **SIZE, **options},
        )

    def test_p_is_the_exact_binomial_test_of_the_examples_that_differ(self) -> None:
        found = self.found()
        assert found["b"].p == pytest.approx(binomtest(0, 2).pvalue, abs=1e-12)
        assert found["c"].p == pytest.approx(binomtest(0, 20).pvalue, abs=1e-12)
        assert found["c"].adjusted == pytest.approx(2 * 2 * found["c"].p)
        assert found["b"].adjusted == 1.0
        assert found["c"].test == "exact McNemar"

    def test_the_best_and_what_is_close_to_it_are_marked(self) -> None:
        found = self.found()
        assert [name for name, rank in found.items() if rank.is_best] == ["a"]
        assert [name for name, rank in found.items() if rank.is_close] == ["a", "b"]

    def test_of_errors_the_least_is_the_best(self) -> None:
        assert [name for name, rank in self.found(lower_is_better=True).items() if rank.is_best] == ["c"]

    def test_of_equal_numbers_the_first_is_the_best(self) -> None:
        same = {"x": verdicts("10"), "y": verdicts("10")}
        assert ranks({"x": 0.5, "y": 0.5}, same, lower_is_better=False, **SIZE)["x"].is_best

    def test_other_examples_are_not_paired(self) -> None:
        found = ranks(
            {"x": 0.5, "y": 0.0}, {"x": verdicts("10"), "y": verdicts("00", 1)}, lower_is_better=False, **SIZE
        )
        assert [rank.p for rank in found.values()] == [None, None]
        assert [rank.is_close for rank in found.values()] == [False, False]
        assert pair_test(verdicts("10"), verdicts("10", 1)) is None

    def test_numbers_that_are_no_proportion_are_permuted(self) -> None:
        """All 2^8 swaps are about as likely as drawn: only the two that swap none or all are as extreme."""
        first = contributions([0.9, 0.8, 0.7, 0.95, 0.6, 0.9, 0.8, 0.7])
        second = contributions([0.1, 0.2, 0.1, 0.3, 0.2, 0.1, 0.1, 0.2])
        assert pair_test(first, second).p_value == pytest.approx(2 / 2**8, rel=0.3)
        assert pair_test(first, second, may_permute=False) is None

    def test_of_many_rows_no_permutation_is_drawn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pairing, "MOST_PAIRED_ROWS", 1)
        found = ranks(
            {"x": 0.9, "y": 0.1}, {"x": contributions([0.9]), "y": contributions([0.1])}, lower_is_better=False, **SIZE
        )
        assert found["y"].p is None

    def test_means_over_seeds_are_tested_over_seeds(self) -> None:
        seeds = {"x": (0.40, 0.44, 0.48), "y": (0.31, 0.35, 0.36)}
        found = ranks({"x": 0.44, "y": 0.34}, seeds, lower_is_better=False, **SIZE)
        assert found["y"].p == pytest.approx(ttest_ind(*seeds.values(), equal_var=False).pvalue, abs=1e-12)

    def test_a_checkpoint_is_not_tested_against_a_mean_nor_what_is_infinite(self) -> None:
        assert pair_test((0.4, 0.5), verdicts("10")) is None
        assert pair_test(verdicts("10"), (0.4, 0.5)) is None
        assert pair_test((0.4, 0.5), (0.4, float("inf"))) is None

    def test_without_verdicts_there_is_a_best_alone(self) -> None:
        found = ranks({"x": 0.5, "y": 0.1}, {}, lower_is_better=False, **SIZE)
        assert [(each.is_best, each.is_close) for each in found.values()] == [(True, False), (False, False)]

    def test_no_numbers_have_no_ranks(self) -> None:
        assert ranks({}, {}, lower_is_better=False, **SIZE) == {}


class TestPairs:
    def test_all_pairs_of_few_rows(self) -> None:
        texts = {"a": verdicts("1110"), "b": verdicts("0000"), "d": verdicts("1111", 1)}
        assert pairs_of(["a", "b", "c", "d"], texts) == {(0, 1): PairTest(0.25, "exact McNemar")}

    def test_none_of_many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        texts = {"a": verdicts("1110"), "b": verdicts("0000")}
        monkeypatch.setattr(pairing, "MOST_PAIRED_ROWS", 1)
        assert pairs_of(["a", "b"], texts) == {}


def chart_of(lines: dict[str, list[float | None]], **fields) -> Chart:
    count = len(next(iter(lines.values())))
    return Chart(
        **{
            "group": "g",
            "title": "t",
            "x_label": "budget",
            "y_label": "accuracy",
            "ticks": tuple((float(x), str(x)) for x in range(count)),
            "lines": {
                model: tuple(Point(x=float(x), value=value) for x, value in enumerate(values))
                for model, values in lines.items()
            },
            **fields,
        }
    )


def drawn(chart: Chart, **styles: int) -> ElementTree.Element:
    return ElementTree.fromstring(svg_of(chart, styles))


class TestCharts:
    def test_a_line_goes_from_point_to_point_in_per_cent(self) -> None:
        (path,) = drawn(chart_of({"m": [1.0, 0.5, 0.0]}), m=2).findall(f"g/path[@class='line-{colour_of('m')}']")
        assert path.get("d") == "M40.0 12.0L194.0 100.0L348.0 188.0"

    def test_a_gap_breaks_the_line(self) -> None:
        (path,) = drawn(chart_of({"m": [1.0, None, 0.0, 0.0]}), m=0).findall(f"g/path[@class='line-{colour_of('m')}']")
        assert path.get("d").count("M") == 2
        assert path.get("d").count("L") == 1

    def test_intervals_are_upright_lines(self) -> None:
        point = Point(x=0.0, value=0.5, low=0.25, high=0.75)
        chart = replace(chart_of({"m": [0.5]}), lines={"m": (point,)})
        (path,) = drawn(chart, m=0).findall(f"g/path[@class='line-{colour_of('m')} interval']")
        assert path.get("d") == "M194.0 144.0V56.0"

    def test_every_point_has_a_marker_and_every_line_its_name(self) -> None:
        svg = drawn(chart_of({"a": [1.0, 0.5], "b": [0.1, None]}), a=0, b=1)
        assert len(svg.findall(f"g/path[@class='mark-{colour_of('a')}']")) == 2
        assert len(svg.findall(f"g/path[@class='mark-{colour_of('b')}']")) == 1
        assert [title.text for title in svg.findall("g/title")] == ["a", "b"]

    def test_it_has_a_name_for_who_does_not_see_it(self) -> None:
        svg = drawn(chart_of({"m": [1.0, 0.5]}), m=0)
        assert svg.get("role") == "img"
        assert svg.get("aria-label") == "t: accuracy in per cent against budget"

    def test_many_ticks_are_thinned(self) -> None:
        svg = drawn(chart_of({"m": [0.5] * 30}), m=0)
        ticks = [each for each in svg.findall("text") if each.get("text-anchor") == "middle"]
        assert len(ticks) == 6 + 1

    def test_the_best_lines_are_chosen(self) -> None:
        lines = {f"m{place}": [place / 20, place / 20] for place in range(12)} | {"gap": [None, None]}
        chosen = chosen_lines([chart_of(lines)])
        assert chosen == [f"m{place}" for place in range(11, 11 - MOST_LINES, -1)]

    def test_lines_of_one_colour_differ_in_marker_or_dashes(self) -> None:
        samples = {sample_of("m", style) for style in range(MOST_LINES)}
        assert len(samples) == MOST_LINES
        assert all(f"line-{colour_of('m')}" in each for each in samples)

    def test_infinite_and_missing_values_choose_nothing(self) -> None:
        lines = {"inf": [float("inf"), 0.2], "one": [0.3, None]}
        assert chosen_lines([chart_of(lines)]) == ["one", "inf"]
        assert "inf" not in svg_of(chart_of({"m": [float("inf"), 0.5]}), {"m": 0})

    def test_samples_have_the_markers_of_lines(self) -> None:
        shapes = [ElementTree.fromstring(sample_of("m", style)).findall("path")[1].get("d") for style in range(4)]
        assert len(set(shapes)) == 4


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
        assert "multiply-adds (products, G)" in render(found).replace(r" \\ ", " "), name
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
        "model": model, "protocol": {"name": "brief", "batch_size": 8}, "input_shape": [3, 8, 8], "device": "cpu",
        "threads": 1, "versions": {"torch": "2.15.0"}, "at": at, "inference": {"seconds": seconds, "peak_bytes": 10},
        **changes,
    }  # fmt: skip
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
