"""All metrics by the name that a suite gives them; each is computed by a pure function, imported when it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.metrics.intervals import BOOTSTRAP
from robench.metrics.metric import Metric, Readings, Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

_METRICS = (
    Metric(
        name="top1_accuracy",
        title="top-1 accuracy",
        unit="share",
        task="classification",
        scope="condition",
        implementation="robench.metrics.accuracy:top1_accuracy",
    ),
    Metric(
        name="top5_accuracy",
        title="top-5 accuracy",
        unit="share",
        task="classification",
        scope="condition",
        reads_scores=True,
        implementation="robench.metrics.accuracy:top5_accuracy",
    ),
    Metric(
        name="mean_accuracy",
        title="mean accuracy",
        unit="share",
        task="classification",
        scope="condition",
        implementation="robench.metrics.several_predictions:mean_accuracy",
    ),
    Metric(
        name="worst_accuracy",
        title="worst accuracy",
        unit="share",
        task="classification",
        scope="condition",
        implementation="robench.metrics.several_predictions:worst_accuracy",
    ),
    Metric(
        name="robust_accuracy",
        title="robust accuracy",
        unit="share",
        task="classification",
        scope="threat-model",
        implementation="robench.metrics.robust_accuracy:robust_accuracy",
    ),
    Metric(
        name="accuracy_at_distance",
        title="accuracy at distance",
        unit="share",
        task="classification",
        scope="distance",
        implementation="robench.metrics.distances:accuracy_at_distance",
    ),
    Metric(
        name="median_distance",
        title="median distance (pixels)",
        unit="pixels",
        task="classification",
        scope="search",
        implementation="robench.metrics.distances:median_distance",
    ),
    Metric(
        name="corruption_error",
        title="corruption error",
        unit="ratio",
        task="classification",
        interval=BOOTSTRAP,
        scope="type",
        needs_reference=True,
        implementation="robench.metrics.corruptions:corruption_error",
    ),
    Metric(
        name="mean_corruption_error",
        title="mCE",
        unit="ratio",
        task="classification",
        interval=BOOTSTRAP,
        scope="family",
        needs_reference=True,
        implementation="robench.metrics.corruptions:mean_corruption_error",
    ),
    Metric(
        name="relative_mean_corruption_error",
        title="relative mCE",
        unit="ratio",
        task="classification",
        interval=BOOTSTRAP,
        scope="family",
        needs_clean=True,
        needs_reference=True,
        implementation="robench.metrics.corruptions:relative_mean_corruption_error",
    ),
    Metric(
        name="mean_error",
        title="mean error",
        unit="share",
        task="classification",
        interval=BOOTSTRAP,
        scope="family",
        implementation="robench.metrics.corruptions:mean_error",
    ),
    Metric(
        name="aupr",
        title="AUPR (positives: out of distribution)",
        unit="share",
        task="classification",
        reads_scores=True,
        interval=BOOTSTRAP,
        scope="detection",
        implementation="robench.metrics.detection:aupr",
    ),
    Metric(
        name="auroc",
        title="AUROC",
        unit="share",
        task="classification",
        reads_scores=True,
        interval=BOOTSTRAP,
        scope="detection",
        implementation="robench.metrics.detection:auroc",
    ),
    Metric(
        name="fpr95",
        title="FPR95 (positives: out of distribution)",
        unit="share",
        task="classification",
        reads_scores=True,
        interval=BOOTSTRAP,
        scope="detection",
        implementation="robench.metrics.detection:fpr95",
    ),
)
METRICS: Mapping[str, Metric] = {metric.name: metric for metric in _METRICS}

__all__ = ["METRICS", "Metric", "Readings", "Scope"]
