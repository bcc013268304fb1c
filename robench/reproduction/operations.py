"""Operations of models for forecasts: shipped ones, or counted on torch's meta device."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

from robench.core.checkpoint import Checkpoint
from robench.core.errors import DeclarationError, RobenchError
from robench.costs import DEFAULT_RULE
from robench.costs.counting import counts_of
from robench.papers.forecast import Operations, has_shipped_operations, operations_key, shipped_operations
from robench.runs.costs import with_attention

# By key: training seeds of a model have the same operations.
_COUNTED: dict[str, Operations | None] = {}


def operations_of(checkpoint: Checkpoint) -> Operations | None:
    """Return the operations of a model's passes; None if they cannot be counted."""
    if has_shipped_operations(checkpoint):
        return shipped_operations(checkpoint)
    key = operations_key(checkpoint)
    if key not in _COUNTED:
        with suppress(RobenchError):
            _COUNTED[key] = counted_operations(checkpoint)
    return _COUNTED.setdefault(key, None)


def counted_operations(checkpoint: Checkpoint) -> Operations:
    """Count the operations of a model's passes.

    Raises:
        DeclarationError: the model cannot be built, or its operations cannot be counted.
    """
    one, two = (_multiply_adds(checkpoint, is_training=True, batch_size=size) for size in (1, 2))
    found = {
        "inference": _multiply_adds(checkpoint),
        # What a pass computes once for its whole batch, such as bilateral attention's map of positions, is left out.
        "training": two - one,
        "with_softmax": _multiply_adds(with_softmax(checkpoint)),
    }
    teacher = getattr(checkpoint.training, "teacher", None)
    if teacher is not None:
        of_teacher = replace(checkpoint, name=f"teacher of {checkpoint.name}", architecture=teacher.architecture)
        found["teacher"] = _multiply_adds(of_teacher)
    return Operations(**found)


def _multiply_adds(checkpoint: Checkpoint, **passes: Any) -> int:
    counts = counts_of(checkpoint.name, checkpoint.architecture, checkpoint.preprocessing, **passes)
    return counts.multiply_adds(DEFAULT_RULE)


def with_softmax(checkpoint: Checkpoint) -> Checkpoint:
    """Return the same model with softmax attention; itself if its attention cannot be replaced."""
    try:
        return with_attention(checkpoint, "softmax")
    except DeclarationError:
        return checkpoint
