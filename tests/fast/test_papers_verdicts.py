"""Verdicts on printed numbers, each on both sides of its boundary; quantiles are scipy.stats' own."""

from dataclasses import replace
from math import sqrt
from statistics import fmean

import numpy as np
import pytest
from scipy import stats

from robench.comparison.spread import Seeds
from robench.papers.verdicts import Evidence, judged, margin_of

PRINTED = Evidence(printed=70.44, rounding=0.005, measured=70.44)
AUTHORS = replace(PRINTED, of_authors="by checksum")
FLAGS = ("single step beats iterations", "coupled rows")


def of_seeds(*values: float, runs: int = 5, **changes) -> Evidence:
    return replace(PRINTED, measured=fmean(values), seeds=Seeds(values), runs=runs, **changes)


def seeds_around(center: float, spread: float, count: int) -> tuple[float, ...]:
    """Numbers of a given mean and standard deviation."""
    offsets = np.linspace(-1, 1, count)
    return tuple(center + spread * offsets / offsets.std(ddof=1))


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        *((measured, "reproduced") for measured in (70.44, 70.495, 70.385)),
        *((measured, "differs") for measured in (70.4951, 70.3849, 0.0)),
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


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("count", [3, 5])
@pytest.mark.parametrize("runs", [1, 5])
def test_a_mean_is_consistent_while_its_90_per_cent_interval_is_within_the_margin(
    sign: int, count: int, runs: int
) -> None:
    half_width = stats.t.ppf(0.95, count - 1) * 0.1 * sqrt(1 / count + 1 / runs)
    for change, verdict in ((-1e-6, "consistent"), (1e-6, "undecided")):
        center = 70.44 + sign * (0.5 - half_width + change)
        found = judged(of_seeds(*seeds_around(center, 0.1, count), runs=runs, num_printed=50))
        assert found.name == verdict
        assert f"mean of {count} seeds" in found.reason
        assert f"for {runs} run{'s' if runs > 1 else ''} of the paper" in found.reason


def test_two_one_sided_tests_agree_with_the_interval() -> None:
    # With as many runs as seeds, the test is that of two samples of one deviation, with the seeds' degrees of freedom.
    values = seeds_around(70.68, 0.15, 4)
    statistic = (0.5 - (fmean(values) - 70.44)) / (0.15 * sqrt(1 / 4 + 1 / 4))
    p_value = stats.t.sf(statistic, 3)
    assert p_value < 0.05
    assert judged(of_seeds(*values, runs=4)).name == "consistent"
    assert judged(of_seeds(*values, runs=4, margin=0.4)).name == "undecided"


@pytest.mark.parametrize("num_printed", [1, 12])
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_mean_differs_when_the_interval_excludes_every_value_that_rounds_to_the_print(
    sign: int, num_printed: int
) -> None:
    allowed = stats.t.ppf(1 - 0.025 / num_printed, 4) * 0.4 * sqrt(1 / 5 + 1 / 5) + 0.005
    for change, verdict in ((-1e-6, "undecided"), (1e-6, "differs")):
        values = seeds_around(70.44 + sign * (allowed + change), 0.4, 5)
        assert judged(of_seeds(*values, num_printed=num_printed)).name == verdict


@pytest.mark.parametrize(
    ("difference", "spread", "runs", "is_said"),
    # The second is JapaneseVowels at s = 20, eta = 0.5: 97.297 on three seeds, printed 97.8.
    [(0.0, 0.45, 1, True), (-0.503, 0.27, 1, True), (-0.503, 0.27, 20, False), (0.0, 0.27, 1, False)],
)
def test_where_no_number_of_seeds_decides_the_reason_says_so(
    difference: float, spread: float, runs: int, is_said: bool
) -> None:
    """So it is where a thousand seeds of the same mean and standard deviation are undecided too."""
    fields = {"num_printed": 4, "rounding": 0.05, "margin": 0.5, "runs": runs}
    few = of_seeds(*seeds_around(70.44 + difference, spread, 3), **fields)
    many = of_seeds(*seeds_around(70.44 + difference, spread, 1000), **fields)
    assert judged(few).name == "undecided"
    assert (judged(many).name == "undecided") is is_said
    assert ("no number of seeds decides it" in judged(few).reason) is is_said


def test_weak_evidence_is_not_consistent() -> None:
    spread = judged(of_seeds(60.0, 72.0, 84.0, runs=1))
    assert spread.name == "undecided"
    assert "no number of seeds makes it consistent" in spread.reason
    # No gain at all of a row with a printed gain of 0.6 points: neither row is consistent with its print.
    for printed in (72.0, 72.6):
        evidence = replace(of_seeds(71.8, 72.0, 72.2), printed=printed, measured=72.0, margin=0.3)
        assert judged(evidence).name != "consistent"


def test_an_undecided_mean_says_how_many_seeds_it_takes() -> None:
    reason = judged(of_seeds(70.3, 70.4, 70.5, runs=20, margin=0.2)).reason
    assert "an interval within the margin takes " in reason
    low, high = (int(number) for number in reason.rpartition("takes ")[2].removesuffix(" seeds").split(" to "))
    assert 3 <= low < high


def test_a_detectable_difference_within_the_margin_is_consistent_and_named() -> None:
    found = judged(of_seeds(70.64, 70.641, 70.642))
    assert found.name == "consistent"
    assert found.reason.endswith("a difference within the margin is there")


def test_equal_scores_have_the_deviation_of_one_example() -> None:
    evidence = replace(of_seeds(70.44, 70.44, 70.44), seeds=Seeds((70.44,) * 3, step=5.0))
    found = judged(evidence)
    assert found.name == "undecided"
    assert "seeds with equal scores" in found.reason


@pytest.mark.parametrize(
    ("gains", "unit", "margin"),
    [((), "%", 0.5), ((), "", 0.7044), ((1.4,), "%", 0.7), ((-1.4, 0.9), "%", 0.45), ((0.02,), "%", 0.02)],
)
def test_a_margin_is_half_a_printed_gain_and_at_least_one_printed_unit(
    gains: tuple[float, ...], unit: str, margin: float
) -> None:
    assert margin_of(gains, 70.44, 0.01, unit) == pytest.approx(margin)


class TestOneOfSeveralRuns:
    """Weights of authors whose paper prints a mean."""

    def test_without_seeds_there_is_no_judgement(self) -> None:
        found = judged(replace(AUTHORS, runs=5, measured=60.0))
        assert found.name == "one of m runs"
        assert "-10.440 of the printed mean of 5 runs" in found.reason

    @pytest.mark.parametrize(
        ("difference", "verdict"), [(0.0, "consistent"), (0.4, "undecided"), (3.0, "differs"), (-3.0, "differs")]
    )
    def test_seeds_of_the_entry_say_how_far_one_run_is_from_the_mean(self, difference: float, verdict: str) -> None:
        seeds = Seeds(seeds_around(68.0, 0.2, 5))
        assert judged(replace(AUTHORS, runs=5, measured=70.44 + difference, seeds=seeds)).name == verdict


def test_inferred_fields_make_agreement_and_difference_circular() -> None:
    for measured in (70.44, 60.0):
        found = judged(replace(AUTHORS, measured=measured, inferred=("epsilon",)))
        assert found.name == "inferred"
        assert found.reason.startswith("epsilon not printed but inferred, so that agreement is circular; ")


def test_a_recipe_that_is_not_stated_stands_beside_the_verdict() -> None:
    found = judged(of_seeds(60.0, 60.1, 60.2, is_recipe_stated=False))
    assert (found.name, found.title) == ("differs", "differs, recipe not stated")
    assert judged(replace(AUTHORS, is_recipe_stated=False)).title == "reproduced"


def test_a_model_without_audit_says_so() -> None:
    assert judged(replace(AUTHORS, is_audited=False)).reason.endswith("; the model is not audited")


@pytest.mark.parametrize(("values", "had"), [((), "one training"), ((70.4, 70.5), "2 trainings")])
def test_fewer_than_three_seeds_are_no_evidence_either_way(values: tuple[float, ...], had: str) -> None:
    for measured in (70.44, 20.0):
        evidence = replace(PRINTED, measured=measured, seeds=Seeds(values))
        found = judged(evidence)
        assert found.name == "one seed"
        assert found.reason.startswith(f"{had}, {measured - 70.44:+.3f} of the printed number")


def test_three_seeds_are_enough() -> None:
    assert judged(of_seeds(70.4, 70.44, 70.48)).name == "consistent"


def test_authors_weights_need_no_seeds_and_retrained_ones_are_never_reproduced() -> None:
    assert judged(AUTHORS).name == "reproduced"
    assert judged(PRINTED).name == "one seed"
    assert judged(of_seeds(70.44, 70.44, 70.44)).name == "consistent"


@pytest.mark.parametrize("agreeing", [AUTHORS, of_seeds(70.42, 70.44, 70.45)])
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
