"""Preflight checks: whether a model fits a dataset and agrees with its registry entry.

The model runs on a few examples before anything is measured: sizes, channels and classes must fit the dataset, its
outputs must be logits and not probabilities, and its accuracy must agree with its entry. So wrong weights, a wrong
normalisation or classes in another order cost seconds and not a night. Rows must not influence each other, unless the
entry permits it.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from itertools import islice
from math import comb
from typing import TYPE_CHECKING, Any

import torch

from robench.core.containment import Contained, blamed
from robench.core.errors import ExampleError, UsageError, described
from robench.core.protocols import ClassifiedDataset
from robench.domains import DOMAINS
from robench.evaluation.coupling import ADVICE, measure_coupling
from robench.models.in_memory_impl import model_of
from robench.models.loading import load_model
from robench.tasks import TASKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import nn

    from robench.core.checkpoint import Checkpoint
    from robench.core.declared import DatasetDeclaration
    from robench.core.protocols import Dataset, Model

NUM_EXAMPLES = 32
# Not one: a model with batch statistics may refuse a single row, regardless of sizes.
FEW = 2
# False-rejection probability.
CHANCE = 1e-6
# Seven passes of eight rows, forward and backward: the batch twice, permuted, and copies of four of its rows.
COUPLING_ROWS = 8
COUPLING_COPIED = 4


def check_fit(
    checkpoint: Checkpoint, datasets: Mapping[DatasetDeclaration, Dataset], module: nn.Module | None = None
) -> None:
    """Refuse a model that cannot be measured on one of the datasets, or contradicts its registry entry.

    It runs on 32 examples of the dataset it was trained on, on two of others, and on eight to check that rows are
    independent. ``module`` is the module of a checkpoint in memory; None loads the checkpoint's weights.

    Raises:
        UsageError: another number of classes, inputs that it cannot take, probabilities for logits, far fewer right
            answers than expected, or rows that influence each other where the entry does not permit it.
    """
    with blamed(f"model {checkpoint.name!r} cannot be loaded"):
        model = load_model(checkpoint) if module is None else model_of(checkpoint, module)
    task = TASKS[checkpoint.task]
    for declared, dataset in datasets.items():
        is_expected = checkpoint.trained_on == declared.name and task.metric in checkpoint.expected
        # Unreadable examples are reported when their shard fails.
        found = (_readable(dataset, index) for index in range(min(NUM_EXAMPLES, len(dataset))))
        examples = list(islice((each for each in found if each is not None), NUM_EXAMPLES if is_expected else FEW))
        if examples:
            inputs = DOMAINS[declared.domain].rules.collate([example for example, _ in examples])
            outputs = _outputs(checkpoint, model, declared.name, inputs)
            task.rules.check_fit(outputs, _num_classes(declared, dataset), checkpoint.name, declared.name)
            if is_expected and bool(torch.isfinite(outputs).all()):
                targets = torch.stack([torch.as_tensor(target) for _, target in examples])
                _check_expected(
                    checkpoint, declared.name, int((~task.rules.is_fooled(outputs, targets)).sum()), len(examples)
                )
    if not checkpoint.coupled:
        _check_rows_are_apart(checkpoint, model, datasets)


def chance_of_at_most(num_right: int, num_examples: int, share: float) -> float:
    """Return the probability of at most ``num_right`` correct answers, each correct with probability ``share``.

    >>> round(chance_of_at_most(1, 3, 0.5), 3)
    0.5
    """
    chances = (comb(num_examples, k) * share**k * (1 - share) ** (num_examples - k) for k in range(num_right + 1))
    return sum(chances)


def _num_classes(declared: DatasetDeclaration, dataset: Dataset) -> int | None:
    """Return the number of classes stated by the declaration, or else by the files; None if neither has it."""
    if declared.num_classes is not None:
        return declared.num_classes
    return dataset.num_classes if isinstance(dataset, ClassifiedDataset) else None


def _check_expected(checkpoint: Checkpoint, dataset_name: str, num_right: int, num_examples: int) -> None:
    share = checkpoint.expected[TASKS[checkpoint.task].metric or ""]
    if chance_of_at_most(num_right, num_examples, share) < CHANCE:
        raise UsageError(
            f"model {checkpoint.name!r} is right about {num_right} of the first {num_examples} examples of "
            f"{dataset_name!r}, where its registry entry expects {share:.1%}: check its weights, its preprocessing "
            "(mean, std, resize) and the order of its classes, or correct `expected`"
        )


def _check_rows_are_apart(checkpoint: Checkpoint, model: Model, datasets: Mapping[DatasetDeclaration, Dataset]) -> None:
    """Refuse a model whose rows influence each other, on the first dataset with two readable examples.

    The batch has eight rows whatever the suite's batch size; fewer examples are repeated.
    """
    for dataset in datasets.values():
        found = (_readable(dataset, index) for index in range(min(NUM_EXAMPLES, len(dataset))))
        images = [each[0] for each in islice((each for each in found if each is not None), COUPLING_ROWS)]
        if len(images) > 1:
            break
    else:
        return
    rows = [row % len(images) for row in range(COUPLING_ROWS)]
    with _refused(f"model {checkpoint.name!r} cannot take a batch of {COUPLING_ROWS} examples"):
        coupling = measure_coupling(model, torch.stack([images[row] for row in rows]), rows, COUPLING_COPIED)
    if coupling is not None and coupling.is_coupled:
        raise UsageError(f"model {checkpoint.name!r} couples the rows of a batch: {coupling.finding}; {ADVICE}")


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
