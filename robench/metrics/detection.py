"""Declarations of metrics of out-of-distribution detection."""

from __future__ import annotations

from robench.metrics.intervals import BOOTSTRAP
from robench.metrics.metric import Metric

AUPR = Metric(
    name="aupr",
    title="AUPR (positives: out of distribution)",
    unit="share",
    task="classification",
    reads_scores=True,
    interval=BOOTSTRAP,
    scope="detection",
    implementation="robench.metrics.detection_impl:aupr",
)
AUROC = Metric(
    name="auroc",
    title="AUROC",
    unit="share",
    task="classification",
    reads_scores=True,
    interval=BOOTSTRAP,
    scope="detection",
    implementation="robench.metrics.detection_impl:auroc",
)
FPR95 = Metric(
    name="fpr95",
    title="FPR95 (positives: out of distribution)",
    unit="share",
    task="classification",
    reads_scores=True,
    interval=BOOTSTRAP,
    lower_is_better=True,
    scope="detection",
    implementation="robench.metrics.detection_impl:fpr95",
)
