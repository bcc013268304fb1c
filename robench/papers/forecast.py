"""Hours that training and measuring models would take on a device of a given speed, without data or weights.

The speed is that which the device achieves, in floating-point operations per second, two for each multiply-add. A
forward pass then takes between the time of its own operations and that of the same model with softmax attention, times
the ratio of both that was measured (``reports/published/operations.json``); mechanisms differ in how well they use a
device. A backward pass of training counts as two forward passes, and one to the inputs alone as 1.3. Reading and
decoding data is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from robench.core.checkpoint import Checkpoint
from robench.core.declared import DatasetDeclaration
from robench.core.identity import key_of, to_plain
from robench.core.suite import Condition
from robench.datasets import DATASETS
from robench.datasets.base import DatasetBase
from robench.declare import shipped_folder
from robench.scheduling.estimates import BACKWARD_TO_INPUTS, passes_of

SECONDS_PER_HOUR, MINUTES_PER_HOUR = 3600, 60
TERA = 1e12
# Backward pass of training over a forward pass.
BACKWARD = 2


@dataclass(frozen=True, slots=True)
class Hours:
    """Range of hours on one device."""

    low: float
    high: float

    def __add__(self, other: Hours) -> Hours:
        """Return the hours of both, one after the other."""
        return Hours(self.low + other.low, self.high + other.high)

    def times(self, count: float) -> Hours:
        """Return the hours of as many repetitions."""
        return Hours(count * self.low, count * self.high)

    def __str__(self) -> str:
        """Return two digits, such as ``210-340 h`` or ``12-15 min``; one number where both are equal."""
        if self.high * MINUTES_PER_HOUR < 1:
            return "under a minute"
        unit, scale = ("h", 1) if self.high >= 1 else ("min", MINUTES_PER_HOUR)
        low, high = (_two_digits(scale * each) for each in (self.low, self.high))
        return f"{low} {unit}" if low == high else f"{low}-{high} {unit}"


NONE = Hours(0.0, 0.0)


def _two_digits(number: float) -> str:
    return f"{float(f'{number:.2g}'):,g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """Multiply-adds of a forward pass of one example, as a model is measured and as it is trained.

    Attributes:
        with_softmax: of the same model with softmax attention, as it is measured.
        teacher: of the model whose predictions it learns; 0 without one.
        inference_ratio, training_ratio: seconds over those with softmax attention; None where they are not measured.
    """

    inference: int
    training: int
    with_softmax: int
    teacher: int = 0
    inference_ratio: float | None = None
    training_ratio: float | None = None


def operations_key(checkpoint: Checkpoint) -> str:
    """Return a digest of what decides the operations of a model's passes."""
    return key_of([to_plain(checkpoint.architecture), to_plain(checkpoint.preprocessing)])


def has_shipped_operations(checkpoint: Checkpoint) -> bool:
    """Return whether a model is one of the papers' tables, also one whose operations are too many to be counted."""
    return operations_key(checkpoint) in _shipped()


def shipped_operations(checkpoint: Checkpoint) -> Operations | None:
    """Return the operations of a model of the papers' tables, as they come with robench; None where there are none."""
    return _shipped().get(operations_key(checkpoint))


@cache
def _shipped() -> dict[str, Operations | None]:
    file = shipped_folder() / "reports" / "published" / "operations.json"
    return {
        each["key"]: Operations(
            **{name: each[name] for name in ("inference", "training", "with_softmax", "teacher") if name in each},
            **{f"{name}_ratio": ratio for name, ratio in each.get("times", {}).items()},
        )
        if "inference" in each
        else None
        for each in json.loads(file.read_text())["models"].values()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Forecast for a device of a speed that it achieves in a forward pass of softmax attention."""

    flops_per_second: float
    operations: Callable[[Checkpoint], Operations | None] = shipped_operations

    def training(self, checkpoint: Checkpoint) -> Hours | None:
        """Return the hours of one training by the entry's recipe; None where they are unknown."""
        found, recipe = self.operations(checkpoint), checkpoint.training
        declared = None if recipe is None else DATASETS.get(recipe.dataset)
        if found is None or recipe is None or not isinstance(declared, DatasetBase):
            return None
        count = _num_learned(checkpoint, declared)
        if count is None:
            return None
        passes = count * (1 + BACKWARD) * (1 + getattr(recipe, "adversarial_num_steps", 0))
        own = self._hours(found.training, found.with_softmax, found.training_ratio).times(passes)
        return own + self._hours(found.teacher, found.teacher, None).times(count)

    def measuring(
        self, checkpoint: Checkpoint, conditions: Iterable[Condition], limit: int | None = None
    ) -> Hours | None:
        """Return the hours of conditions of a suite, at most, since attacks may stop at success; None if unknown.

        ``limit`` is the number of first examples of each condition; None for all.
        """
        found = self.operations(checkpoint)
        if found is None:
            return None
        total = NONE
        for condition in conditions:
            count = _num_measured(checkpoint, condition, limit)
            _, forward, backward, is_known = passes_of(condition, checkpoint.passes_per_prediction)
            if count is None or not is_known:
                return None
            alone = self._hours(found.inference, found.with_softmax, found.inference_ratio).times(count * forward)
            to_inputs = self._hours(found.inference, found.with_softmax, found.training_ratio)
            total = total + alone + to_inputs.times(count * backward * BACKWARD_TO_INPUTS)
        return total

    def _hours(self, own: int, with_softmax: int, ratio: float | None) -> Hours:
        """Return the hours of a forward pass."""
        bounds = [2 * own, 2 * own if ratio is None else 2 * with_softmax * ratio]
        return Hours(*(each / self.flops_per_second / SECONDS_PER_HOUR for each in sorted(bounds)))


def _num_learned(checkpoint: Checkpoint, declared: DatasetBase) -> float | None:
    """Return the number of inputs of a pass's size that training learns from; None if unknown."""
    recipe = checkpoint.training
    assert recipe is not None
    num_steps = getattr(recipe, "num_steps", None)
    if num_steps is not None:
        return float(num_steps * getattr(recipe, "batch_size", 1))
    size = _size_of(checkpoint, declared, "train")
    return None if size is None else size * recipe.total_epochs


def _num_measured(checkpoint: Checkpoint, condition: Condition, limit: int | None) -> float | None:
    """Return the number of inputs of a pass's size that a condition scores; None if unknown."""
    declared = condition.dataset
    size = _size_of(checkpoint, declared, declared.evaluation_split)
    bounds = [each for each in (condition.num_examples, limit) if each is not None]
    whole = declared.num_examples
    if size is None or not bounds:
        return size
    # Of texts, whose number only the files contain, a part is not known.
    return None if whole is None else size * min(1.0, min(bounds) / whole)


def _size_of(checkpoint: Checkpoint, declared: DatasetDeclaration, split: str) -> float | None:
    """Return the number of inputs of a split: of language models, windows that score ``stride`` words each."""
    if not isinstance(declared, DatasetBase):
        return None
    tokens = declared.num_tokens_of(split)
    context, stride = (getattr(checkpoint.architecture, name, None) for name in ("context", "stride"))
    if tokens is None and stride is None:
        # Of texts, too: a classifier reads equally many tokens of each.
        return declared.num_examples_of(split)
    if tokens is None or context is None or stride is None:
        return None
    is_trained = split != declared.evaluation_split
    return tokens / float(context if is_trained else stride)
