"""Verdicts on printed numbers, each on both sides of its boundary; quantiles are scipy.stats' own."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from statistics import fmean

import numpy as np
import pytest
from scipy import stats

from robench.papers.verdicts import Evidence, detectable_difference, judged

PRINTED = Evidence(printed=70.44, rounding=0.005, measured=70.44)
AUTHORS = replace(PRINTED, of_authors=True)
FLAGS = ("single step beats iterations", "coupled rows")


def of_seeds(*values: float, runs: int = 5, **changes) -> Evidence:
    return replace(PRINTED, measured=fmean(values), of_seeds=values, runs=runs, **changes)


def seeds_around(center: float, spread: float, count: int) -> tuple[float, ...]:
    """Numbers of a given mean and standard deviation."""
    offsets = np.linspace(-1, 1, count)
    return tuple(center + spread * offsets / offsets.std(ddof=1))


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        (70.44, "reproduced"),
        (70.495, "reproduced"),
        (70.385, "reproduced"),
        (70.4951, "differs"),
        (70.3849, "differs"),
        (0.0, "differs"),
    ],
)
def test_authors_weights_reproduce_within_rounding_and_a_twentieth_of_a_point(measured: float, verdict: str) -> None:
    found = judged(replace(AUTHORS, measured=measured))
    assert found.name == verdict
    assert found.reason.startswith("authors' weights, ")
    assert found.reason.endswith("0.055 allowed")


@pytest.mark.parametrize(("rounding", "measured"), [(0.5, 70.99), (0.05, 70.54), (0.005, 70.495)])
def test_what_was_rounded_further_may_differ_more(rounding: float, measured: float) -> None:
    evidence = replace(AUTHORS, rounding=rounding, measured=measured)
    assert judged(evidence).name == "reproduced"
    assert judged(replace(evidence, measured=measured + 0.011)).name == "differs"


def test_points_are_of_per_cent_alone() -> None:
    evidence = replace(AUTHORS, unit="", printed=34.29, measured=34.294)
    assert judged(evidence).name == "reproduced"
    assert judged(replace(evidence, measured=34.296)).name == "differs"


@pytest.mark.parametrize("count", [3, 5, 8])
@pytest.mark.parametrize("runs", [1, 5])
@pytest.mark.parametrize("spread", [0.2, 6.5])
def test_the_detectable_difference_is_students(count: int, runs: int, spread: float) -> None:
    values = seeds_around(70.0, spread, count)
    expected = stats.t.ppf(0.975, count - 1) * spread * sqrt(1 / count + 1 / runs) + 0.005
    assert detectable_difference(values, runs, 0.005) == pytest.approx(expected, rel=1e-12)


def test_with_as_many_runs_as_seeds_it_is_that_of_welch_with_equal_deviations() -> None:
    # Of two samples of one deviation, the standard error of the difference of means is that of scipy's test.
    values = seeds_around(70.0, 1.5, 4)
    difference = detectable_difference(values, 4, 0.0)
    statistic = stats.ttest_ind_from_stats(difference, 1.5, 4, 0.0, 1.5, 4).statistic
    assert statistic == pytest.approx(stats.t.ppf(0.975, 3), rel=1e-12)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("count", [3, 5])
@pytest.mark.parametrize("runs", [1, 5])
def test_means_over_seeds_are_consistent_up_to_it_and_not_beyond(sign: int, count: int, runs: int) -> None:
    allowed = stats.t.ppf(0.975, count - 1) * 0.4 * sqrt(1 / count + 1 / runs) + 0.005
    within = judged(of_seeds(*seeds_around(70.44 + sign * (allowed - 1e-6), 0.4, count), runs=runs))
    beyond = judged(of_seeds(*seeds_around(70.44 + sign * (allowed + 1e-6), 0.4, count), runs=runs))
    assert (within.name, beyond.name) == ("consistent", "differs")
    for found in (within, beyond):
        assert f"mean of {count} seeds" in found.reason
        assert f"detectable difference {allowed:.3f}" in found.reason
        assert found.reason.endswith(f"for {runs} run{'s' if runs > 1 else ''} of the paper")


def test_seeds_that_agree_leave_the_rounding_alone() -> None:
    assert judged(of_seeds(70.445, 70.445, 70.445)).name == "consistent"
    assert judged(of_seeds(70.4451, 70.4451, 70.4451)).name == "differs"


@pytest.mark.parametrize(("values", "had"), [((), "one training"), ((70.4, 70.5), "2 trainings")])
def test_fewer_than_three_seeds_are_no_evidence_either_way(values: tuple[float, ...], had: str) -> None:
    for measured in (70.44, 20.0):
        evidence = replace(PRINTED, measured=measured, of_seeds=values)
        found = judged(evidence)
        assert found.name == "one seed"
        assert found.reason.startswith(f"{had}, {measured - 70.44:+.3f} of the printed number")


def test_three_seeds_are_enough() -> None:
    assert judged(of_seeds(70.3, 70.4, 70.5)).name == "consistent"


def test_authors_weights_need_no_seeds_and_retrained_ones_are_never_reproduced() -> None:
    assert judged(AUTHORS).name == "reproduced"
    assert judged(PRINTED).name == "one seed"
    assert judged(of_seeds(70.44, 70.44, 70.44)).name == "consistent"


@pytest.mark.parametrize("agreeing", [AUTHORS, of_seeds(70.3, 70.4, 70.6)])
def test_a_number_that_agrees_and_is_flagged_is_no_agreement(agreeing: Evidence) -> None:
    found = judged(replace(agreeing, raised=FLAGS))
    assert found.name == "flagged"
    assert found.reason == f"raised: {', '.join(FLAGS)}; {judged(agreeing).reason}"


@pytest.mark.parametrize(
    ("disagreeing", "verdict"),
    [
        (replace(AUTHORS, measured=60.0), "differs"),
        (of_seeds(60.0, 60.1, 60.2), "differs"),
        (replace(PRINTED, measured=60.0), "one seed"),
    ],
)
def test_a_number_that_does_not_agree_keeps_its_verdict_and_names_the_flag(disagreeing: Evidence, verdict: str) -> None:
    found = judged(replace(disagreeing, raised=FLAGS[:1]))
    assert found.name == verdict
    assert found.reason.startswith("raised: single step beats iterations; ")


@pytest.mark.parametrize("evidence", [AUTHORS, PRINTED, of_seeds(1.0, 2.0, 3.0), replace(AUTHORS, raised=FLAGS)])
def test_another_protocol_comes_before_all_else(evidence: Evidence) -> None:
    found = judged(replace(evidence, differing=("epsilon", "norm")))
    assert str(found) == "other protocol: epsilon, norm"


def test_no_difference_is_no_minus_nothing() -> None:
    assert "+0.000 of" in judged(replace(AUTHORS, measured=70.44 - 1e-9)).reason
