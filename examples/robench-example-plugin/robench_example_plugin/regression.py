"""Declaration of a task: one number for each example."""

from __future__ import annotations

from dataclasses import dataclass

from robench.core.outcomes import Outcome
from robench.tasks import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionOutcome(Outcome):
    """What a model made of one example.

    Attributes:
        target: the true number; ``prediction``: the model's, of its first prediction.
        absolute_error: distance of the two.
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
