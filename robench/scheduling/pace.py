"""Passes and seconds that an example takes.

Seconds are from measurements or, without any, from the time of a pass.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from enum import Enum
from statistics import median

from robench.core.suite import Condition
from robench.tasks import TASKS

# Of the seconds of a forward and a backward pass together.
FORWARD_FRACTION = 1 / 3
# Seconds of a backward pass to the inputs alone over those of a forward pass, in forecasts: attacks need no gradients
# of weights. It is 1.14 by the operations of a DeiT-tiny, whose products of activations have two; 1.3 was measured.
BACKWARD_TO_INPUTS = 1.3


class Source(Enum):
    """Origin of an estimate, best first."""

    MEASURED = "the same measurement"
    SCALED = "other measurements of the model"
    TIMED = "a few timed passes"
    COUNTED = "floating-point operations and the calibration"
    TIMED_ON_CPU = "a few passes timed on a CPU"


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds that an example takes, or a forward and a backward pass of one, and where they are from."""

    seconds: float
    source: Source


class Paces:
    """Paces of the measurements of a run or a store, on one kind of device.

    ``per_pass`` are the seconds of a forward and a backward pass of an example, used for models without measurements.
    """

    def __init__(self, per_pass: Mapping[str, Pace] | None = None) -> None:
        self.per_pass = dict(per_pass or {})
        self._measured: dict[Hashable, float] = {}
        self._ratios: dict[str, list[float]] = {}

    def add(self, key: Hashable, model: str, seconds: float, passes: float | None) -> None:
        """Add what was measured.

        ``key`` is the measurement, ``seconds`` are those of an example, and ``passes`` its passes (``weighted``), None
        if unknown.
        """
        self._measured[key] = seconds
        if passes:
            self._ratios.setdefault(model, []).append(seconds / passes)

    def of(self, key: Hashable, model: str, passes: float | None) -> Pace | None:
        """Return the pace of a measurement: its own, that of the model's others by passes, or that of a pass."""
        if key in self._measured:
            return Pace(self._measured[key], Source.MEASURED)
        if passes is None:
            return None
        if model in self._ratios:
            return Pace(median(self._ratios[model]) * passes, Source.SCALED)
        each = self.per_pass.get(model)
        return None if each is None else Pace(each.seconds * passes, each.source)

    @property
    def usual_per_pass(self) -> float:
        """Return the mean seconds of a pass over all models; 1 if none is known."""
        known = {model: each.seconds for model, each in self.per_pass.items()}
        known |= {model: median(ratios) for model, ratios in self._ratios.items()}
        return sum(known.values()) / len(known) if known else 1.0


def weighted(forward: int, backward: int) -> float:
    """Return passes in pairs of a forward and a backward pass; a forward pass alone is a third of a pair."""
    return FORWARD_FRACTION * forward + (1 - FORWARD_FRACTION) * backward


def passes_of(condition: Condition) -> tuple[int, int, int, bool]:
    """Return the numbers of inputs, forward and backward passes of an example, and whether all passes are known."""
    passes = condition.action.most_passes(condition.perturbation)
    forward, backward = passes or (0, 0)
    inputs = max(1, len(condition.perturbation.at_budgets))
    # A sweep's passes are of all its budgets together.
    is_compared = TASKS[condition.dataset.task].compares_clean and not condition.perturbation.is_clean
    return inputs, inputs * (condition.num_predictions + is_compared) + forward, backward, passes is not None


def weighted_passes(condition: Condition) -> float | None:
    """Return the passes of an example in pairs of a forward and a backward pass; None if they are unknown."""
    _, forward, backward, is_known = passes_of(condition)
    return weighted(forward, backward) if is_known else None
