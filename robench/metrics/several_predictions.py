"""Declaration of accuracy over several predictions of each input: the mean and the worst."""

from __future__ import annotations

from robench.metrics.metric import Metric

MEAN_ACCURACY = Metric(
    name="mean_accuracy",
    title="mean accuracy",
    unit="share",
    task="classification",
    scope="condition",
    implementation="robench.metrics.several_predictions_impl:mean_accuracy",
)
WORST_ACCURACY = Metric(
    name="worst_accuracy",
    title="worst accuracy",
    unit="share",
    task="classification",
    scope="condition",
    implementation="robench.metrics.several_predictions_impl:worst_accuracy",
)
