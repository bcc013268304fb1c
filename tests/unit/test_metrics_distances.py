"""Numbers of searches for the nearest adversarial example, against counting and against closed forms."""

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from math import inf
from statistics import median
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from examples import MEASUREMENT, outcome_columns, outcome_of
from robench.attacks.cw import Cw
from robench.attacks.fab import Fab
from robench.core.errors import ContractError, IncompleteError
from robench.core.outcomes import Outcome
from robench.core.protocols import Batch
from robench.core.report import Estimate
from robench.core.shard import DatasetIdentity, Shard
from robench.core.suite import Condition
from robench.datasets.digits import DIGITS
from robench.evaluation.evaluate import evaluate
from robench.metrics import METRICS, Readings
from robench.metrics.distances import fallen_at
from robench.tasks.classification import ClassificationOutcome

Asked = dict[str, Any]
L2: Asked = {"norm": "l2"}


def accuracy_at_distance(outcomes: Iterable[Outcome], asked: Asked) -> Estimate:
    return METRICS["accuracy_at_distance"].compute(Readings(measured=(outcome_columns(outcomes),), **asked))


def median_distance(outcomes: Iterable[Outcome], asked: Asked) -> Estimate:
    return METRICS["median_distance"].compute(Readings(measured=(outcome_columns(outcomes),), **asked))


def searched(*distances: float) -> list[ClassificationOutcome]:
    """What a search gives for examples that fall at these distances: 0 for wrong when clean, infinite for never."""
    return [
        outcome_of(str(i), correct=each == inf, l2=0.0 if each == inf else each, found=each < inf)
        for i, each in enumerate(distances)
    ]


def at(distance: float) -> Asked:
    return {"norm": "l2", "within": distance}


class TestAccuracyAtDistance:
    def test_it_counts_what_is_right_when_clean_and_falls_beyond_the_distance_or_never(self) -> None:
        outcomes = searched(0.0, 0.0, 0.4, 0.6, 2.0, inf)
        assert [accuracy_at_distance(outcomes, at(d)).value for d in (0.3, 0.5, 1.0, 5.0)] == [
            4 / 6,
            3 / 6,
            2 / 6,
            1 / 6,
        ]

    def test_the_norm_is_that_of_the_search(self) -> None:
        outcomes = [outcome_of("a", correct=False, linf=0.1, l2=0.5, l1=2.0, found=True)]
        asked = [{"norm": norm, "within": 0.7} for norm in ("linf", "l2", "l1")]
        assert [accuracy_at_distance(outcomes, each).value for each in asked] == [0.0, 0.0, 1.0]

    def test_no_distance_is_no_question(self) -> None:
        with pytest.raises(ContractError, match="wants one to be stated"):
            accuracy_at_distance(searched(0.1), L2)


class TestMedianDistance:
    @pytest.mark.parametrize(
        ("distances", "wanted"),
        [((0.3,), 0.3), ((0.3, 0.5), 0.4), ((0.9, 0.1, 0.4), 0.4), ((0.0, 0.0, 0.0, 0.2, 0.6, 0.7), 0.6)],
    )
    def test_it_is_the_middle_of_what_is_right_when_clean(self, distances: tuple[float, ...], wanted: float) -> None:
        assert median_distance(searched(*distances), L2).value == pytest.approx(wanted)

    @given(st.lists(st.floats(0.001, 10), min_size=1))
    def test_it_is_pythons(self, distances: list[float]) -> None:
        assert median_distance(searched(*distances), L2).value == pytest.approx(median(distances))

    def test_it_is_infinite_where_half_of_the_searches_found_nothing(self) -> None:
        estimate = median_distance(searched(0.0, 0.1, 0.2, inf, inf), L2)
        assert estimate.value == inf
        assert median_distance(searched(0.1, 0.2, inf), L2).value == 0.2

    @pytest.mark.parametrize("count", [*range(1, 40), 100, 601, 5000])
    def test_its_interval_is_the_shortest_between_order_statistics_that_holds_95_per_cent(self, count: int) -> None:
        distances = [float(i) for i in range(1, count + 1)]
        estimate = median_distance(searched(*distances), L2)
        if estimate.low is None:
            assert estimate.high is None
            assert 1 - 2 * binom.cdf(0, count, 0.5) < 0.95
            return
        rank = int(estimate.low)
        assert estimate.high == count + 1 - rank
        # P(l-th < median < (n + 1 - l)-th) = P(l <= B <= n - l).
        assert 1 - 2 * binom.cdf(rank - 1, count, 0.5) >= 0.95
        assert 1 - 2 * binom.cdf(rank, count, 0.5) < 0.95

    def test_where_nothing_is_right_when_clean_there_is_none(self) -> None:
        with pytest.raises(IncompleteError, match="no example is right when clean"):
            median_distance(searched(0.0, 0.0), L2)


COMPUTE = {"accuracy_at_distance": accuracy_at_distance, "median_distance": median_distance}


@pytest.mark.parametrize("metric", COMPUTE)
class TestWrongOutcomes:
    def test_outcomes_of_an_attack_with_a_budget_are_refused(self, metric: str) -> None:
        with pytest.raises(ContractError, match=r"not of a minimum-norm attack \(example 'a'\)"):
            COMPUTE[metric]([outcome_of("a", l2=0.3)], at(1.0))

    def test_outcomes_without_distances_are_refused(self, metric: str) -> None:
        with pytest.raises(ContractError, match="not of a minimum-norm attack"):
            COMPUTE[metric]([outcome_of("a", found=True)], at(1.0))


class Linear:
    """Two classes divided by a plane, far from the limits of the pixels: distances have a closed form."""

    device = torch.device("cpu")
    normalisation = torch.zeros(1, 1, 1), torch.ones(1, 1, 1)
    weight = torch.tensor([0.3, -0.5, 0.2, 0.4])

    def outputs(self, inputs: torch.Tensor, seeds: object = None) -> torch.Tensor:
        margins = (inputs - 0.5).flatten(1) @ self.weight
        return torch.stack([margins, -margins], dim=1)


class Points:
    """30 points, every fifth with the wrong class."""

    identity = DatasetIdentity(name="digits", fingerprint="p", num_examples=30)
    inputs = 0.5 + 0.2 * (torch.rand(30, 1, 2, 2, generator=torch.Generator().manual_seed(0)) - 0.5)

    def __init__(self) -> None:
        self.targets = Linear().outputs(self.inputs).argmax(1)
        self.targets[::5] = 1 - self.targets[::5]

    def batch(self, start: int, stop: int) -> Batch:
        ids = tuple(str(i) for i in range(start, stop))
        return Batch(ids=ids, inputs=self.inputs[start:stop], targets=self.targets[start:stop])


FAB = Fab(norm="l2", num_steps=20)
CW = Cw(num_steps=200, num_search_steps=6, initial_c=0.01, learning_rate=0.01)


@pytest.mark.parametrize("attack", [FAB, CW, replace(FAB, norm="linf")], ids=["fab", "cw", "fab-linf"])
def test_on_a_plane_numbers_are_those_of_the_closed_form(attack: Fab | Cw) -> None:
    norm = getattr(attack, "norm", "l2")
    condition = Condition(name="c", dataset=DIGITS, perturbation=attack)
    measurement = replace(MEASUREMENT, condition=condition, dataset=Points.identity, batch_size=30)
    outcomes = evaluate(Shard(measurement=measurement, start=0, stop=30), Linear(), Points()).outcomes
    dual = torch.linalg.vector_norm(Linear.weight.double(), 1 if norm == "linf" else 2)
    margins = ((Points.inputs.double() - 0.5).flatten(1) @ Linear.weight.double()).abs() / dual
    exact = [0.0 if i % 5 == 0 else float(margin) for i, margin in enumerate(margins)]
    assert fallen_at(outcomes, norm) == pytest.approx(exact, rel=0.02, abs=5e-4)
    right = [distance for distance in exact if distance]
    assert median_distance(outcomes, {"norm": norm}).value == pytest.approx(median(right), rel=0.02)
    within = float(Fraction(sorted(right)[8]) + Fraction(sorted(right)[9])) / 2
    assert accuracy_at_distance(outcomes, {"norm": norm, "within": within}).value == 15 / 30
