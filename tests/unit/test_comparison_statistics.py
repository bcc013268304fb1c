"""Tests, intervals and corrections against scipy, statsmodels (its numbers are kept) and brute force."""

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paired_records import flipped, values, verdicts
from scipy import stats
from swapped_outcomes import permuted_readings

from robench.comparison.evidence import MCNEMAR, PERMUTATION, Evidence, difference_of, evidence_of, holm
from robench.comparison.permutation import NUM_DRAWS, Paired, Permuted, pair, permuted, swaps
from robench.core.errors import IncomparableError, UsageError
from robench.metrics import METRICS, Readings
from robench.metrics.contributions import Contributions, Sample
from robench.metrics.intervals import resample_counts, wilson_interval
from robench.metrics.paired import exact_p_value, newcombe_interval, tail_p_value
from robench.tasks import TASKS
from robench.testing.metric import NUM_CONDITIONS, classified, columns_of, outcomes_for, readings_for, searched

STATSMODELS = json.loads((Path(__file__).parents[1] / "golden" / "statsmodels.json").read_text())
COUNTS = st.integers(0, 60)
# Slow ones that share all code but one line with corrupted_mean_iou.
ALIKE = ("corrupted_pixel_accuracy", "corrupted_class_accuracy")


def readings_of(name: str, seed: int) -> Readings:
    """What a metric reads of a model of its own for each seed."""
    metric = METRICS[name]
    make = outcomes_for(metric)
    rows = [make(100 * seed + each) for each in range(NUM_CONDITIONS[metric.scope])]
    if metric.scope == "threat-model" and TASKS[metric.task].verdict is not None:
        # So that some examples survive all attacks.
        rows = [[replace(row, correct_top1=not row.correct_top1) for row in each] for each in rows]
    conditions = [columns_of(each) for each in rows]
    return readings_for(metric, conditions)


def paired(first: Contributions, second: Contributions) -> Paired:
    return pair(first, second, "a column")


class TestMcNemar:
    @pytest.mark.parametrize("case", STATSMODELS["mcnemar"])
    def test_the_kept_numbers_of_statsmodels_and_those_of_scipy(self, case: dict[str, Any]) -> None:
        only_first, only_second = case["only_first"], case["only_second"]
        first, second = flipped(only_first + only_second + 20, only_first, only_second, 10)
        found = exact_p_value([each == "1" for each in first], [each == "1" for each in second])
        assert found == pytest.approx(case["p"], rel=0, abs=1e-12)
        trials = only_first + only_second
        expected = stats.binomtest(only_first, trials, 0.5).pvalue if trials else 1.0
        assert found == pytest.approx(expected, rel=0, abs=1e-12)

    @given(COUNTS, COUNTS)
    def test_one_sided_is_the_tail_of_scipys_binomial(self, wrong: int, right: int) -> None:
        expected = stats.binomtest(wrong, wrong + right, 0.5, alternative="greater").pvalue if wrong + right else 1.0
        assert tail_p_value(wrong, wrong + right) == pytest.approx(expected, rel=1e-12)

    def test_thousands_of_changed_examples(self) -> None:
        expected = stats.binomtest(10_050, 20_000, 0.5, alternative="greater").pvalue
        assert tail_p_value(10_050, 20_000) == pytest.approx(expected, rel=1e-9)

    def test_two_sided_is_twice_the_smaller_tail(self) -> None:
        evidence = Evidence(False, paired(verdicts("111110000"), verdicts("000000001")), None)
        assert evidence.p_value == 2 * tail_p_value(5, 6)
        assert evidence.worse_p_value == tail_p_value(5, 6)
        assert evidence.flips == (5, 1)
        assert evidence.test == MCNEMAR


class TestHolm:
    @pytest.mark.parametrize("case", STATSMODELS["holm"])
    def test_the_kept_numbers_of_statsmodels(self, case: dict[str, list[float]]) -> None:
        assert holm(case["p"]) == pytest.approx(case["holm"], rel=0, abs=1e-12)

    @given(st.lists(st.floats(0, 1), max_size=8))
    def test_between_the_p_value_and_bonferroni_and_in_its_order(self, p_values: list[float]) -> None:
        found = holm(p_values)
        assert all(p <= each <= min(1.0, len(p_values) * p) + 1e-15 for p, each in zip(p_values, found, strict=True))
        order = np.argsort(p_values, kind="stable")
        assert (np.diff(np.array(found)[order]) >= 0).all()


class TestNewcombe:
    def test_the_published_example(self) -> None:
        """Airway hyper-responsiveness before and after transplantation, Fagerland et al. 2014, table III."""
        assert newcombe_interval(1, 1, 7, 12) == pytest.approx((-0.507, -0.026), abs=5e-4)

    @pytest.mark.parametrize("case", STATSMODELS["wilson"])
    def test_wilson_is_that_of_statsmodels(self, case: dict[str, float]) -> None:
        found = wilson_interval(case["k"], case["n"])
        assert found == pytest.approx((case["low"], case["high"]), rel=0, abs=1e-12)

    @given(COUNTS, COUNTS, COUNTS, COUNTS)
    def test_it_holds_the_difference_and_turns_with_the_models(self, a: int, b: int, c: int, d: int) -> None:
        if not a + b + c + d:
            with pytest.raises(ValueError, match="a proportion needs"):
                newcombe_interval(a, b, c, d)
            return
        low, high = newcombe_interval(a, b, c, d)
        assert -1 <= low <= (b - c) / (a + b + c + d) <= high <= 1
        assert newcombe_interval(a, c, b, d) == pytest.approx((-high, -low), abs=1e-12)

    @pytest.mark.parametrize(("right", "changed", "gain"), [(0.6, 0.1, 0.0), (0.9, 0.05, 0.02), (0.3, 0.3, -0.05)])
    def test_it_covers_the_true_difference(self, right: float, changed: float, gain: float) -> None:
        shares = [right - changed / 2, (changed + gain) / 2, (changed - gain) / 2, 1 - right - changed / 2]
        draws = np.random.default_rng(0).multinomial(600, shares, size=2000)
        intervals = [newcombe_interval(*row) for row in draws.tolist()]
        covered = sum(low <= gain <= high for low, high in intervals)
        # Slightly too wide, as the correction of continuity makes it.
        assert 0.935 <= covered / len(draws) <= 0.985


class TestPermutation:
    def test_swaps_are_fair_whole_and_the_same_for_all_columns_of_the_examples(self) -> None:
        ids = np.array([f"i{number}" for number in range(70)], np.dtypes.StringDType())
        (drawn,) = map(np.concatenate, zip(*swaps([ids]), strict=True))
        assert drawn.shape == (NUM_DRAWS, 70)
        assert abs(drawn.mean(0) - 0.5).max() < 5 * 0.5 / np.sqrt(NUM_DRAWS)
        pairs = np.corrcoef(drawn.T)[np.triu_indices(70, 1)]
        assert abs(pairs).max() < 0.06
        order = np.random.default_rng(0).permutation(70)
        (shuffled,) = map(np.concatenate, zip(*swaps([ids[order]]), strict=True))
        assert (shuffled == drawn[:, order]).all()

    def test_an_example_of_two_samples_is_swapped_in_both(self) -> None:
        one = np.array(["a", "b", "c"], np.dtypes.StringDType())
        other = np.array(["c", "x", "a"], np.dtypes.StringDType())
        for first, second in swaps([one, other], 50):
            assert (first[:, 0] == second[:, 2]).all()
            assert (first[:, 2] == second[:, 0]).all()

    @pytest.mark.parametrize("seed", range(4))
    def test_the_exact_distribution_of_all_swaps(self, seed: int) -> None:
        generator = np.random.default_rng(seed)
        first, second = generator.normal(size=(2, 10)) + np.array([[0.4], [0.0]])
        found = permuted(paired(values(first), values(second)))
        gaps = (first - second) / 10
        everything = np.array([np.dot(signs, gaps) for signs in product((1, -1), repeat=10)])
        exact = (abs(everything) >= abs(gaps.sum()) - 1e-12).mean()
        assert found.observed == pytest.approx(gaps.sum(), abs=1e-12)
        assert found.two_sided == pytest.approx(exact, abs=4 * np.sqrt(exact / NUM_DRAWS) + 1 / NUM_DRAWS)
        how = {"permutation_type": "samples", "vectorized": True, "n_resamples": np.inf}
        expected = stats.permutation_test((first, second), lambda a, b, axis: (a - b).mean(axis=axis), **how)
        assert exact == pytest.approx(expected.pvalue, abs=1e-12)
        greater = (everything >= gaps.sum() - 1e-12).mean()
        assert found.greater == pytest.approx(greater, abs=4 * np.sqrt(greater / NUM_DRAWS) + 1 / NUM_DRAWS)

    def test_of_binary_outcomes_it_approaches_mcnemar(self) -> None:
        first, second = (np.array([float(each) for each in text]) for text in flipped(600, 40, 60, 300))
        found = permuted(paired(values(first), values(second)))
        exact = exact_p_value(first, second)
        assert found.two_sided == pytest.approx(exact, abs=4 * np.sqrt(exact / NUM_DRAWS))

    def test_equal_models_have_p_1_on_every_side(self) -> None:
        found = permuted(paired(values([0.5, 0.25]), values([0.5, 0.25])))
        assert (found.observed, found.two_sided, found.less, found.greater) == (0.0, 1.0, 1.0, 1.0)

    def test_ties_that_rounding_parts_count_as_ties(self) -> None:
        """0.1 ten times is not 1: a sum in another order would seem milder than the observed one."""
        found = permuted(paired(values(np.full(40, 0.1)), values(np.zeros(40))))
        assert found.two_sided == pytest.approx(1 / (NUM_DRAWS + 1))
        assert Permuted(0.3, np.array([0.1 + 0.2, -0.3, 0.0])).two_sided == 3 / 4

    def test_what_is_undefined_counts_as_extreme(self) -> None:
        assert Permuted(1.0, np.array([np.nan, np.inf, 0.0, -np.inf])).two_sided == 4 / 5
        assert Permuted(np.inf, np.array([np.inf, 3.0])).two_sided == 2 / 3

    # The choice of attacks for robust mean IoU is kept while images are swapped, and not made anew in each draw.
    @pytest.mark.parametrize(
        "name",
        [
            pytest.param(name, marks=pytest.mark.slow) if name in ALIKE else name
            for name in METRICS
            if name != "robust_mean_iou"
        ],
    )
    def test_it_is_that_of_swapped_outcomes_for_every_metric(self, name: str) -> None:
        """The slow way computes the metric anew from swapped rows of outcomes."""
        metric, first, second = METRICS[name], readings_of(name, 1), readings_of(name, 2)
        slow = permuted_readings(metric, first, second, 15)
        fast = permuted(paired(metric.contributed(first), metric.contributed(second)), 15)  # type: ignore[arg-type]
        assert fast.observed == pytest.approx(slow.observed, rel=1e-12, abs=1e-12)
        assert fast.drawn == pytest.approx(slow.drawn, rel=1e-12, abs=1e-12)
        assert len(set(slow.drawn.tolist())) > 5

    def test_a_metric_that_states_no_contributions_is_refused(self) -> None:
        silent = replace(METRICS["fpr95"], contributions=None)
        with pytest.raises(UsageError, match="a column cannot be tested: metric 'fpr95' states no contributions"):
            evidence_of(silent, readings_of("fpr95", 1), readings_of("fpr95", 2), "a column")


class TestPairing:
    def test_other_orders_of_the_examples_are_put_right(self) -> None:
        first = verdicts("1100")
        order = np.array([2, 0, 3, 1])
        (sample,) = first.samples
        shuffled = Contributions((Sample(sample.ids[order], sample.values[order]),))
        assert paired(first, shuffled).difference == 0
        assert Evidence(False, paired(first, shuffled), None).flips == (0, 0)

    @pytest.mark.parametrize("other", ["110", "11001"])
    def test_other_examples_are_refused(self, other: str) -> None:
        with pytest.raises(IncomparableError, match=r"fgsm: the two models were .* on different examples \(1 are"):
            pair(verdicts("1100"), verdicts(other), "fgsm")

    def test_flipped_examples_are_named(self) -> None:
        evidence = Evidence(False, paired(verdicts("1100"), verdicts("1011")), None)
        assert evidence.flipped_ids == (("digits/0001",), ("digits/0002", "digits/0003"))

    @pytest.mark.parametrize(
        ("name", "is_binary"),
        [
            *((f"{name}_accuracy", True) for name in ("top1", "top5", "worst", "robust", "mean")),
            ("accuracy_at_distance", True),
            *((name, False) for name in ("median_distance", "aupr", "mean_corruption_error", "mean_error")),
        ],
    )
    def test_the_test_follows_from_what_the_number_is(self, name: str, is_binary: bool) -> None:
        evidence = evidence_of(METRICS[name], readings_of(name, 1), readings_of(name, 2), "a column", 19)
        assert evidence.test == (MCNEMAR if is_binary else PERMUTATION)
        assert 0 < evidence.p_value <= 1

    def test_several_predictions_are_no_binary_outcome(self) -> None:
        rows = [
            [replace(row, num_predictions=4, num_correct=(7 * k + seed) % 5) for k, row in enumerate(classified(seed))]
            for seed in (1, 2)
        ]
        metric = METRICS["mean_accuracy"]
        first, second = (readings_for(metric, [columns_of(each)]) for each in rows)
        evidence = evidence_of(metric, first, second, "a column")
        assert evidence.test == PERMUTATION
        assert evidence.difference.value == metric.compute(first).value - metric.compute(second).value


class TestDifference:
    @pytest.mark.parametrize("name", list(METRICS))
    def test_it_is_that_of_the_metrics_numbers_and_within_its_interval(self, name: str) -> None:
        metric, first, second = METRICS[name], readings_of(name, 1), readings_of(name, 2)
        found = evidence_of(metric, first, second, "a column", 9).difference
        wanted = metric.compute(first).value - metric.compute(second).value
        assert found.value == pytest.approx(wanted, rel=1e-12, abs=1e-12)
        assert found.low is not None
        assert found.high is not None
        assert found.low <= found.value <= found.high

    def test_the_bootstrap_is_that_of_a_loop_over_resamples(self) -> None:
        generator = np.random.default_rng(3)
        first, second = generator.normal(size=(2, 30))
        pairs = paired(values(first), values(second))
        statistics = [
            float(np.repeat(first - second, counts.astype(int)).mean())
            for rows in resample_counts(pairs.samples[0].ids)
            for counts in rows
        ]
        expected = np.percentile(statistics, [2.5, 97.5])
        found = difference_of(pairs)
        assert (found.low, found.high) == pytest.approx(tuple(expected), abs=1e-12)

    def test_of_two_samples_each_is_resampled_by_itself(self) -> None:
        metric, first, second = METRICS["auroc"], readings_of("auroc", 1), readings_of("auroc", 2)
        pairs = paired(metric.contributed(first), metric.contributed(second))  # type: ignore[arg-type]
        drawn = [np.concatenate([*resample_counts(each.ids, purpose=each.purpose)]) for each in pairs.samples]
        assert [each.purpose for each in pairs.samples] == ["bootstrap of positives", "bootstrap of negatives"]
        differences = []
        for positives, negatives in zip(*drawn, strict=True):
            areas = []
            for model in ("first", "second"):
                one, other = (
                    np.repeat(getattr(sample, model), counts.astype(int))
                    for sample, counts in zip(pairs.samples, (positives, negatives), strict=True)
                )
                areas.append(stats.mannwhitneyu(-one, -other).statistic / (len(one) * len(other)))
            differences.append(areas[0] - areas[1])
        found = difference_of(pairs)
        assert (found.low, found.high) == pytest.approx(tuple(np.percentile(differences, [2.5, 97.5])), abs=1e-9)

    def test_an_infinite_median_has_no_interval(self) -> None:
        metric = METRICS["median_distance"]
        rows = searched(3)
        unbroken = [replace(row, correct_top1=True, found=False) for row in rows]
        broken = [replace(row, correct_top1=False, found=True, l2=0.5) for row in rows]
        first, second = (readings_for(metric, [columns_of(each)]) for each in (unbroken, broken))
        evidence = evidence_of(metric, first, second, "a column", 99)
        assert (evidence.difference.value, evidence.difference.low) == (np.inf, None)
        # Every swap makes one of the medians infinite, so that the test says nothing, and claims nothing.
        assert evidence.p_value > 0.5
        same = evidence_of(metric, first, first, "a column", 99)
        assert (same.difference.value, same.p_value) == (0.0, 1.0)


class TestTolerance:
    @pytest.mark.parametrize(("loss", "fewest"), [(0.0, 6), (0.01, 6), (0.02, 7), (0.05, 8), (0.1, 11), (0.2, None)])
    def test_the_chance_of_a_larger_loss_is_a_binomial_tail(self, loss: float, fewest: int | None) -> None:
        """Of 100 examples 10 changed: w newly wrong ones are a loss of (2 w - 10) / 100."""
        evidence = Evidence(False, paired(*(verdicts(each) for each in flipped(100, 5, 5, 50))), None)
        expected = sum(stats.binom.pmf(wrong, 10, 0.5) for wrong in range(11) if (2 * wrong - 10) / 100 > loss + 1e-12)
        assert evidence.probability_of_loss_above(loss) == pytest.approx(expected, abs=1e-12)
        if fewest is not None and fewest <= 10:
            assert expected == pytest.approx(stats.binom.sf(fewest - 1, 10, 0.5))

    def test_of_other_numbers_it_is_counted_in_the_draws(self) -> None:
        drawn = Permuted(0.0, np.array([-0.3, -0.1, 0.0, 0.1, 0.2]))
        pairs = paired(values([0.5, 0.25]), values([0.5, 0.25]))
        assert Evidence(False, pairs, drawn).probability_of_loss_above(0.05) == 2 / 5
        assert Evidence(True, pairs, drawn).probability_of_loss_above(0.15) == 1 / 5
