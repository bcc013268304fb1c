"""Declaration of the regression task: one number for each example."""

from __future__ import annotations

from dataclasses import dataclass

from robench.core.outcomes import Outcome
from robench.tasks import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionOutcome(Outcome):
    """Outcome of a model on one example.

    Attributes:
        target: the true number; ``prediction``: the model's first prediction.
        absolute_error: absolute difference of the two.
    """

    target: float
    prediction: float
    absolute_error: float


REGRESSION = Task(
    name="regression",
    title="One number for each example",
    outcome=RegressionOutcome,
    implementation="robench_example_plugin.regression_impl:RULES",
)
