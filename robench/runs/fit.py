"""Preflight checks: whether a model fits a dataset and agrees with its registry entry.

The model runs on a few examples before anything is measured: sizes, channels and classes must fit the dataset, its
outputs must be logits and not probabilities, and its accuracy must agree with its entry. So wrong weights, a wrong
normalisation or classes in another order cost seconds and not a night. Rows must not influence each other, unless the
entry permits it.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch

from robench.core.containment import Contained, blamed
from robench.core.errors import ExampleError, UsageError, described
from robench.core.protocols import ClassifiedDataset
from robench.declarations.base import imported
from robench.domains import DOMAINS
from robench.evaluation.coupling import ADVICE, measure_coupling
from robench.models.in_memory_impl import model_of
from robench.models.loading import load_model
from robench.tasks import TASKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from torch import nn

    from robench.core.checkpoint import Checkpoint
    from robench.core.declared import DatasetDeclaration
    from robench.core.protocols import Dataset, Model
    from robench.core.suite import Condition
    from robench.models.loaded import LoadedModel
    from robench.tasks.base import Contradiction

NUM_EXAMPLES = 32
# Not one: a model with batch statistics may refuse a single row, regardless of sizes.
FEW = 2
# Seven passes of eight rows, forward and backward: the batch twice, permuted, and copies of four of its rows.
COUPLING_ROWS = 8
COUPLING_COPIED = 4
COUPLING_PASSES = 3 + COUPLING_COPIED


def loaded_for_checks(checkpoint: Checkpoint, module: nn.Module | None = None) -> LoadedModel:
    """Return a model on the CPU; ``module`` is that of a checkpoint in memory, None loads the checkpoint's weights.

    Raises:
        RobenchError: it cannot be loaded; the message names the model and what its code did.
    """
    with blamed(f"model {checkpoint.name!r} cannot be loaded"):
        return load_model(checkpoint) if module is None else model_of(checkpoint, module)


def check_fit(checkpoint: Checkpoint, datasets: Mapping[DatasetDeclaration, Dataset], model: Model) -> float | None:
    """Refuse a model that cannot be measured on one of the datasets, or contradicts its registry entry.

    It runs on 32 examples of the dataset it was trained on, on two of others, and on eight to check that rows are
    independent.

    Returns:
        Seconds that a forward and a backward pass took for an example, for estimates; None where they were not timed.

    Raises:
        UsageError: another number of classes, inputs that it cannot take, probabilities for logits, far fewer right
            answers than expected, or rows that influence each other where the entry does not permit it.
    """
    task = TASKS[checkpoint.task]
    for declared, dataset in datasets.items():
        is_expected = checkpoint.trained_on == declared.name and task.metric in checkpoint.expected
        # Unreadable examples are reported when their shard fails.
        found = (_readable(dataset, index) for index in range(min(NUM_EXAMPLES, len(dataset))))
        examples = list(islice((each for each in found if each is not None), NUM_EXAMPLES if is_expected else FEW))
        if examples:
            inputs = _excerpts(declared, [example for example, _ in examples])
            outputs = _outputs(checkpoint, model, declared.name, inputs)
            task.rules.check_fit(outputs, _num_classes(declared, dataset), checkpoint.name, declared.name)
            if is_expected and bool(torch.isfinite(outputs).all()):
                _check_expected(checkpoint, declared.name, outputs, [target for _, target in examples])
    return None if checkpoint.coupled else _check_rows_are_apart(checkpoint, model, datasets)


def check_shapes(conditions: Iterable[Condition], datasets: Mapping[DatasetDeclaration, Dataset]) -> None:
    """Refuse conditions whose perturbation cannot be applied to inputs of a dataset's shape.

    Raises:
        UsageError: the message names the condition, the dataset and the shape.
    """
    shapes: dict[DatasetDeclaration, tuple[int, ...] | None] = {}
    for condition in conditions:
        declared = condition.dataset
        if declared not in shapes:
            # Unreadable examples are reported when their shard fails.
            found = _readable(datasets[declared], 0)
            shapes[declared] = None if found is None else tuple(found[0].shape)
        shape = shapes[declared]
        if shape is not None and (problem := condition.perturbation.problem_with_shape(shape)):
            raise UsageError(f"condition {condition.name!r} on dataset {declared.name!r}: {problem}")


def _num_classes(declared: DatasetDeclaration, dataset: Dataset) -> int | None:
    """Return the number of classes stated by the declaration, or else by the files; None if neither has it."""
    if declared.num_classes is not None:
        return declared.num_classes
    return dataset.num_classes if isinstance(dataset, ClassifiedDataset) else None


def _check_expected(checkpoint: Checkpoint, dataset: str, outputs: torch.Tensor, targets: Sequence[Any]) -> None:
    task = TASKS[checkpoint.task]
    expected = checkpoint.expected.get(task.metric or "")
    if expected is None or task.contradiction is None:
        return
    contradiction: Contradiction = imported(task.contradiction)
    if found := contradiction(outputs, targets, expected, dataset):
        raise UsageError(f"model {checkpoint.name!r} {found}, or correct `expected`")


def _check_rows_are_apart(
    checkpoint: Checkpoint, model: Model, datasets: Mapping[DatasetDeclaration, Dataset]
) -> float | None:
    """Refuse a model whose rows influence each other, on the first dataset with two readable examples.

    The batch has eight rows whatever the suite's batch size; fewer examples are repeated. The seconds of a row's passes
    are returned where inputs are whole, and not excerpts.
    """
    for declared, dataset in datasets.items():
        found = (_readable(dataset, index) for index in range(min(NUM_EXAMPLES, len(dataset))))
        inputs = [each[0] for each in islice((each for each in found if each is not None), COUPLING_ROWS)]
        if len(inputs) > 1:
            rows = [row % len(inputs) for row in range(COUPLING_ROWS)]
            batch = _excerpts(declared, [inputs[row] for row in rows])
            break
    else:
        return None
    started = time.perf_counter()
    with _refused(f"model {checkpoint.name!r} cannot take a batch of {COUPLING_ROWS} examples"):
        coupling = measure_coupling(model, batch, rows, COUPLING_COPIED)
    if coupling is not None and coupling.is_coupled:
        raise UsageError(f"model {checkpoint.name!r} couples the rows of a batch: {coupling.finding}; {ADVICE}")
    seconds = time.perf_counter() - started
    return seconds / (COUPLING_PASSES * COUPLING_ROWS) if DOMAINS[declared.domain].is_real_valued else None


def _excerpts(declared: DatasetDeclaration, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    rules = DOMAINS[declared.domain].rules
    return rules.collate([rules.excerpt(each) for each in inputs])


def _outputs(checkpoint: Checkpoint, model: Model, dataset_name: str, images: torch.Tensor) -> torch.Tensor:
    shape = tuple(images.shape[1:])
    title = f"model {checkpoint.name!r} cannot take the examples {shape} of dataset {dataset_name!r}"
    with _refused(title), torch.no_grad():
        return model.outputs(images, list(range(len(images))))


@contextmanager
def _refused(title: str) -> Iterator[None]:
    """Contain a model's code; any error on examples means that it does not fit, and is reported with ``title``."""
    try:
        with Contained():
            yield
    except Exception as error:
        with Contained():  # even the text of an error may be code
            reason = described(error)
        raise UsageError(f"{title}: {reason}") from error


def _readable(dataset: Dataset, index: int) -> tuple[torch.Tensor, Any] | None:
    with suppress(ExampleError):
        return dataset[index]
    return None
