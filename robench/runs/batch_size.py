"""Proposal of a batch size for a model on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from robench.core.containment import Contained
from robench.core.errors import MissingDataError, RobenchError, described
from robench.core.shard import EXACT_DTYPE
from robench.datasets import open_dataset
from robench.declarations.preprocessing import ImagePreprocessing
from robench.declare import find_checkpoints, find_datasets
from robench.evaluation.memory import largest_fitting_power
from robench.models.loading import load_model
from robench.runs.devices import AUTO, choose_workers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from torch import Tensor

    from robench.core.checkpoint import Checkpoint
    from robench.core.declared import DatasetDeclaration

# Larger batches are hardly faster, and a CPU begins to swap long before it refuses.
MOST_ROWS = 1024
MOST_ROWS_ON_CPU = 64


def batch_size_text(
    name: str, registries: Sequence[Path], device: str, precision: str, data_root: Path | None = None
) -> str:
    """Return the largest batch size, a power of two, of which a forward and a backward pass fits, in a sentence.

    The pass has an example of the data that the model was trained on, or where that is absent an image of the size that
    its preprocessing cuts.

    Raises:
        RobenchError: the model cannot be loaded, there is no such device or example, or not even one example fits.
    """
    (checkpoint,) = find_checkpoints([name], registries)
    chosen = choose_workers(device, 1, AUTO).devices[0]
    inputs = _example(checkpoint, find_datasets(registries), data_root)
    model = load_model(checkpoint, chosen)
    if precision != EXACT_DTYPE:
        model = model.in_precision(precision)
    most = MOST_ROWS_ON_CPU if chosen == "cpu" else MOST_ROWS
    try:
        with Contained():
            fitting = largest_fitting_power(model, inputs, most)
    except Exception as error:
        raise RobenchError(f"a pass on {chosen} failed: {described(error)}") from error
    if fitting is None:
        raise RobenchError(f"not even one example fits into the memory of {chosen}; use a device with more")
    beyond = "the most that is tried" if fitting * 2 > most else f"{2 * fitting} do not fit"
    return f"{fitting} on {chosen} in {precision} ({beyond}); batch_size of a suite is part of its results' keys"


def _example(checkpoint: Checkpoint, datasets: Mapping[str, DatasetDeclaration], data_root: Path | None) -> Tensor:
    """Return one example as a batch (1, ...)."""
    preprocessing = checkpoint.preprocessing
    declared = datasets.get(checkpoint.trained_on or "")
    try:
        if declared is not None:
            return open_dataset(declared, data_root=data_root, preprocessing=preprocessing).batch(0, 1).inputs
    except MissingDataError:
        if not isinstance(preprocessing, ImagePreprocessing) or preprocessing.crop is None:
            raise
    if isinstance(preprocessing, ImagePreprocessing) and preprocessing.crop is not None:
        return torch.full((1, preprocessing.num_channels or 3, preprocessing.crop, preprocessing.crop), 0.5)
    raise RobenchError("the size of its inputs is unknown: say trained_on in its entry")
