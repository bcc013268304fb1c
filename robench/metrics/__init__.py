"""All metrics by the name that a suite calls them: pure functions of outcomes, standard library alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.metrics.accuracy import TOP1_ACCURACY, TOP5_ACCURACY
from robench.metrics.corruptions import (
    CORRUPTION_ERROR,
    MEAN_CORRUPTION_ERROR,
    MEAN_ERROR,
    RELATIVE_MEAN_CORRUPTION_ERROR,
)
from robench.metrics.detection import AUPR, AUROC, FPR95
from robench.metrics.distances import ACCURACY_AT_DISTANCE, MEDIAN_DISTANCE
from robench.metrics.metric import (
    AnyMetric,
    CorruptedOutcomes,
    CorruptionMetric,
    Metric,
    Scope,
    Search,
    SearchMetric,
)
from robench.metrics.robust_accuracy import ROBUST_ACCURACY
from robench.metrics.several_predictions import MEAN_ACCURACY, WORST_ACCURACY

if TYPE_CHECKING:
    from collections.abc import Mapping

METRICS: Mapping[str, AnyMetric] = {
    "top1_accuracy": TOP1_ACCURACY,
    "top5_accuracy": TOP5_ACCURACY,
    "mean_accuracy": MEAN_ACCURACY,
    "worst_accuracy": WORST_ACCURACY,
    "robust_accuracy": ROBUST_ACCURACY,
    "accuracy_at_distance": ACCURACY_AT_DISTANCE,
    "median_distance": MEDIAN_DISTANCE,
    "corruption_error": CORRUPTION_ERROR,
    "mean_corruption_error": MEAN_CORRUPTION_ERROR,
    "relative_mean_corruption_error": RELATIVE_MEAN_CORRUPTION_ERROR,
    "mean_error": MEAN_ERROR,
    "aupr": AUPR,
    "auroc": AUROC,
    "fpr95": FPR95,
}

__all__ = ["METRICS", "CorruptedOutcomes", "CorruptionMetric", "Metric", "Scope", "Search", "SearchMetric"]
