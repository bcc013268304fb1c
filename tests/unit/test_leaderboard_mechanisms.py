"""Rows of mechanisms: means over training seeds, intervals over seeds and examples, and groups."""

import csv
import io
import json
from dataclasses import replace
from statistics import fmean, stdev

import numpy as np
import pytest
from leaderboard_examples import adv_suite, fill
from scipy.stats import t as student
from scipy.stats import ttest_ind

from examples import CHECKPOINT
from robench.core.report import Estimate
from robench.declare import read_registries
from robench.declare.document import document_from_python
from robench.leaderboard import RENDERERS, arranged_board, board_columns, leaderboard_of, settings_of
from robench.leaderboard.board import Settings
from robench.leaderboard.costs import with_costs
from robench.leaderboard.mechanisms import ADVERSARIAL, OTHERS
from robench.metrics.contributions import Contributions, Sample
from robench.metrics.intervals import wilson_interval
from robench.reports.seeds import CROSSED_INTERVAL, crossed_interval, t_interval
from robench.store import MemoryStore

FGSM = "adv/fgsm/top1_accuracy"
SKILLS = {"vit": 0.5, "vit@1": 0.52, "vit@2": 0.48, "rpc": 0.3, "rpc@1": 0.33, "rpc@2": 0.28, "alone": 0.5}


def seeds_of(values_KN) -> tuple[list[Estimate], list[Contributions]]:
    """Numbers and contributions of seeds; each has its examples in another order."""
    generator = np.random.default_rng(7)
    ids = np.array([f"e{place:05}" for place in range(values_KN.shape[1])])
    orders = [generator.permutation(len(ids)) for _ in values_KN]
    given = [Contributions((Sample(ids[order], row[order]),)) for order, row in zip(orders, values_KN, strict=True)]
    numbers = [Estimate(value=float(row.mean()), low=0.1, high=0.3, num_examples=len(ids)) for row in values_KN]
    return numbers, given


def drawn(generator, num_seeds, num_examples, of_seed, of_example, of_both):
    return (
        of_seed * generator.standard_normal((num_seeds, 1))
        + of_example * generator.standard_normal((1, num_examples))
        + of_both * generator.standard_normal((num_seeds, num_examples))
    )


class TestInterval:
    def test_it_is_that_of_an_analysis_of_variance_by_loops(self) -> None:
        values = drawn(np.random.default_rng(1), 4, 30, 0.3, 1.0, 0.5)
        k, n, grand = 4, 30, values.sum() / 120
        seeds = [sum(values[i]) / n for i in range(k)]
        examples = [sum(values[:, j]) / k for j in range(n)]
        of_seeds = n * sum((each - grand) ** 2 for each in seeds) / (k - 1)
        of_examples = k * sum((each - grand) ** 2 for each in examples) / (n - 1)
        left = sum((values[i, j] - seeds[i] - examples[j] + grand) ** 2 for i in range(k) for j in range(n))
        of_both = left / ((k - 1) * (n - 1))
        variance = (of_seeds + of_examples - of_both) / (k * n)
        spread = (of_seeds / (k * n)) ** 2 / (k - 1) + (of_examples / (k * n)) ** 2 / (n - 1)
        half = student.ppf(0.975, variance**2 / spread) * variance**0.5
        assert crossed_interval(*seeds_of(values)) == pytest.approx((grand - half, grand + half), abs=1e-12)

    def test_it_covers_the_truth_where_one_over_seeds_alone_does_not(self) -> None:
        """200 draws of four seeds on the same 60 examples, whose own spread decides: 95 % is 190."""
        generator, crossed, alone = np.random.default_rng(2), 0, 0
        for _ in range(200):
            numbers, given = seeds_of(drawn(generator, 4, 60, 0.05, 1.0, 0.5))
            low, high = crossed_interval(numbers, given)
            crossed += low <= 0 <= high
            low, high = t_interval([each.value for each in numbers])
            alone += low <= 0 <= high
        assert 182 <= crossed <= 197
        assert alone < 150

    def test_of_proportions_it_is_wilsons_with_the_trials_that_the_variance_leaves(self) -> None:
        values = drawn(np.random.default_rng(3), 3, 200, 0.2, 1.0, 0.5) > 1
        (numbers, given), mean = seeds_of(values), values.mean()
        low, high = crossed_interval(numbers, given)
        assert 0 < low < mean < high < 1
        # Both bounds solve (p - mean)^2 = t^2 V p (1 - p) / (mean (1 - mean)).
        factors = [(p - mean) ** 2 * mean * (1 - mean) / (p * (1 - p)) for p in (low, high)]
        assert factors[0] == pytest.approx(factors[1], rel=1e-9)
        as_numbers = crossed_interval(numbers, seeds_of(values.astype(float))[1])
        assert factors[0] == pytest.approx(((as_numbers[1] - as_numbers[0]) / 2) ** 2, rel=1e-9)

    def test_where_no_value_differs_it_is_that_of_one_seed(self) -> None:
        numbers, given = seeds_of(np.zeros((5, 300), bool))
        assert crossed_interval(numbers, given) == pytest.approx(wilson_interval(0, 300), abs=1e-12)

    def test_without_values_of_examples_no_correlation_of_seeds_is_assumed(self) -> None:
        values = drawn(np.random.default_rng(4), 5, 400, 0.0, 1.0, 0.5)
        numbers, given = seeds_of(values)
        errors = [float(row.std(ddof=1)) / 20 for row in values]
        numbers = [
            replace(each, low=each.value - 1.96 * error, high=each.value + 1.96 * error)
            for each, error in zip(numbers, errors, strict=True)
        ]
        of_metric = [Contributions(each.samples, statistic=lambda samples: samples[0].max(-1)) for each in given]
        wide, narrow = crossed_interval(numbers, of_metric), crossed_interval(numbers, given)
        assert wide[0] < narrow[0] < narrow[1] < wide[1]
        bare = [replace(each, low=None, high=None) for each in numbers]
        assert crossed_interval(bare, of_metric) == pytest.approx(t_interval([each.value for each in numbers]))


@pytest.fixture(scope="module")
def board():
    store = MemoryStore()
    fill(store, adv_suite(), SKILLS)
    return leaderboard_of([adv_suite()], store, settings=Settings(sort=FGSM))


class TestRows:
    def test_one_row_a_mechanism_is_the_mean_of_the_rows_of_its_seeds(self, board) -> None:
        by_name = {row.model: row for row in board.rows}
        assert set(by_name) == set(SKILLS)
        means = {row.model: row for row in board.shown.rows}
        assert {name: row.seeds for name, row in means.items()} == {
            "vit": ("vit", "vit@1", "vit@2"), "rpc": ("rpc", "rpc@1", "rpc@2"), "alone": ()
        }  # fmt: skip
        for name in ("vit", "rpc"):
            values = [by_name[seed].cells[FGSM].estimate.value for seed in means[name].seeds]
            found = means[name].cells[FGSM].estimate
            assert (found.value, list(found.of_seeds)) == (fmean(values), values)
            assert found.low < found.value < found.high
        assert means["alone"] == replace(by_name["alone"], unranked=means["alone"].unranked, ranks=means["alone"].ranks)
        assert board.suites[0].provenance["intervals over seeds"] == CROSSED_INTERVAL

    def test_mechanisms_are_ranked_over_their_seeds_and_seeds_are_not(self, board) -> None:
        means = {row.model: row for row in board.shown.rows}
        seeds = [means[name].cells[FGSM].estimate.of_seeds for name in ("vit", "rpc")]
        p = ttest_ind(*seeds, equal_var=False).pvalue
        assert means["rpc"].ranks[FGSM].p == pytest.approx(p, abs=1e-12)
        # Six columns of the suite, two other models.
        assert (means["vit"].rank, means["rpc"].rank) == (1, 2 if 12 * p <= 0.05 else 1)
        assert means["alone"].unranked == "it is a single checkpoint, and a mean over training seeds is ranked"
        assert {(row.rank, bool(row.unranked), bool(row.ranks)) for row in board.rows} == {(None, True, False)}

    def test_seeds_that_are_not_measured_are_not_counted_and_gaps_are_shown(self) -> None:
        store = MemoryStore()
        fill(store, adv_suite(conditions=adv_conditions("clean", "fgsm")), {"vit": 0.5, "vit@1": 0.52, "vit@2": 0.5})
        fill(store, adv_suite(), {"vit": 0.5, "vit@1": 0.52})
        fill(store, adv_suite(), {"rpc": 0.3, "rpc@1": 0.3}, half=["rpc@1"])
        board = leaderboard_of([adv_suite()], store)
        texts = {row["model"]: row["cells"] for row in json.loads(board.render("json"))["mechanisms"]}
        assert texts["vit"]["adv/pgd/top1_accuracy"]["text"].endswith("] (2 of 3 seeds)")
        assert texts["vit"][FGSM]["text"].endswith("]")
        assert texts["rpc"][FGSM]["text"] == "— (60 of 120 missing)"

    def test_documents_have_both(self, board) -> None:
        document = json.loads(RENDERERS["json"](board))
        assert [row["model"] for row in document["rows"]] == [row.model for row in board.rows]
        cell = document["mechanisms"][0]["cells"][FGSM]
        assert cell["deviation"] == pytest.approx(stdev(cell["of_seeds"]))
        assert f" ± {100 * cell['deviation']:.1f} [" in cell["text"]
        lines = list(csv.DictReader(io.StringIO(RENDERERS["csv"](board))))
        counted = {(line["model"], line["seeds"]) for line in lines}
        assert counted == {*((name, "") for name in SKILLS), ("vit", "3"), ("rpc", "3")}
        text = RENDERERS["md"](board)
        assert [line.split(" |")[0].strip() for line in text.splitlines() if "seeds) " in line] == [
            "| vit (3 seeds)", "| rpc (3 seeds)"
        ]  # fmt: skip
        assert "vit@1" not in text.split("\n- ")[0]

    def test_columns_are_chosen_and_costs_added_for_both(self, board) -> None:
        from robench.costs import Counts

        counts = {"vit@1": Counts(parameters=10**6, linear=1, products=1, biases=0, norm_elements=1)}
        found = arranged_board(with_costs(board, counts, ["products"]), columns=["fgsm"], sort="fgsm")
        assert [column.key for column in found.columns] == [column.key for column in found.shown.columns] == [FGSM]
        costs = {row.model: row.cells["costs/parameters"].estimate for row in with_costs(board, counts, []).shown.rows}
        assert (costs["vit"].value, costs["rpc"]) == (1.0, None)

    def test_without_tests_and_of_averaged_seeds_there_are_no_further_rows(self) -> None:
        store = MemoryStore()
        fill(store, adv_suite(), SKILLS)
        for options in ({"is_tested": False}, {"average_seeds": True}):
            board = leaderboard_of([adv_suite()], store, **options)
            assert board.by_mechanism is None
            assert board.shown is board


def adv_conditions(*names: str):
    from leaderboard_examples import ADV

    return [each for each in ADV["conditions"] if each["name"] in names]


class TestGroups:
    ENTRIES = read_registries()

    def of(self, **groups):
        store, entry = MemoryStore(), replace(CHECKPOINT, training=None)
        skills = {"robust": 0.6, "robust@1": 0.6, "plain": 0.3, "plain@1": 0.35, "other": 0.2, "unknown": 0.1}
        fill(store, adv_suite(), skills)
        recipe, clean = (self.ENTRIES[name].training for name in ("cifar10-adversarial-vit", "cifar10-vit"))
        known = {name: replace(entry, training=recipe) for name in ("robust", "robust@1")}
        known |= {name: replace(entry, training=clean) for name in ("plain", "plain@1", "other")}
        document = document_from_python({"leaderboard": {"groups": groups, "sort": {"column": "fgsm"}}}, "settings")
        settings = settings_of(document, board_columns([adv_suite()]))
        return leaderboard_of([adv_suite()], store, checkpoints=known, settings=settings)

    def test_models_trained_on_adversarial_examples_are_ranked_apart(self) -> None:
        board = self.of()
        assert {group: [row.model for row in rows] for group, rows in board.shown.groups.items()} == {
            OTHERS: ["plain", "other", "unknown"], ADVERSARIAL: ["robust"]
        }  # fmt: skip
        best = [row.model for row in board.shown.rows if row.ranks[FGSM].is_best]
        assert best == ["plain", "robust"]
        text = board.render("md")
        first, second = (text.index(f"## {group}\n\n| model ") for group in (OTHERS, ADVERSARIAL))
        assert first < text.index("\n| plain (2 seeds)") < second < text.index("\n| robust (2 seeds)")
        assert "p times 6 columns of the suite and 2 or 0 other models" in text

    def test_a_file_names_groups_by_patterns_and_others_follow(self) -> None:
        board = self.of(**{"The last": ["un*", "o*"], "Mine": ["robust"]})
        assert {group: [row.model for row in rows] for group, rows in board.shown.groups.items()} == {
            "The last": ["other", "unknown"], "Mine": ["robust"], OTHERS: ["plain"]
        }  # fmt: skip
        # Two tests of the group's own models, six columns.
        (other, unknown) = board.shown.groups["The last"]
        assert unknown.ranks[FGSM].adjusted == pytest.approx(min(1, 6 * unknown.ranks[FGSM].p))
        assert other.rank == 1
        assert board.render("csv").splitlines()[0].endswith(",group,seeds")

    def test_of_one_group_nothing_is_said(self) -> None:
        board = self.of(All=["*"])
        assert list(board.shown.groups) == [""]
        assert "group" not in board.render("md")
