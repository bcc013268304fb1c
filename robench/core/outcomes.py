"""Outcomes of single examples: all that a metric may read.

Each task declares a type of its own. From the model's outputs to the metric they are columns (``core.columns``), whose
fields these types declare.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one example did, whatever the task.

    Attributes:
        linf: largest absolute change of any input value, in pixel units; None where inputs have no such distance.
        l2: Euclidean norm of the change; None likewise.
        l1: sum of absolute changes; None likewise.
        found: whether a search for the nearest adversarial example found one; None of other perturbations.
        num_queries, num_gradients: passes of the model that the perturbation took, forward and backward; None where
            nobody counts.
        num_clamped: values of the input that the attack returned outside [0, 1] by more than rounding, which were then
            clamped; None where there were none.
        epsilon: of a sweep, the budget that this is the outcome under, as an exact fraction such as ``4/255``.
    """

    example_id: str
    epsilon: str | None = None
    linf: float | None = None
    l2: float | None = None
    l1: float | None = None
    found: bool | None = None
    num_queries: int | None = None
    num_gradients: int | None = None
    num_clamped: int | None = None
