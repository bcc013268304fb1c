"""Operations of models for forecasts: shipped ones, or counted on torch's meta device."""

from dataclasses import replace
from typing import Any

from robench.attention import ATTENTIONS
from robench.core.checkpoint import Checkpoint
from robench.core.errors import RobenchError
from robench.costs import DEFAULT_RULE
from robench.costs.counting import counts_of
from robench.papers.forecast import Operations, has_shipped_operations, shipped_operations


def operations_of(checkpoint: Checkpoint) -> Operations | None:
    """Return the operations of a model's passes; None if they cannot be counted."""
    if has_shipped_operations(checkpoint):
        return shipped_operations(checkpoint)
    try:
        return counted_operations(checkpoint)
    except RobenchError:
        return None


def counted_operations(checkpoint: Checkpoint) -> Operations:
    """Count the operations of a model's passes.

    Raises:
        DeclarationError: the model cannot be built, or its operations cannot be counted.
    """
    asked = {
        "inference": (checkpoint, False),
        "training": (checkpoint, True),
        "with_softmax": (with_softmax(checkpoint), False),
    }
    counts = {
        name: counts_of(each.name, each.architecture, each.preprocessing, is_training=is_training)
        for name, (each, is_training) in asked.items()
    }
    found = {name: each.multiply_adds(DEFAULT_RULE) for name, each in counts.items()}
    teacher = getattr(checkpoint.training, "teacher", None)
    if teacher is not None:
        found["teacher"] = counts_of(
            f"teacher of {checkpoint.name}", teacher.architecture, checkpoint.preprocessing
        ).multiply_adds(DEFAULT_RULE)
    return Operations(**found)


def with_softmax(checkpoint: Checkpoint) -> Checkpoint:
    """Return the same model with softmax attention; itself if its attention cannot be replaced."""
    architecture: Any = checkpoint.architecture
    if not hasattr(architecture, "attention"):
        return checkpoint
    return replace(checkpoint, architecture=replace(architecture, attention=ATTENTIONS["softmax"]()))
