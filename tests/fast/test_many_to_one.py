"""Models beside one control: Dunnett's test at its limits, intervals over examples, verdicts, and power."""

import numpy as np
import pytest
from many_to_one import controlled_gains, critical_value, detectable, pooled, probability_above
from numpy.typing import NDArray
from scipy import stats


def outcomes(rates: list[float], num_examples: int = 400, seed: int = 0) -> NDArray[np.bool_]:
    """Outcomes of a model's seeds with these accuracies."""
    rng = np.random.default_rng(seed)
    return rng.random((len(rates), num_examples)) < np.array(rates)[:, None]


def test_with_one_model_it_is_the_t_test_with_pooled_variance() -> None:
    model, control = outcomes([0.80, 0.85, 0.78], seed=1), outcomes([0.70, 0.75, 0.72, 0.69], seed=2)
    (found,) = controlled_gains({"control": control, "model": model}, "control", num_columns=2).values()
    wanted = stats.ttest_ind(model.mean(axis=1), control.mean(axis=1))
    interval = wanted.confidence_interval(0.95)
    assert found.p_value == pytest.approx(2 * wanted.pvalue, rel=1e-4)
    assert found.over_seeds == pytest.approx((interval.low, interval.high), abs=1e-6)
    paired = stats.ttest_rel(model.mean(axis=0), control.mean(axis=0)).confidence_interval(0.95)
    assert found.over_examples == pytest.approx((paired.low, paired.high), abs=1e-12)
    assert found.difference == pytest.approx(model.mean() - control.mean())


@pytest.mark.parametrize("counts", [(5, 5, 5, 5), (6, 3, 4, 2)])
def test_p_values_and_intervals_are_those_of_scipy(counts: tuple[int, ...]) -> None:
    names = ("control", "a", "b", "c")
    correct = {
        name: outcomes([0.7 + 0.02 * place] * count, seed=place)
        for place, (name, count) in enumerate(zip(names, counts, strict=True))
    }
    scores = [each.mean(axis=1) for each in correct.values()]
    wanted = stats.dunnett(*scores[1:], control=scores[0], rng=np.random.default_rng(0))
    found = controlled_gains(correct, "control")
    assert [found[name].p_value for name in names[1:]] == pytest.approx(wanted.pvalue, abs=1e-3)
    freedom, _ = pooled(scores)
    assert probability_above(critical_value(0.05, counts, freedom), counts, freedom) == pytest.approx(0.05, abs=1e-9)


def test_a_verdict_needs_both_seeds_and_examples() -> None:
    # Seeds that agree on ten examples, five of which the model alone has right, and one the control.
    control = np.tile([True, False, False, False, False, False] + [True] * 4, (5, 1))
    model = np.tile([False, True, True, True, True, True] + [True] * 4, (5, 1))
    model[0, 9] = control[1, 9] = False
    (found,) = controlled_gains({"control": control, "model": model}, "control").values()
    assert found.p_value < 1e-6
    assert found.verdict == "undecided"
    wide = {"control": np.tile(control, 40), "model": np.tile(model, 40)}
    (supported,) = controlled_gains(wide, "control").values()
    (contradicted,) = controlled_gains(wide, "model").values()
    assert (supported.verdict, contradicted.verdict) == ("supported", "contradicted")


def test_the_detectable_difference_is_found_in_80_per_cent_of_boards() -> None:
    rng, num_boards = np.random.default_rng(5), 4000
    # A board whose pooled deviation is exactly 1.
    scores = rng.normal(size=(4, 5))
    scores = (scores - scores.mean(axis=1, keepdims=True)) / scores.std(axis=1, ddof=1, keepdims=True)
    smallest, critical = detectable(scores, num_columns=3), critical_value(0.05 / 3, [5] * 4, 16)
    boards = rng.normal(size=(num_boards, 4, 5))
    boards[:, 1] += smallest
    means, deviations = boards.mean(axis=2), np.sqrt(boards.var(axis=2, ddof=1).mean(axis=1))
    statistics = np.abs(means[:, 1:] - means[:, :1]) / (deviations[:, None] * np.sqrt(2 / 5))
    assert (statistics[:, 0] > critical).mean() == pytest.approx(0.8, abs=0.02)
    # And one of the two that equal the control in at most 5 / 3 % of boards.
    assert (statistics[:, 1:].max(axis=1) > critical).mean() <= 0.05 / 3 + 0.004
