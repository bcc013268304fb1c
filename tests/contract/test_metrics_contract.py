"""What every metric promises, over the whole registry."""

from __future__ import annotations

import dataclasses
import random
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from examples import outcome_columns

from robench.core.errors import ContractError, IncompleteError
from robench.core.outcomes import OUTCOME_TYPES, ClassificationOutcome, Outcome
from robench.core.report import Estimate
from robench.declarations.imagenet_c import COMMON_CORRUPTIONS
from robench.metrics import METRICS, Metric, Readings

if TYPE_CHECKING:
    from collections.abc import Sequence

# The clean condition and then five severities of one type, or of the fifteen.
NUM_CONDITIONS = {
    "condition": 1,
    "threat-model": 3,
    "search": 1,
    "distance": 1,
    "detection": 2,
    "type": 1 + 5,
    "family": 1 + 15 * 5,
}


def classified(seed: int) -> list[ClassificationOutcome]:
    draw = random.Random(seed)
    found = []
    for index in range(50):
        prediction = draw.randint(0, 9)
        found.append(
            ClassificationOutcome(
                example_id=f"example/{index}",
                target=index % 10,
                prediction=prediction,
                correct_top1=prediction == index % 10,
                correct_top5=prediction == index % 10 or draw.random() < 0.4,
                confidence=draw.random(),
                loss_nats=draw.expovariate(1),
            )
        )
    return found


def searched(seed: int) -> list[ClassificationOutcome]:
    """A search for the nearest, of a model that is right about all clean examples."""
    draw = random.Random(seed)
    return [
        dataclasses.replace(outcome, found=not outcome.correct_top1, l2=0.0 if outcome.correct_top1 else draw.random())
        for outcome in classified(seed)
    ]


def conditions_for(metric: Metric) -> list[list[ClassificationOutcome]]:
    make = searched if metric.scope in ("search", "distance") else classified
    return [make(seed) for seed in range(NUM_CONDITIONS[metric.scope])]


def compute(metric: Metric, conditions: Sequence[Sequence[Outcome]]) -> Estimate:
    first, *others = map(outcome_columns, conditions)
    match metric.scope:
        case "condition" | "search" | "distance":
            return metric.compute(Readings(measured=(first,), norm="l2", within=0.5))
        case "threat-model":
            return metric.compute(Readings(clean=first, measured=tuple(others)))
        case "detection":
            return metric.compute(Readings(measured=(first,), negatives=others[0]))
    types = {
        corruption: dict(enumerate(others[5 * i : 5 * i + 5], 1)) for i, corruption in enumerate(COMMON_CORRUPTIONS)
    }
    measured = {corruption: severities for corruption, severities in types.items() if severities}
    return metric.compute(Readings(family="imagenet-c", clean=first, corrupted=measured))


@pytest.mark.parametrize("name", METRICS)
class TestMetricContract:
    def test_it_is_registered_under_its_own_name(self, name: str):
        assert METRICS[name].name == name

    def test_it_says_what_it_is(self, name: str):
        metric = METRICS[name]
        assert metric.title.strip()
        assert metric.task in OUTCOME_TYPES
        assert metric.scope in NUM_CONDITIONS

    def test_it_is_frozen(self, name: str):
        with pytest.raises(dataclasses.FrozenInstanceError):
            METRICS[name].unit = "per cent"

    def test_it_gives_an_estimate_in_its_own_unit_over_all_examples(self, name: str):
        estimate = compute(METRICS[name], conditions_for(METRICS[name]))
        assert isinstance(estimate, Estimate)
        assert estimate.unit == METRICS[name].unit
        assert estimate.num_examples == (100 if METRICS[name].scope == "detection" else 50)

    def test_its_interval_holds_its_value(self, name: str):
        estimate = compute(METRICS[name], conditions_for(METRICS[name]))
        assert estimate.low <= estimate.value <= estimate.high

    def test_a_share_and_its_interval_lie_in_0_to_1(self, name: str):
        estimate = compute(METRICS[name], conditions_for(METRICS[name]))
        if estimate.unit == "share":
            assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1

    def test_no_outcomes_are_no_number(self, name: str):
        with pytest.raises(IncompleteError):
            compute(METRICS[name], [[] for _ in conditions_for(METRICS[name])])

    def test_the_order_of_the_examples_does_not_matter(self, name: str):
        conditions = conditions_for(METRICS[name])
        shuffled = [random.Random(7).sample(outcomes, len(outcomes)) for outcomes in conditions]
        assert compute(METRICS[name], shuffled) == compute(METRICS[name], conditions)

    def test_it_leaves_the_outcomes_alone(self, name: str):
        conditions = conditions_for(METRICS[name])
        compute(METRICS[name], conditions)
        assert conditions == conditions_for(METRICS[name])

    def test_outcomes_of_another_task_are_refused(self, name: str):
        strangers = [[Outcome(example_id="a")] for _ in conditions_for(METRICS[name])]
        with pytest.raises(ContractError):
            compute(METRICS[name], strangers)


def test_importing_metrics_is_light():
    heavy = {"torch", "numpy", "scipy", "pandas", "pyarrow", "sklearn"}
    code = f"import sys, robench.metrics; print(sorted({heavy!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
