"""Declarations of metrics of minimum-norm attacks: the median distance, and the accuracy at a distance."""

from __future__ import annotations

from robench.metrics.metric import DISTANCE, Metric

ACCURACY_AT_DISTANCE = Metric(
    name="accuracy_at_distance",
    title="accuracy at distance",
    unit="share",
    task="classification",
    scope="distance",
    reads=("found", "linf", "l2", "l1"),
    implementation="robench.metrics.distances_impl:accuracy_at_distance",
    contributions="robench.metrics.distances_impl:accuracy_contributions",
)
MEDIAN_DISTANCE = Metric(
    name="median_distance",
    title="median distance",
    unit=DISTANCE,
    task="classification",
    scope="search",
    reads=("found", "linf", "l2", "l1"),
    implementation="robench.metrics.distances_impl:median_distance",
    contributions="robench.metrics.distances_impl:median_contributions",
)
