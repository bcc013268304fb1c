"""Metrics: ``x.py`` declares metrics by the names used in suites, ``x_impl.py`` computes them with numpy."""

from __future__ import annotations

from robench.core.plugins import Plugins
from robench.metrics.accuracy import TOP1_ACCURACY, TOP5_ACCURACY
from robench.metrics.corruptions import (
    CORRUPTION_ERROR,
    CORRUPTION_TOP1_ACCURACY,
    CORRUPTION_TOP5_ACCURACY,
    MEAN_CORRUPTION_ERROR,
    MEAN_ERROR,
    MEAN_TOP1_ACCURACY,
    MEAN_TOP5_ACCURACY,
    RELATIVE_MEAN_CORRUPTION_ERROR,
)
from robench.metrics.detection import AUPR, AUROC, FPR95
from robench.metrics.distances import ACCURACY_AT_DISTANCE, MEDIAN_DISTANCE
from robench.metrics.language import LANGUAGE_METRICS
from robench.metrics.metric import Metric, Readings, Scope
from robench.metrics.robust_accuracy import ROBUST_ACCURACY
from robench.metrics.several_predictions import MEAN_ACCURACY, WORST_ACCURACY

_BUILTIN: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        TOP1_ACCURACY,
        TOP5_ACCURACY,
        MEAN_ACCURACY,
        WORST_ACCURACY,
        ROBUST_ACCURACY,
        ACCURACY_AT_DISTANCE,
        MEDIAN_DISTANCE,
        CORRUPTION_ERROR,
        MEAN_CORRUPTION_ERROR,
        RELATIVE_MEAN_CORRUPTION_ERROR,
        MEAN_ERROR,
        CORRUPTION_TOP1_ACCURACY,
        CORRUPTION_TOP5_ACCURACY,
        MEAN_TOP1_ACCURACY,
        MEAN_TOP5_ACCURACY,
        AUPR,
        AUROC,
        FPR95,
        *LANGUAGE_METRICS,
    )
}
METRICS = Plugins("metric", _BUILTIN, base=Metric, instances=True, by_target=True)

__all__ = ["METRICS", "Metric", "Readings", "Scope"]
