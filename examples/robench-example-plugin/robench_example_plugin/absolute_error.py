"""Declaration of the mean absolute error."""

from __future__ import annotations

from robench.metrics.intervals import BOOTSTRAP
from robench.metrics.metric import Metric

from robench_example_plugin.regression import REGRESSION

MEAN_ABSOLUTE_ERROR = Metric(
    name="mean_absolute_error",
    title="mean absolute error",
    unit="heights",
    task=REGRESSION.name,
    scope="condition",
    interval=BOOTSTRAP,
    implementation="robench_example_plugin.absolute_error_impl:mean_absolute_error",
)
