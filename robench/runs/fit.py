"""Preflight checks: whether a model fits a dataset and agrees with its registry entry.

The model runs on a few examples before anything is measured: sizes, channels and classes must fit the dataset, its
outputs must be logits and not probabilities, and its accuracy must agree with its entry. So wrong weights, a wrong
normalisation or classes in another order cost seconds and not a night. Rows must not influence each other, unless the
entry permits it.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import torch

from robench.attacks.levels import levels_of
from robench.core.checkpoint import Checkpoint
from robench.core.containment import attributed_to
from robench.core.declared import DatasetDeclaration, classes_text
from robench.core.errors import ExampleError, UsageError
from robench.core.protocols import ClassifiedDataset, Dataset, Model
from robench.core.providers import foreign_in, title_of
from robench.core.shard import WRITTEN_DTYPE
from robench.core.suite import Condition
from robench.declarations.base import imported
from robench.domains import DOMAINS
from robench.evaluation.coupling import (
    LOGITS_LIMIT,
    NUM_CALLS,
    difference_of_calls,
    measure_coupling,
    measure_padding,
)
from robench.evaluation.model_checks import require_logits
from robench.metrics.audits import COUPLED_ADVICE
from robench.tasks import TASKS
from robench.tasks.base import Contradiction, ModelCheck

NUM_EXAMPLES = 32
# Not one: a model with batch statistics may refuse a single row. Where sizes differ, outputs may take a gigabyte each.
FEW = 4
# Eight passes of eight rows, forward and backward: the batch three times, permuted, and copies of four of its rows.
COUPLING_ROWS = 8
COUPLING_COPIED = 4
COUPLING_PASSES = 4 + COUPLING_COPIED
# Any error on examples means that a model does not fit.
_refused = partial(attributed_to, refusal=UsageError)


def check_fit(
    checkpoint: Checkpoint,
    datasets: Mapping[DatasetDeclaration, Dataset],
    model: Model,
    conditions: Iterable[Condition] = (),
) -> float | None:
    """Refuse a model that cannot be measured on one of the datasets, or contradicts its registry entry.

    It runs on 32 examples of the dataset it was trained on, on four of others, and on eight to check that rows are
    independent. None of the ``conditions`` may ask for what it lacks.

    Returns:
        Seconds that a forward and a backward pass took for an example, for estimates; None where they were not timed.

    Raises:
        UsageError: another number of classes, inputs that it cannot take, probabilities for logits, far fewer right
            answers than expected, rows that influence each other where the entry does not permit it, or a condition
            whose perturbation needs what it lacks.
    """
    task = TASKS[checkpoint.task]
    conditions = tuple(conditions)
    asking = [each.name for each in conditions if each.perturbation.scores_clean_targets]
    if asking and not getattr(model, "takes_targets", False):
        raise UsageError(
            f"model {checkpoint.name!r} cannot be scored on the clean targets of perturbed inputs, as condition "
            f"{asking[0]!r} asks: let its module's forward take `targets` and set its attribute takes_targets = True, "
            "or measure it under a suite without such a condition"
        )
    seen: list[torch.Tensor] = []
    for declared, dataset in datasets.items():
        num_classes = _num_classes(declared, dataset)
        is_expected = checkpoint.trained_on == declared.name and task.metric in checkpoint.expected
        examples = _readable(dataset, NUM_EXAMPLES if is_expected and declared.has_one_size else FEW)
        if examples:
            inputs = _excerpts(declared, [example for example, _ in examples[: None if declared.has_one_size else 1]])
            outputs = _fitting_outputs(checkpoint, model, declared, num_classes, [example for example, _ in examples])
            seen += [outputs] if isinstance(outputs, torch.Tensor) else [each[None] for each in outputs]
            if is_expected and all(bool(torch.isfinite(each).all()) for each in outputs):
                _check_expected(checkpoint, declared.name, outputs, [target for _, target in examples])
            for condition in conditions:
                if condition.dataset == declared:
                    if num_classes is None and outputs[0].ndim:
                        _check_classes(condition, len(outputs[0]))
                    with _refused(f"model {checkpoint.name!r} cannot be measured under condition {condition.name!r}"):
                        condition.perturbation.check_model(model, inputs)
            if task.check is not None and runs_foreign_code(checkpoint):
                check: ModelCheck = imported(task.check)
                with _refused(f"model {checkpoint.name!r} does not fit {task.name}"):
                    check(model, [example for example, _ in examples])
    if task.is_audited and seen:
        require_logits(seen, checkpoint.name)
    _check_calls_are_alike(checkpoint, model, datasets)
    return None if checkpoint.coupled else _check_rows_are_independent(checkpoint, model, datasets)


def _fitting_outputs(
    checkpoint: Checkpoint,
    model: Model,
    declared: DatasetDeclaration,
    num_classes: int | None,
    examples: Sequence[torch.Tensor],
) -> torch.Tensor | list[torch.Tensor]:
    """Return the checked outputs of examples: (B, ...), or of several sizes a list of them."""
    rules = TASKS[checkpoint.task].rules

    def of_batch(batch: Sequence[torch.Tensor]) -> torch.Tensor:
        inputs = _excerpts(declared, batch)
        shape = tuple(inputs.shape[1:])
        title = f"model {checkpoint.name!r} cannot take the examples {shape} of dataset {declared.name!r}"
        with _refused(title), torch.no_grad():
            outputs = model.outputs(inputs, list(range(len(inputs))))
        rules.check_fit(outputs, num_classes, checkpoint.name, declared.name, inputs)
        return outputs

    return of_batch(examples) if declared.has_one_size else [of_batch([each])[0] for each in examples]


def check_shapes(
    conditions: Iterable[Condition], datasets: Mapping[DatasetDeclaration, Dataset], kept: str | None = None
) -> None:
    """Refuse conditions whose perturbation cannot be applied to a dataset of this shape or number of classes.

    ``kept`` is the number format of adversarial examples, if they are kept.

    Raises:
        UsageError: the message names the first condition, its dataset and what was found; for shapes also the options
            that leave all such conditions out.
    """
    conditions, problems = list(conditions), dict[str, str]()
    shapes: dict[DatasetDeclaration, tuple[int, ...] | None] = {}
    for condition in conditions:
        declared = condition.dataset
        if declared not in shapes:
            found = _readable(datasets[declared], 1)
            shapes[declared] = tuple(found[0][0].shape) if found else None
            if kept == WRITTEN_DTYPE and found:
                with _refused(f"perturbed examples of dataset {declared.name!r} cannot be kept as {kept}"):
                    levels_of(found[0][0])
        num_classes = _num_classes(declared, datasets[declared])
        if num_classes is not None:
            _check_classes(condition, num_classes)
        shape = shapes[declared]
        if shape is not None and (problem := condition.perturbation.problem_with_shape(shape)):
            problems[condition.name] = f"condition {condition.name!r} on dataset {declared.name!r}: {problem}"
    if problems:
        options = " ".join(f"--condition '!{each}'" for each in _patterns(problems, [each.name for each in conditions]))
        raise UsageError(f"{next(iter(problems.values()))}; leave out what needs other inputs with {options}")


def _patterns(names: Collection[str], among: Sequence[str]) -> Iterator[str]:
    """Yield names, all severities of a type as one pattern if it matches no other of ``among``."""
    for stem in dict.fromkeys(name.rstrip("0123456789") for name in names):
        matched = [name for name in among if name.startswith(stem)]
        if stem.endswith("-") and len(set(matched)) > 1 and all(name in names for name in matched):
            yield f"{stem}*"
        else:
            yield from (name for name in names if name.rstrip("0123456789") == stem)


def _check_classes(condition: Condition, num_classes: int) -> None:
    where = classes_text(condition.dataset.name, num_classes)
    for field, message in condition.perturbation.problems_with_classes(num_classes, where):
        raise UsageError(f"condition {condition.name!r}: {field}{' ' * bool(field)}{message}")


def _num_classes(declared: DatasetDeclaration, dataset: Dataset) -> int | None:
    """Return the number of classes stated by the declaration, or else by the files; None if neither has it."""
    if declared.num_classes is not None:
        return declared.num_classes
    return dataset.num_classes if isinstance(dataset, ClassifiedDataset) else None


def _check_expected(
    checkpoint: Checkpoint, dataset: str, outputs: torch.Tensor | list[torch.Tensor], targets: Sequence[Any]
) -> None:
    task = TASKS[checkpoint.task]
    expected = checkpoint.expected.get(task.metric or "")
    if expected is None or task.contradiction is None:
        return
    contradiction: Contradiction = imported(task.contradiction)
    if found := contradiction(outputs, targets, expected, dataset):
        raise UsageError(f"model {checkpoint.name!r} {found}, or correct `expected`")


def _check_calls_are_alike(
    checkpoint: Checkpoint, model: Model, datasets: Mapping[DatasetDeclaration, Dataset]
) -> None:
    """Refuse a model that answers in turn, on two examples of the first dataset, or one where sizes differ."""
    for declared, dataset in datasets.items():
        if inputs := [each for each, _ in _readable(dataset, 2 if declared.has_one_size else 1)]:
            with _refused(f"model {checkpoint.name!r} cannot take the same examples again"):
                found = difference_of_calls(model, _excerpts(declared, inputs), range(len(inputs)))
            if found > LOGITS_LIMIT:
                raise UsageError(
                    f"model {checkpoint.name!r} is not the same function at every call: of {NUM_CALLS} successive "
                    f"answers to the same examples some are equal and others differ by up to {found:.2%} of the range "
                    "of outputs. Leave out what it remembers of earlier calls; if it chooses at random, let it draw "
                    "from its seeds (takes_seeds) or torch's own generator"
                )
            return


def _check_rows_are_independent(
    checkpoint: Checkpoint, model: Model, datasets: Mapping[DatasetDeclaration, Dataset]
) -> float | None:
    """Refuse a model whose rows influence each other, on the first dataset with two readable examples.

    The batch has eight rows for any batch size of the suite; fewer examples are repeated. The seconds of a row's passes
    are returned where inputs are whole, and not excerpts.
    """
    for declared, dataset in datasets.items():
        # A pass over images of several sizes has one row.
        inputs = [each for each, _ in _readable(dataset, COUPLING_ROWS)] if declared.has_one_size else []
        if len(inputs) > 1:
            rows = [row % len(inputs) for row in range(COUPLING_ROWS)]
            batch = _excerpts(declared, [inputs[row] for row in rows])
            break
    else:
        return None
    is_real_valued = DOMAINS[declared.domain].is_real_valued
    if not is_real_valued and runs_foreign_code(checkpoint):
        alone = [_excerpts(declared, [each]) for each in inputs]
        with _refused(f"model {checkpoint.name!r} cannot take an example alone"):
            padding = measure_padding(model, _excerpts(declared, inputs), alone, range(len(inputs)))
        if padding.is_coupled:
            raise UsageError(f"model {checkpoint.name!r} reads padding or other rows: {padding.finding}, and of 1")
    started = time.perf_counter()
    with _refused(f"model {checkpoint.name!r} cannot take a batch of {COUPLING_ROWS} examples"):
        coupling = measure_coupling(model, batch, rows, COUPLING_COPIED)
    if coupling is not None and coupling.changes:
        raise UsageError(f"model {checkpoint.name!r} is not the same function at every call: {coupling.finding}")
    if coupling is not None and coupling.is_coupled:
        raise UsageError(f"model {checkpoint.name!r} couples the rows of a batch: {coupling.finding}; {COUPLED_ADVICE}")
    seconds = time.perf_counter() - started
    return seconds / (COUPLING_PASSES * COUPLING_ROWS) if is_real_valued else None


def _excerpts(declared: DatasetDeclaration, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    rules = DOMAINS[declared.domain].rules
    return rules.collate([rules.excerpt(each) for each in inputs])


def _readable(dataset: Dataset, most: int) -> list[tuple[torch.Tensor, Any]]:
    """Return some of the first examples; unreadable ones are reported when their shard fails."""
    examples: list[tuple[torch.Tensor, Any]] = []
    for index in range(min(NUM_EXAMPLES, len(dataset))):
        with suppress(ExampleError):
            examples.append(dataset[index])
        if len(examples) == most:
            break
    return examples


def runs_foreign_code(checkpoint: Checkpoint) -> bool:
    """Return whether a model has code other than robench's."""
    return checkpoint.architecture.runs_user_code or foreign_in(checkpoint.architecture) is not None


def foreign_code_of(checkpoint: Checkpoint, condition: Condition) -> str:
    """Return the names of the parts of a measurement that are not robench's code (``Measurement.foreign_code``)."""
    is_users = runs_foreign_code(checkpoint)
    things = {
        "dataset": condition.dataset,
        "perturbation": condition.perturbation,
        "action": condition.action,
        "task": TASKS[checkpoint.task],
        "domain": DOMAINS[condition.dataset.domain],
    }
    names = [f"model {checkpoint.name!r}"] if is_users else []
    for noun, thing in things.items():
        if (found := foreign_in(thing)) is not None:
            names.append(title_of(noun, found, str(getattr(found, "kind", getattr(found, "name", noun)))))
    return " with ".join(names) if is_users or not names else f"{' with '.join(names)} on model {checkpoint.name!r}"
