"""All metrics by the name that a suite calls them: pure functions of outcomes, standard library alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.metrics.accuracy import TOP1_ACCURACY, TOP5_ACCURACY
from robench.metrics.distances import ACCURACY_AT_DISTANCE, MEDIAN_DISTANCE
from robench.metrics.metric import Metric, Scope, Search, SearchMetric
from robench.metrics.robust_accuracy import ROBUST_ACCURACY
from robench.metrics.several_predictions import MEAN_ACCURACY, WORST_ACCURACY

if TYPE_CHECKING:
    from collections.abc import Mapping

METRICS: Mapping[str, Metric | SearchMetric] = {
    "top1_accuracy": TOP1_ACCURACY,
    "top5_accuracy": TOP5_ACCURACY,
    "mean_accuracy": MEAN_ACCURACY,
    "worst_accuracy": WORST_ACCURACY,
    "robust_accuracy": ROBUST_ACCURACY,
    "accuracy_at_distance": ACCURACY_AT_DISTANCE,
    "median_distance": MEDIAN_DISTANCE,
}

__all__ = ["METRICS", "Metric", "Scope", "Search", "SearchMetric"]
