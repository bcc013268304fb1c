"""Validation: scores of a model after an epoch of training, on the evaluation split.

The trained weights do not depend on it: random generators and the mode of the model are restored afterwards.
"""

from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from robench.core.declared import Preprocessing
from robench.core.errors import MissingDataError
from robench.core.protocols import Dataset
from robench.datasets import open_dataset
from robench.models.loaded import normalisation_of
from robench.training.base import ValidationScores

# As suites have, so that models whose rows influence each other are scored as they are measured.
BATCH_SIZE = 100


class Validation:
    """Real-valued inputs of a dataset's evaluation split, normalised for a classifier."""

    def __init__(self, dataset: Dataset, preprocessing: Preprocessing, device: torch.device) -> None:
        self._dataset = dataset
        self._device = device
        self._mean, self._std = normalisation_of(preprocessing, device)

    def scores(self, model: nn.Module) -> ValidationScores:
        """Return the scores of a model that takes normalised inputs and is on this device.

        Raises:
            ExampleError: an example cannot be read.
        """
        was_training, num_right, total = model.training, 0, 0.0
        model.eval()
        with torch.random.fork_rng(devices=[self._device] if self._device.type == "cuda" else []), torch.no_grad():
            # What a model draws is the same after every epoch.
            torch.manual_seed(0)
            for start in range(0, len(self._dataset), BATCH_SIZE):
                batch = self._dataset.batch(start, min(start + BATCH_SIZE, len(self._dataset)))
                inputs, targets = batch.inputs.to(self._device), batch.targets.to(self._device)
                logits = model((inputs - self._mean) / self._std)
                num_right += int((logits.argmax(1) == targets).sum())
                total += float(cross_entropy(logits, targets, reduction="sum"))
        model.train(was_training)
        size = len(self._dataset)
        return ValidationScores(top1_accuracy=num_right / size, loss_nats=total / size, num_examples=size)


def validation_on(
    dataset: str,
    preprocessing: Preprocessing,
    *,
    data_root: Path | None = None,
    device: torch.device,
    decode_workers: int = 0,
) -> Validation | None:
    """Return the validation of a training on ``dataset``; None where its evaluation split is not on disk."""
    try:
        opened = open_dataset(dataset, data_root=data_root, preprocessing=preprocessing, decode_workers=decode_workers)
    except MissingDataError:
        return None
    return Validation(opened, preprocessing, device)
