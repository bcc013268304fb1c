"""Wilson intervals against scipy and against their own defining equation."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, norm

from robench.metrics.intervals import wilson_interval

COUNTS = st.integers(1, 60_000).flatmap(lambda trials: st.tuples(st.integers(0, trials), st.just(trials)))


def random_counts() -> list[tuple[int, int]]:
    draw = random.Random(1927)
    sizes = [draw.randint(1, 10 ** draw.randint(1, 5)) for _ in range(1000)]
    return [(draw.choice((0, size, draw.randint(0, size))), size) for size in sizes]


def test_a_thousand_intervals_equal_those_of_scipy():
    counts = random_counts()
    assert any(successes == 0 for successes, _ in counts)
    assert any(successes == trials for successes, trials in counts)
    for successes, trials in counts:
        wanted = binomtest(successes, trials).proportion_ci(confidence_level=0.95, method="wilson")
        assert wilson_interval(successes, trials) == pytest.approx((wanted.low, wanted.high), abs=1e-12)


@given(COUNTS)
def test_bounds_solve_the_equation_that_defines_them(counts: tuple[int, int]):
    successes, trials = counts
    quantile = norm.ppf(0.975)
    for bound in wilson_interval(successes, trials):
        squared_distance = (successes / trials - bound) ** 2
        assert squared_distance == pytest.approx(quantile**2 * bound * (1 - bound) / trials, abs=1e-9)


@given(COUNTS)
def test_bounds_enclose_the_share_within_0_and_1(counts: tuple[int, int]):
    successes, trials = counts
    low, high = wilson_interval(successes, trials)
    assert 0 <= low <= successes / trials <= high <= 1
    assert low < high


def test_nothing_right_begins_at_exactly_0_and_all_right_ends_at_exactly_1():
    for trials in (*range(1, 2000), 10_000, 50_000):
        assert wilson_interval(0, trials)[0] == 0.0
        assert wilson_interval(trials, trials)[1] == 1.0


@pytest.mark.parametrize(("successes", "trials"), [(0, 0), (-1, 5), (6, 5), (0, -1)])
def test_counts_that_are_no_share_are_refused(successes: int, trials: int):
    with pytest.raises(ValueError, match=f"got {successes} of {trials}"):
        wilson_interval(successes, trials)


@pytest.mark.parametrize("num_trials", [200, 600, 2000])
def test_exact_coverage_of_proportions_from_10_to_90_percent(num_trials: int):
    """Without simulation: the probability of the counts whose interval holds the proportion."""
    counts = np.arange(num_trials + 1)
    low, high = np.array([wilson_interval(int(count), num_trials) for count in counts]).T
    proportions = np.linspace(0.1, 0.9, 401)
    holds = (low[:, None] <= proportions) & (proportions <= high[:, None])
    coverage = (binom.pmf(counts[:, None], num_trials, proportions) * holds).sum(0)
    assert coverage.min() > 0.93
    assert coverage.max() < 0.97
    assert coverage.mean() == pytest.approx(0.95, abs=0.002)
