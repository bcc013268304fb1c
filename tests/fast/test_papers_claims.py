"""Verdicts on printed gains: each side of their boundaries by scipy, and how often they are wrong in simulations."""

from math import hypot, sqrt
from statistics import fmean

import numpy as np
import pytest
from scipy import stats

from robench.comparison.spread import Seeds, fewest, power, std_range, welch
from robench.papers.claims import PrintedGain, compared_gain, judged_gain, judged_on_examples

CLAIM = PrintedGain(gain=1.0, rounding=0.01, runs=5, num_claims=4)
ROW = (73.1, 72.8, 73.4, 73.0, 72.7)
BASELINE = (72.0, 72.3, 71.7, 72.2)


def seeds_around(center: float, std: float = 0.3, count: int = 5) -> Seeds:
    offsets = np.linspace(-1, 1, count)
    return Seeds(tuple(center + std * offsets / offsets.std(ddof=1)))


@pytest.mark.parametrize("num_claims", [1, 12])
def test_the_interval_is_welchs_at_the_level_of_the_row(num_claims: int) -> None:
    claim = PrintedGain(gain=1.0, rounding=0.01, num_claims=num_claims)
    found = judged_gain(claim, Seeds(ROW), Seeds(BASELINE))
    test = stats.ttest_ind(ROW, BASELINE, equal_var=False)
    low, high = test.confidence_interval(1 - 0.05 / num_claims)
    assert (found.gain, found.low, found.high) == pytest.approx((fmean(ROW) - fmean(BASELINE), low, high), rel=1e-9)
    assert found.num_seeds == 4


def test_the_variance_over_examples_adds_to_that_over_seeds() -> None:
    row, baseline = Seeds(ROW), Seeds(BASELINE)
    error, freedom = welch(row, baseline)
    half_width = hypot(stats.t.ppf(1 - 0.025 / 4, freedom) * error, stats.norm.ppf(1 - 0.025 / 4) * 0.4)
    found, alone = (judged_gain(CLAIM, row, baseline, each) for each in (0.4, None))
    assert (found.low, found.high) == pytest.approx((found.gain - half_width, found.gain + half_width), rel=1e-9)
    assert "over 5 and 4 seeds and examples" in found.reason
    assert (alone.name, found.name) == ("supported", "undecided")
    assert "over 5 and 4 seeds alone" in alone.reason
    assert found.reason.endswith("80 % takes over 1,000 seeds of each")


def test_with_the_papers_runs_the_error_has_their_share_of_the_variance() -> None:
    error, freedom = welch(Seeds(ROW), Seeds(BASELINE), runs=5)
    variances = np.var(ROW, ddof=1) * (1 / 5 + 1 / 5), np.var(BASELINE, ddof=1) * (1 / 4 + 1 / 5)
    assert error == pytest.approx(sqrt(sum(variances)), rel=1e-12)
    assert freedom == pytest.approx(sum(variances) ** 2 / (variances[0] ** 2 / 4 + variances[1] ** 2 / 3), rel=1e-12)
    one = Seeds((70.0, 70.3, 70.6))
    assert welch(one, one, runs=5)[0] == pytest.approx(0.3 * sqrt(2 / 3 + 2 / 5), rel=1e-12)


@pytest.mark.parametrize(
    ("gain", "std", "verdict"),
    [
        (1.0, 0.2, "supported"),
        (-1.0, 0.2, "contradicted"),
        (0.0, 0.2, "smaller"),
        (0.0, 1.0, "undecided"),
        (0.6, 1.0, "undecided"),
    ],
)
def test_each_verdict_has_its_side(gain: float, std: float, verdict: str) -> None:
    found = judged_gain(CLAIM, seeds_around(72.0 + gain, std), seeds_around(72.0, std))
    assert found.name == verdict
    mirrored = PrintedGain(gain=-1.0, rounding=0.01, runs=5, num_claims=4)
    assert judged_gain(mirrored, seeds_around(72.0 - gain, std), seeds_around(72.0, std)).name == verdict


def test_a_supported_gain_says_whether_it_is_as_large_as_printed() -> None:
    small = PrintedGain(gain=5.0, rounding=0.01, runs=5)
    reasons = [judged_gain(each, seeds_around(73.0), seeds_around(72.0)).reason for each in (CLAIM, small)]
    assert "the printed +1.000 is within what it allows" in reasons[0]
    assert "the printed +5.000 is outside what it allows" in reasons[1]


def test_a_print_may_have_been_rounded() -> None:
    row, baseline = seeds_around(72.0), seeds_around(72.0)
    error, freedom = welch(row, baseline, 5)
    allowed = stats.t.ppf(1 - 0.025 / 4, freedom) * error
    for rounding, verdict in ((0.01, "undecided"), (0.0, "smaller")):
        claim = PrintedGain(gain=allowed + 0.005, rounding=rounding, runs=5, num_claims=4)
        assert judged_gain(claim, row, baseline).name == verdict


def test_an_undecided_claim_gives_power_and_seeds_as_ranges() -> None:
    row, baseline = seeds_around(72.4, 1.0), seeds_around(72.0, 1.0)
    low, high = std_range(1.0, 8)
    chances = [100 * power(1.0, std, 5, 0.05 / 4) for std in (high, low)]
    needed = [fewest(lambda count, std=std: power(1.0, std, count, 0.05 / 4) >= 0.8) for std in (low, high)]
    reason = judged_gain(CLAIM, row, baseline).reason
    assert f"power of {chances[0]:.0f} to {chances[1]:.0f} % at 5 seeds" in reason
    assert reason.endswith(f"80 % takes {needed[0]} to {needed[1]} seeds of each")
    assert needed[0] < needed[1]


def test_equal_scores_have_the_deviation_of_one_example_and_are_named() -> None:
    equal = Seeds((72.0, 72.0, 72.0), step=1.0)
    assert equal.std == pytest.approx(1 / sqrt(12))
    found = judged_gain(CLAIM, Seeds((72.5, 72.5, 72.5), step=1.0), equal)
    assert found.name == "undecided"
    assert "seeds of the row and the baseline score equally within one example" in found.reason
    assert "score equally" not in judged_gain(CLAIM, seeds_around(73.0), seeds_around(72.0)).reason


def test_single_checkpoints_have_an_interval_over_examples() -> None:
    found = judged_on_examples(CLAIM, 0.8, 0.2, 1.4)
    assert (found.name, found.gain, found.low, found.high) == ("one seed", 0.8, 0.2, 1.4)
    assert "of these weights only" in found.reason
    assert judged_on_examples(CLAIM, 0.8, None, None).low is None


@pytest.mark.parametrize("constant", [0.3, 1.0])
@pytest.mark.parametrize("count", [3, 5])
def test_power_with_an_error_over_examples_is_that_of_the_verdict(count: int, constant: float) -> None:
    random = np.random.default_rng(count)
    claim, draws = PrintedGain(gain=3.0, rounding=0.0), 1000
    numbers = random.normal([[[3.0], [0.0]]], 1.0, (draws, 2, count))
    numbers[:, 0] += random.normal(0.0, constant, (draws, 1))
    pairs = [(Seeds(tuple(row)), Seeds(tuple(baseline))) for row, baseline in numbers]
    found = np.mean([compared_gain(claim, *pair, constant)[0] == "supported" for pair in pairs])
    assert abs(power(3.0, 1.0, count, 0.05, constant) - found) < 0.02 + 3 * sqrt(found * (1 - found) / draws)


@pytest.mark.parametrize(("count", "alpha"), [(3, 0.05), (5, 0.05), (5, 0.0125), (12, 0.004)])
def test_power_is_that_of_welchs_test(count: int, alpha: float) -> None:
    random = np.random.default_rng(count)
    first, second = random.normal(1.0, 1.0, (40_000, count)), random.normal(0.0, 1.0, (40_000, count))
    test = stats.ttest_ind(first, second, axis=1, equal_var=False)
    found = np.mean((test.pvalue < alpha) & (test.statistic > 0))
    assert abs(power(1.0, 1.0, count, alpha) - found) < 3 * sqrt(found * (1 - found) / 40_000)


def test_power_ends_at_nothing_and_at_certainty() -> None:
    assert power(50.0, 0.01, 5, 0.004) == pytest.approx(1.0)
    assert power(1e-9, 5.0, 5, 0.05) == pytest.approx(0.025, abs=0.01)
    assert (power(0.1, 0.0, 3, 0.05), power(0.0, 0.0, 3, 0.05)) == (1.0, 0.0)


COLUMNS = 6
# The narrower bounds of more draws are for `make test-all`.
many_draws = pytest.mark.parametrize(
    ("count", "draws"), [(3, 400), *(pytest.param(count, 1500, marks=pytest.mark.slow) for count in (3, 5))]
)


# Standard error over examples; the examples of a table are other ones than the next table's.
OVER_EXAMPLES = 1.0


def simulated(true_gain: float, printed_gain: float, count: int, num_rows: int) -> list[list[str]]:
    """Verdicts of rows of a paper with five runs, whose deviation and examples are drawn anew in each."""
    random = np.random.default_rng(count)
    found = []
    for _ in range(num_rows):
        names = []
        for std in random.uniform(0.05, 2.0, COLUMNS):
            runs = random.normal([[printed_gain], [0.0]], std, (2, 5)).mean(1)
            claim = PrintedGain(gain=round(runs[0], 2) - round(runs[1], 2), rounding=0.01, runs=5, num_claims=COLUMNS)
            row, baseline = random.normal([[true_gain], [0.0]], std, (2, count))
            row += random.normal(0.0, OVER_EXAMPLES)
            names.append(compared_gain(claim, Seeds(tuple(row)), Seeds(tuple(baseline)), OVER_EXAMPLES)[0])
        found.append(names)
    return found


@many_draws
def test_without_a_true_gain_a_row_rarely_has_a_supported_claim(count: int, draws: int) -> None:
    rate = np.mean(["supported" in names for names in simulated(0.0, 0.6, count, draws)])
    assert rate < 0.025 + 3 * sqrt(0.025 * 0.975 / draws)


@many_draws
def test_gains_as_printed_are_rarely_called_smaller(count: int, draws: int) -> None:
    rate = np.mean(["smaller" in names for names in simulated(0.6, 0.6, count, draws)])
    assert rate < 0.025 + 3 * sqrt(0.025 * 0.975 / draws)


@many_draws
def test_a_range_of_power_has_the_true_one_in_four_of_five(count: int, draws: int) -> None:
    random = np.random.default_rng(7)
    true, covered = power(0.6, 0.4, count, 0.0125), 0
    for row, baseline in random.normal(0.0, 0.4, (draws, 2, count)):
        pooled = sqrt((row.var(ddof=1) + baseline.var(ddof=1)) / 2)
        low, high = std_range(pooled, 2 * count - 2)
        covered += power(0.6, high, count, 0.0125) <= true <= power(0.6, low, count, 0.0125)
    assert abs(covered / draws - 0.8) < 3 * sqrt(0.8 * 0.2 / draws)
