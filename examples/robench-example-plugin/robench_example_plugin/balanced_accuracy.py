"""Declaration of balanced accuracy."""

from __future__ import annotations

from robench.metrics.intervals import BOOTSTRAP
from robench.metrics.metric import Metric

BALANCED_ACCURACY = Metric(
    name="balanced_accuracy",
    title="balanced accuracy",
    unit="share",
    task="classification",
    scope="condition",
    interval=BOOTSTRAP,
    implementation="robench_example_plugin.balanced_accuracy_impl:balanced_accuracy",
)
