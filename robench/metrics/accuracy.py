"""Declaration of top-1 and top-5 accuracy."""

from __future__ import annotations

from robench.metrics.metric import Metric

TOP1_ACCURACY = Metric(
    name="top1_accuracy",
    title="top-1 accuracy",
    unit="share",
    task="classification",
    scope="condition",
    proportion_of="correct_top1",
    implementation="robench.metrics.accuracy_impl:top1_accuracy",
)
TOP5_ACCURACY = Metric(
    name="top5_accuracy",
    title="top-5 accuracy",
    unit="share",
    task="classification",
    scope="condition",
    reads_scores=True,
    proportion_of="correct_top5",
    implementation="robench.metrics.accuracy_impl:top5_accuracy",
)
