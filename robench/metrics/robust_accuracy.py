"""Declaration of robust accuracy under all attacks of a threat model."""

from __future__ import annotations

from robench.metrics.metric import Metric

ROBUST_ACCURACY = Metric(
    name="robust_accuracy",
    title="robust accuracy",
    unit="share",
    task="classification",
    scope="threat-model",
    proportion_of="correct_top1",
    implementation="robench.metrics.robust_accuracy_impl:robust_accuracy",
)
