"""Gains over baselines that are tested together: corrections, verdicts, signs, and the seeds that it takes."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from gains import gains_of, summary_of
from presence import present
from scipy import stats

from robench.comparison.compare import ComparedColumn, Comparison
from robench.comparison.evidence import difference_over_seeds
from robench.core.report import Cell, Estimate
from robench.core.suite import Column

BETTER = ([0.50, 0.51, 0.52], [0.40, 0.41, 0.42])
WORSE = ([0.40, 0.42, 0.44], [0.60, 0.61, 0.62])
CLOSE = ([0.50, 0.52, 0.54], [0.49, 0.50, 0.54])


def cell_of(values: list[float]) -> Cell:
    mean = sum(values) / len(values)
    estimate = Estimate(value=mean, low=None, high=None, num_examples=100, unit="share", of_seeds=tuple(values))
    return Cell(estimate=estimate, num_examples=100, missing=0)


def column(key: str, first: list[float], second: list[float], metric: str = "top1_accuracy") -> ComparedColumn:
    difference, p_value = difference_over_seeds(first, second)
    return ComparedColumn(
        suite="s",
        column=Column(key=key, label=key, metric=metric, conditions=(key,)),
        unit="share",
        first=cell_of(first),
        second=cell_of(second),
        difference=difference,
        p_value=p_value,
    )


def comparison(name: str, *rows: ComparedColumn) -> Comparison:
    seeds = ((name, f"{name}@1", f"{name}@2"), ("base", "base@1", "base@2"))
    return Comparison(first=name, second="base", suites=(("s", 1),), rows=rows, notes=(), provenance={}, seeds=seeds)


ONE = comparison("one", column("clean", *CLOSE), column("pgd", *BETTER))
OTHER = comparison("other", column("clean", *WORSE), column("error", *BETTER, metric="mean_error"))


def test_p_values_are_corrected_over_all_models_and_columns() -> None:
    found = gains_of([ONE, OTHER])
    assert [(each.model, each.verdict) for each in found] == [
        ("one", "undecided"), ("one", "supported"), ("other", "contradicted"), ("other", "contradicted"),
    ]  # fmt: skip
    pairs = [CLOSE, BETTER, WORSE, BETTER]
    plain = [stats.ttest_ind(first, second, equal_var=False).pvalue for first, second in pairs]
    order = sorted(range(4), key=plain.__getitem__)
    largest, corrected = 0.0, dict[int, float]()
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (4 - rank) * plain[place]))
        corrected[place] = largest
    assert [each.p_value for each in found] == pytest.approx([corrected[place] for place in range(4)])
    assert found[3].gain == pytest.approx(-0.1)
    assert summary_of(found) == "4 gains: 1 supported, 2 contradicted, 1 undecided"


def test_a_choice_of_columns_is_a_smaller_family() -> None:
    (alone,) = gains_of([ONE], {"s/pgd"})
    (_, beside) = gains_of([ONE])
    assert present(alone.p_value) == pytest.approx(present(beside.p_value) / 2)
    assert present(alone.detectable)[0] < present(beside.detectable)[0]


def test_seeds_that_it_takes_are_those_of_a_simulation() -> None:
    (found,) = gains_of([comparison("one", column("clean", [0.50, 0.52, 0.54], [0.46, 0.48, 0.50]))])
    low, high = present(found.seeds_needed)
    random = np.random.default_rng(0)
    for count, tail in ((present(low), 0.9), (present(high), 0.1)):
        # The ends of the 80 % interval of a standard deviation of 0.02 that 4 degrees of freedom estimate.
        std = 0.02 * sqrt(4 / stats.chi2(4).ppf(tail))
        rates = []
        for number in (count - 1, count):
            first, second = (random.normal(mean, std, (20_000, number)) for mean in (0.04, 0.0))
            rates.append(float((stats.ttest_ind(first, second, axis=1, equal_var=False).pvalue < 0.05).mean()))
        assert rates[0] < 0.8 + 0.01
        assert rates[1] > 0.8 - 0.01


def test_single_checkpoints_and_gaps_are_not_tested() -> None:
    single = replace(ONE, seeds=None)
    gap = replace(ONE.rows[0], difference=None, p_value=None)
    found = gains_of([single, replace(ONE, rows=(gap, ONE.rows[1]))])
    assert [each.verdict for each in found] == ["one seed", "one seed", "not measured", "supported"]
    (_, _, _, tested) = found
    assert tested.p_value == pytest.approx(ONE.rows[1].p_value)
