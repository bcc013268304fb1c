"""All metrics by the name that a suite calls them: pure functions of outcomes, standard library alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.metrics.accuracy import TOP1_ACCURACY, TOP5_ACCURACY
from robench.metrics.metric import Metric, Scope
from robench.metrics.robust_accuracy import ROBUST_ACCURACY

if TYPE_CHECKING:
    from collections.abc import Mapping

METRICS: Mapping[str, Metric] = {
    "top1_accuracy": TOP1_ACCURACY,
    "top5_accuracy": TOP5_ACCURACY,
    "robust_accuracy": ROBUST_ACCURACY,
}

__all__ = ["METRICS", "Metric", "Scope"]
