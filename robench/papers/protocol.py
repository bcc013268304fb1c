"""Comparison of a paper's protocol with that of a measured number, field by field.

A field that cannot be compared counts as different.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from robench.core.suite import View, views_of

if TYPE_CHECKING:
    from robench.core.checkpoint import Checkpoint
    from robench.core.suite import Column, Suite
    from robench.declare.printed import PublishedCell

# Fields about training, which hold for the authors' own weights, whatever recipe the registry has.
OF_TRAINING = frozenset({"training", "pretraining", "epochs", "batch_size"})
# Settings of training that are not a kind of recipe: the fields that they fix (sources are in docs/protocols.md).
SETTINGS: Mapping[str, Mapping[str, float]] = {
    "elliptical": {
        "batch_size": 512,
        "learning_rate": 0.002,
        "learning_rate_batch_size": 512,
        "min_learning_rate": 0.000001,
        "drop_path_rate": 0.1,
        "ema_decay": 0.99992,
        "num_repeats": 1,
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredProtocol:
    """Conditions and checkpoint of a measured number.

    Attributes:
        views: its measured or corrupted conditions, or single budgets of them, without clean ones and negatives.
        num_examples: number of examples of the estimate; None for metrics over several conditions.
    """

    column: Column
    views: tuple[View, ...]
    checkpoint: Checkpoint
    num_examples: int | None
    limit: int | None = None


def measured_of(
    suite: Suite, column: Column, checkpoint: Checkpoint, *, num_examples: int | None = None, limit: int | None = None
) -> MeasuredProtocol:
    """Return the conditions of a column's number for a checkpoint.

    ``num_examples`` is that of the estimate, used if the column reads one condition; ``limit`` is as of ``Row``.
    """
    views = {view.name: view for condition in suite.conditions for view in views_of(condition)}
    read = tuple(views[name] for name, role in column.reads if role.name in ("measured", "corrupted"))
    return MeasuredProtocol(
        column=column,
        views=read,
        checkpoint=checkpoint,
        num_examples=num_examples if len(column.conditions) == 1 else None,
        limit=limit,
    )


def differing_fields(cell: PublishedCell, measured: MeasuredProtocol, *, of_authors: bool) -> tuple[str, ...]:
    """Return the names of the fields in which a cell's protocol and the measured number differ.

    ``examples`` is included if the protocol does not state it and only a part of the dataset was measured. Fields about
    training are not compared where the weights are the authors' own.
    """
    names = [
        name
        for name, stated in cell.protocol.items()
        if not (of_authors and name in OF_TRAINING)
        and not _COMPARED.get(name, partial(_is_some_field, name))(stated, measured)
    ]
    if "examples" not in cell.protocol and not _is_whole(measured):
        names.append("examples")
    return tuple(names)


def _is_dataset(stated: str, measured: MeasuredProtocol) -> bool:
    names = [view.condition.dataset.name for view in measured.views]
    return all(name == stated or name.startswith(f"{stated}/") for name in names)


def _is_whole(measured: MeasuredProtocol) -> bool:
    wholes = [view.condition.dataset.num_examples for view in measured.views]
    return all(whole is None or size == whole for size, whole in zip(_sizes(measured), wholes, strict=True))


def _sizes(measured: MeasuredProtocol) -> list[int | None]:
    """Return the number of examples of each condition, None if unknown."""
    if measured.num_examples is not None:
        return [measured.num_examples for _ in measured.views]
    sizes = []
    for view in measured.views:
        bounds = (measured.limit, view.condition.num_examples, view.condition.dataset.num_examples)
        sizes.append(min((bound for bound in bounds if bound is not None), default=None))
    return sizes


def _has_norm(stated: str, measured: MeasuredProtocol) -> bool:
    return all(
        (attack.threat_model.norm if attack.threat_model else attack.search_norm) == stated
        for attack in (view.attack for view in measured.views)
    )


def _has_epsilon(stated: str, measured: MeasuredProtocol) -> bool:
    threats = [view.attack.threat_model for view in measured.views]
    return all(threat is not None and _is_same(stated, threat.epsilon) for threat in threats)


def _has_step_size(stated: str, measured: MeasuredProtocol) -> bool:
    # Papers print alpha without its unit; their code takes it as a proportion of epsilon.
    attacks = [view.attack for view in measured.views]
    return all(
        _is_same(stated, getattr(attack, "step_size", None)) or _is_same(stated, getattr(attack, "relative_step", None))
        for attack in attacks
    )


def _is_training(stated: str, measured: MeasuredProtocol) -> bool:
    recipe = measured.checkpoint.training
    if recipe is None:
        return False
    settings = SETTINGS.get(stated)
    if settings is None:
        return recipe.kind == stated
    return all(getattr(recipe, name, None) == value for name, value in settings.items())


def _is_some_field(name: str, stated: str, measured: MeasuredProtocol) -> bool:
    """Return whether the field of this name of all attacks, or else of the model, has the stated value."""
    attacks = [getattr(view.attack, name, None) for view in measured.views]
    if any(value is not None for value in attacks):
        return all(_is_same(stated, value) for value in attacks)
    checkpoint = measured.checkpoint
    declared = (getattr(checkpoint.architecture, "attention", None), checkpoint.architecture, checkpoint.training)
    return any(_is_same(stated, getattr(each, name, None)) for each in declared)


# Any: a value of some declaration's field.
def _is_same(stated: str, value: Any) -> bool:
    """Return whether a printed text equals a value; numbers are compared exactly."""
    if value is None or isinstance(value, bool):
        return False
    try:
        number = Fraction(stated.removesuffix("%")) / (100 if stated.endswith("%") else 1)
        return number == Fraction(value if isinstance(value, (int, Fraction)) else str(value))
    except (ValueError, ZeroDivisionError):
        return stated == str(value)


def _num_distinct(values: Iterable[object]) -> int:
    return len({value for value in values if value})


_COMPARED: Mapping[str, Callable[[str, MeasuredProtocol], bool]] = {
    "dataset": _is_dataset,
    "examples": lambda stated, measured: all(_is_same(stated, size) for size in _sizes(measured)),
    "corruptions": lambda stated, measured: _is_same(
        stated, _num_distinct(role.corruption for _, role in measured.column.reads)
    ),
    "severities": lambda stated, measured: _is_same(
        stated, _num_distinct(role.severity for _, role in measured.column.reads)
    ),
    "norm": _has_norm,
    "epsilon": _has_epsilon,
    "step_size": _has_step_size,
    "perturbation": lambda stated, measured: all(view.condition.perturbation.kind == stated for view in measured.views),
    "split": lambda stated, measured: all(view.condition.dataset.evaluation_split == stated for view in measured.views),
    "training": _is_training,
    "epochs": lambda stated, measured: _is_same(stated, getattr(measured.checkpoint.training, "num_epochs", None)),
    "batch_size": lambda stated, measured: _is_same(stated, getattr(measured.checkpoint.training, "batch_size", None)),
}
