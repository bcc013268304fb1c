"""Declarations of metrics of minimum-norm attacks: the median distance, and the accuracy at a distance."""

from __future__ import annotations

from robench.metrics.metric import Metric

ACCURACY_AT_DISTANCE = Metric(
    name="accuracy_at_distance",
    title="accuracy at distance",
    unit="share",
    task="classification",
    scope="distance",
    implementation="robench.metrics.distances_impl:accuracy_at_distance",
)
MEDIAN_DISTANCE = Metric(
    name="median_distance",
    title="median distance (pixels)",
    unit="pixels",
    task="classification",
    scope="search",
    implementation="robench.metrics.distances_impl:median_distance",
)
