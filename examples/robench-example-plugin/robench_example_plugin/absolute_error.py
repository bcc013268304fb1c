"""Mean absolute error, with robench's percentile bootstrap over examples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.core.report import Estimate
from robench.metrics.accuracy import only_condition
from robench.metrics.contributions import ids_of
from robench.metrics.intervals import BOOTSTRAP, percentile_interval, resample_counts
from robench.metrics.metric import Metric

from robench_example_plugin.regression import REGRESSION

if TYPE_CHECKING:
    from robench.metrics.metric import Readings

MEAN_ABSOLUTE_ERROR = Metric(
    name="mean_absolute_error",
    title="mean absolute error",
    unit="heights",
    task=REGRESSION.name,
    scope="condition",
    interval=BOOTSTRAP,
    implementation="robench_example_plugin.absolute_error:mean_absolute_error",
)


def mean_absolute_error(readings: Readings) -> Estimate:
    """Return the mean over examples, in units of the target.

    Raises:
        IncompleteError: there are no outcomes.
        ContractError: there is not exactly one condition, or its outcomes are of another task.
    """
    import numpy as np

    outcomes = only_condition(readings)
    ids, errors = ids_of(outcomes, "the condition"), outcomes.column("absolute_error")
    low, high = percentile_interval(np.concatenate([counts @ errors / len(ids) for counts in resample_counts(ids)]))
    value = float(errors.mean())
    return Estimate(
        value=value, low=min(low, value), high=max(high, value), num_examples=len(ids), unit=MEAN_ABSOLUTE_ERROR.unit
    )
