"""Metrics with one mistake each."""

import random
from dataclasses import replace
from typing import Any

from robench.core.report import Estimate
from robench.metrics import Readings
from robench.metrics.accuracy import top1_accuracy as honest_metric
from robench.metrics.accuracy import top1_contributions as honest_contributions
from robench.metrics.accuracy import top5_contributions as other_contributions

__all__ = ["honest_contributions", "honest_metric", "other_contributions"]


def in_per_cent(readings: Readings) -> Estimate:
    found = honest_metric(readings)
    assert found.low is not None
    assert found.high is not None
    return replace(found, value=100 * found.value, low=100 * found.low, high=100 * found.high)


def outside_its_interval(readings: Readings) -> Estimate:
    return replace(honest_metric(readings), low=0.9, high=1.0)


def of_nothing(readings: Readings) -> Estimate:
    if not len(readings.measured[0]):
        return Estimate(value=0.0, low=None, high=None, num_examples=0)
    return honest_metric(readings)


def by_the_first_example(readings: Readings) -> Estimate:
    found = honest_metric(readings)
    return replace(found, value=float(readings.measured[0].column("confidence")[0]), low=0.0, high=1.0)


def that_sorts_in_place(readings: Readings) -> Estimate:
    found = honest_metric(readings)
    readings.measured[0].column("confidence").sort()
    return found


def that_draws(readings: Readings) -> Estimate:
    random.random()
    return honest_metric(readings)


def as_a_float(readings: Readings) -> Any:
    return honest_metric(readings).value


def of_another_unit(readings: Readings) -> Estimate:
    return replace(honest_metric(readings), unit="ratio")


def of_half_of_them(readings: Readings) -> Estimate:
    outcomes = readings.measured[0]
    return honest_metric(replace(readings, measured=(outcomes.take(slice(0, len(outcomes) // 2)),)))


def of_any_task(readings: Readings) -> Estimate:
    outcomes = readings.measured[0]
    if "correct_top1" in repr(outcomes) or not len(outcomes):
        return honest_metric(readings)
    return Estimate(value=0.0, low=0.0, high=1.0, num_examples=len(outcomes))


def not_a_number(readings: Readings) -> Estimate:
    return replace(honest_metric(readings), value=float("nan"))
