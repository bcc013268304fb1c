"""Means over training seeds: the mean and its t interval, what is missing, flags, and how each format shows them."""

import csv
import io
import json
import math
from dataclasses import replace

import pytest
from presence import present
from scipy import stats

from robench.core.flags import Flag
from robench.core.report import Cell, Estimate, Report, Row
from robench.core.suite import Column
from robench.reports import RENDERERS, over_seeds
from robench.reports.grid import ONE_CHECKPOINT
from robench.reports.seeds import SEED_INTERVAL, t_interval

KEY = "pgd/top1_accuracy"
COLUMNS = (Column(key=KEY, label="PGD", metric="top1_accuracy", conditions=("pgd",)),)
# digits-vit, retrained with seeds 0 to 3.
SCORES = (0.317, 0.442, 0.465, 0.417)


def cell(value: float | None, num_examples: int = 600, missing: int | None = 0) -> Cell:
    estimate = None if value is None else Estimate(value=value, low=value - 0.04, high=value + 0.04, num_examples=600)
    return Cell(estimate=estimate, num_examples=num_examples, missing=missing)


def row(model: str, found: Cell, **changes) -> Row:
    return Row(model=model, cells={KEY: found}, **changes)


def report(*rows: Row) -> Report:
    return Report(suite="s", version=1, seed=0, columns=COLUMNS, rows=rows, provenance={"intervals": "Wilson 95 %"})


def of_seeds(*cells: Cell, **changes) -> Row:
    names = ["vit", *(f"vit@{seed}" for seed in range(1, len(cells)))]
    (mean,) = over_seeds(report(*(row(name, each, **changes) for name, each in zip(names, cells, strict=True)))).rows
    return mean


def test_the_mean_has_students_t_interval_over_seeds() -> None:
    mean = of_seeds(*map(cell, SCORES))
    estimate = present(mean.cells[KEY].estimate)
    assert (mean.model, mean.seeds) == ("vit", ("vit", "vit@1", "vit@2", "vit@3"))
    assert estimate.of_seeds == SCORES
    assert estimate.value == pytest.approx(sum(SCORES) / 4, abs=1e-15)
    expected = stats.t.interval(0.95, 3, loc=estimate.value, scale=stats.sem(SCORES))
    assert (estimate.low, estimate.high) == pytest.approx(expected, rel=1e-12)


def test_equal_weights_count_once_and_a_note_names_the_others() -> None:
    rows = [row(name, cell(0.5), weights=weights) for name, weights in (("vit", "a"), ("vit@1", "b"), ("vit@2", "a"))]
    (mean,) = over_seeds(report(*rows)).rows
    assert mean.seeds == ("vit", "vit@1")
    assert mean.notes == ("vit: vit@2 has the weights of vit, and does not count again",)
    (single,) = over_seeds(report(rows[0], rows[2])).rows
    assert (single.seeds, single.cells) == ((), rows[0].cells)
    assert single.notes == ("vit@2 has the weights of vit, and does not count again",)


def test_rows_are_grouped_by_the_entry_that_is_asked_for() -> None:
    rows = [row(name, cell(value), weights=name) for name, value in (("mine", 0.25), ("other", 0.5), ("vit", 0.75))]
    found = over_seeds(report(*rows), {"mine": "vit", "vit": "vit", "other": "other"}.__getitem__).rows
    assert [(each.model, each.seeds) for each in found] == [("vit", ("mine", "vit")), ("other", ())]


@pytest.mark.parametrize("values", [(0.1, 0.4), (0.5, 0.5, 0.5), tuple(i / 10 for i in range(10))])
def test_t_intervals_are_those_of_scipy(values: tuple[float, ...]) -> None:
    mean, error = sum(values) / len(values), float(stats.sem(values))
    quantile = float(stats.t.ppf(0.975, len(values) - 1))
    assert t_interval(values) == pytest.approx((mean - quantile * error, mean + quantile * error), rel=1e-12)


def test_rows_of_other_models_stay_as_they_are_and_in_order() -> None:
    rows = (row("a", cell(0.5)), row("vit@1", cell(0.4)), row("b", cell(0.3)), row("vit", cell(0.2)))
    found = over_seeds(report(*rows))
    assert [each.model for each in found.rows] == ["a", "vit", "b"]
    assert (found.rows[0], found.rows[2]) == (rows[0], rows[2])
    assert found.rows[1].seeds == ("vit@1", "vit")
    assert found.provenance["intervals over seeds"] == SEED_INTERVAL


def test_one_seed_is_one_checkpoint() -> None:
    alone = report(row("vit", cell(0.5)), row("other@3", cell(0.4)))
    assert over_seeds(alone) == alone


@pytest.mark.parametrize(("second", "missing"), [(cell(None, 100, 500), 500), (cell(None, 100, None), None)])
def test_nothing_is_averaged_around_a_missing_seed(second: Cell, missing: int | None) -> None:
    found = of_seeds(cell(0.5), second, cell(0.6)).cells[KEY]
    assert found == Cell(estimate=None, num_examples=100, missing=missing)


def test_infinite_distances_have_no_interval() -> None:
    found = present(of_seeds(cell(1.0), cell(math.inf)).cells[KEY].estimate)
    assert (found.value, found.low, found.high) == (math.inf, None, None)


def test_a_flag_is_raised_where_it_is_for_any_seed() -> None:
    quiet = Flag(
        name="zero gradient", source="AutoAttack", is_raised=False, value=0.0, limit=0.0, finding="0 %", advice="none"
    )
    loud = replace(quiet, finding="40 %", is_raised=True)
    rows = (row("vit", cell(0.5), flags=(quiet,)), row("vit@1", cell(0.5), flags=(loud,)), row("vit@2", cell(0.5)))
    (mean,) = over_seeds(report(*rows)).rows
    assert [(flag.finding, flag.is_raised) for flag in mean.raised] == [("vit@1: 40 %", True)]
    (calm,) = over_seeds(report(rows[0], rows[2])).rows
    assert calm.flags == (quiet,)
    assert of_seeds(cell(0.5), cell(0.4)).flags is None


def test_notes_say_of_which_seed_they_are() -> None:
    assert of_seeds(cell(0.5), cell(0.4), notes=("2 devices",)).notes == ("all seeds: 2 devices",)
    rows = (replace(row("vit", cell(0.5)), notes=("2 devices",)), row("vit@1", cell(0.4)))
    (mean,) = over_seeds(report(*rows)).rows
    assert mean.notes == ("vit: 2 devices",)


class TestFormats:
    mixed = over_seeds(report(*(row(name, cell(0.5)) for name in ("vit", "vit@1", "other"))))

    @pytest.mark.parametrize("name", ["text", "md", "html", "latex"])
    def test_tables_say_how_many_seeds_and_where_there_is_one_checkpoint(self, name: str) -> None:
        text = RENDERERS[name](self.mixed)
        assert "vit (2 seeds)" in text
        assert "other (one checkpoint)" in text
        assert "vit, vit@1" in text
        assert ONE_CHECKPOINT.split(";")[0] in text

    @pytest.mark.parametrize("name", ["text", "md", "html", "latex"])
    def test_a_table_of_single_checkpoints_says_what_its_intervals_leave_out(self, name: str) -> None:
        text = RENDERERS[name](report(row("vit", cell(0.5))))
        assert "nothing of retraining" in text
        assert "one checkpoint" not in text

    def test_a_table_of_means_has_no_such_note(self) -> None:
        assert ONE_CHECKPOINT not in RENDERERS["md"](over_seeds(report(row("v", cell(0.5)), row("v@1", cell(0.6)))))

    def test_json_has_the_value_of_every_seed(self) -> None:
        first, second = json.loads(RENDERERS["json"](self.mixed))["rows"]
        assert first["seeds"] == ["vit", "vit@1"]
        assert first["cells"][KEY]["of_seeds"] == [0.5, 0.5]
        assert "seeds" not in second
        assert "of_seeds" not in second["cells"][KEY]

    def test_csv_has_the_number_of_seeds(self) -> None:
        lines = list(csv.DictReader(io.StringIO(RENDERERS["csv"](self.mixed))))
        assert [(line["model"], line["seeds"]) for line in lines] == [("vit", "2"), ("other", "")]


def test_the_interval_of_a_proportion_ends_at_0_and_1() -> None:
    high, low = (of_seeds(*map(cell, values)).cells[KEY].estimate for values in ((0.999, 1.0, 1.0), (0.0, 0.0, 0.01)))
    assert high is not None
    assert low is not None
    assert (high.high, low.low) == (1.0, 0.0)
    assert t_interval((0.999, 1.0, 1.0))[1] > 1
    ratios = [
        Cell(
            estimate=Estimate(value=value, low=None, high=None, num_examples=9, unit="ratio"), num_examples=9, missing=0
        )
        for value in (0.99, 1.0)
    ]
    ratio = present(of_seeds(*ratios).cells[KEY].estimate)
    assert present(ratio.high) > 1
