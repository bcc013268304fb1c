"""Comparison of a paper's protocol with that of a measured number, field by field.

A field that cannot be compared counts as different.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from robench.core.checkpoint import Checkpoint
from robench.core.suite import Column, Suite, View, views_of
from robench.declare.printed import RECIPE, PublishedCell

# Fields about training, which hold for the authors' own weights, with any recipe in the registry.
OF_TRAINING = RECIPE | {"pretraining", "epochs", "trajectories"}
_SMALL_LANGUAGE: Mapping[str, float | str] = {
    "batch_size": 96,
    "learning_rate": 0.00025,
    "weight_decay": 0,
    "num_steps": 500_000,
    "warmup_steps": 2000,
    "schedule": "cosine",
    "clip_grad": 0.25,
}
# Settings of training that are not a kind of recipe: the fields that they fix (sources are in docs/protocols.md).
SETTINGS: Mapping[str, Mapping[str, float | str]] = {
    "lmtool-fwp-small": _SMALL_LANGUAGE,
    "lmtool-fwp-medium": {**_SMALL_LANGUAGE, "batch_size": 56, "num_steps": 400_000},
    "elliptical-language": _SMALL_LANGUAGE,
    "primal-long-range": {"optimizer": "adamw", "learning_rate": 0.0001, "schedule": "one-cycle"},
    "segmenter": {
        "optimizer": "sgd",
        "learning_rate": 0.001,
        "batch_size": 8,
        "crop_size": 512,
        "drop_path": 0.1,
    },
    "elliptical-fan": {
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
        views: measured or corrupted conditions of the column, or single budgets of them.
        num_examples: number of examples of the estimate; None for metrics over several conditions.
        pretrained_on: dataset of the entry whose weights the training starts from; None if it is unknown.
    """

    column: Column
    views: tuple[View, ...]
    checkpoint: Checkpoint
    num_examples: int | None
    batch_size: int
    limit: int | None = None
    pretrained_on: str | None = None


def measured_of(
    suite: Suite,
    column: Column,
    checkpoint: Checkpoint,
    *,
    checkpoints: Mapping[str, Checkpoint],
    num_examples: int | None = None,
    limit: int | None = None,
) -> MeasuredProtocol:
    """Return the conditions of a column's number for a checkpoint; ``num_examples`` is that of the estimate."""
    views = {view.name: view for condition in suite.conditions for view in views_of(condition)}
    read = tuple(views[name] for name, role in column.reads if role.name in ("measured", "corrupted"))
    return MeasuredProtocol(
        column=column,
        views=read,
        checkpoint=checkpoint,
        num_examples=num_examples if len(column.conditions) == 1 else None,
        limit=limit,
        batch_size=suite.largest_batch_of(view.condition for view in read),
        pretrained_on=_pretrained_on(checkpoint, checkpoints),
    )


def _pretrained_on(checkpoint: Checkpoint, checkpoints: Mapping[str, Checkpoint]) -> str | None:
    """Return the dataset of the entry with the initial weights, which is found by the place of its weights."""
    initial = getattr(checkpoint.training, "initial_weights", None)
    if initial is None:
        return None
    return next((each.trained_on for each in checkpoints.values() if each.weights.uri == initial.uri), None)


def differing_fields(cell: PublishedCell, measured: MeasuredProtocol, *, of_authors: bool) -> tuple[str, ...]:
    """Return the names of the fields in which a cell's protocol and the measured number differ.

    ``examples`` is included if the protocol does not state it and only a part of the dataset was measured. Of the
    authors' own weights, fields about training are not compared.
    """
    names = [
        name
        for name, stated in cell.protocol.items()
        if not (of_authors and name in OF_TRAINING) and not _is_equal(name, stated, measured)
    ]
    if "examples" not in cell.protocol and not _is_whole(measured):
        names.append("examples")
    return tuple(names)


def _is_equal(name: str, stated: str, measured: MeasuredProtocol) -> bool:
    if name in _VALUES:
        return all(_is_same(stated, value) for value in _VALUES[name](measured))
    return _COMPARED.get(name, partial(_is_some_field, name))(stated, measured)


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


def _has_length(stated: str, measured: MeasuredProtocol) -> bool:
    # In thousands of tokens, as 2K for 2,048.
    num_steps = getattr(measured.checkpoint.architecture, "num_steps", None)
    return isinstance(num_steps, int) and f"{num_steps // 1024}K" == stated


def _has_training_batch_size(stated: str, measured: MeasuredProtocol) -> bool:
    # DeiT's code takes the batch of one GPU, which is also the group that it mixes, and papers may print that.
    recipe = measured.checkpoint.training
    return any(_is_same(stated, getattr(recipe, name, None)) for name in ("batch_size", "mixing_group_size"))


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


# Fields whose values, of each condition or of the whole, must be the stated one. Any: as of ``_is_same``.
_VALUES: Mapping[str, Callable[[MeasuredProtocol], Sequence[Any]]] = {
    "examples": _sizes,
    "corruptions": lambda read: [len({role.corruption for _, role in read.column.reads if role.corruption})],
    "severities": lambda read: [len({role.severity for _, role in read.column.reads if role.severity})],
    "norm": lambda read: [getattr(view.attack.threat_model, "norm", view.attack.search_norm) for view in read.views],
    "epsilon": lambda read: [getattr(view.attack.threat_model, "epsilon", None) for view in read.views],
    "perturbation": lambda read: [view.condition.perturbation.kind for view in read.views],
    "split": lambda read: [view.condition.dataset.evaluation_split for view in read.views],
    "epochs": lambda read: [getattr(read.checkpoint.training, "num_epochs", None)],
    "batch_size": lambda read: [read.batch_size],
    "learning_rate": lambda read: [getattr(read.checkpoint.training, "learning_rate", None)],
    "pretraining": lambda read: [read.pretrained_on],
    # Without the version that ends an id of Gymnasium; sets of trajectories are named by environment and quality.
    "environment": lambda read: [
        getattr(view.condition.dataset, "environment", "").rpartition("-v")[0] for view in read.views
    ],
    "trajectories": lambda read: [(getattr(read.checkpoint.training, "trajectories", None) or "").partition("-")[2]],
}
_COMPARED: Mapping[str, Callable[[str, MeasuredProtocol], bool]] = {
    "dataset": _is_dataset,
    "length": _has_length,
    "step_size": _has_step_size,
    "training": _is_training,
    "training_batch_size": _has_training_batch_size,
}
