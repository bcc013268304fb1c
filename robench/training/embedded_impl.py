"""Training on embedded data, by the ``training`` fields of a registry entry.

AdamW on the cross-entropy, linear warm-up, cosine decay to zero. The
same entry gives the same bytes on one kind of CPU and one release of torch.
"""

from __future__ import annotations

import time
from functools import partial
from math import cos, pi
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import cross_entropy

from robench.core.errors import DeclarationError
from robench.datasets import open_dataset
from robench.declarations.preprocessing import ImagePreprocessing
from robench.models.build import build
from robench.training.adversarial import adversarial
from robench.training.augmentation import noisy, shifted
from robench.training.auxiliary import check_auxiliary, with_auxiliary
from robench.training.base import EpochReport
from robench.training.embedded import Training
from robench.training.optimization import adamw, reproducible, saved, set_learning_rate
from robench.training.validation import validation_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor, nn

    from robench.core.checkpoint import Checkpoint
    from robench.training.base import Host


def train(
    checkpoint: Checkpoint, host: Host | None = None, on_epoch: Callable[[EpochReport], None] = lambda report: None
) -> dict[str, Tensor]:
    """Train ``checkpoint`` from scratch, and return the state dict.

    Computed on the CPU regardless of ``host``. The caller's random generators and number of threads are restored.

    Raises:
        DeclarationError: the entry has no training fields, or weights auxiliary losses that the model does not have.
    """
    del host
    training = checkpoint.training
    if not isinstance(training, Training) or not isinstance(checkpoint.preprocessing, ImagePreprocessing):
        raise DeclarationError(
            f"checkpoint {checkpoint.name!r} has no 'training' fields; add them to its entry to train it"
        )
    with reproducible(training.seed):
        return _train(checkpoint, training, checkpoint.preprocessing, on_epoch)


def _train(
    checkpoint: Checkpoint,
    training: Training,
    preprocessing: ImagePreprocessing,
    on_epoch: Callable[[EpochReport], None],
) -> dict[str, Tensor]:
    dataset = open_dataset(training.dataset, data_root=None, preprocessing=preprocessing, split="train")
    everything = dataset.batch(0, len(dataset))
    mean, std = (torch.tensor(values).reshape(3, 1, 1) for values in (preprocessing.mean, preprocessing.std))
    model = build(checkpoint.architecture).train()
    check_auxiliary(model, (everything.inputs[:2] - mean) / std, training.auxiliary_weight)
    optimizer = _optimizer(model, training)
    generator = torch.Generator().manual_seed(training.seed)
    validation = validation_on(training.dataset, preprocessing, device=torch.device("cpu"))
    for epoch in range(training.num_epochs):
        started, total = time.perf_counter(), 0.0
        batches = list(_batches(len(dataset), training.batch_size, generator))
        for i, rows in enumerate(batches):
            share = _share_of_peak(training, epoch + i / len(batches))
            set_learning_rate(optimizer, training.learning_rate * share)
            images = shifted(everything.inputs[rows], training.max_shift, generator)
            images, targets = noisy(images, training.noise_scale, generator), everything.targets[rows]
            images = adversarial(images, partial(_loss_at, model, mean, std, targets), training, generator)
            logits, auxiliary = with_auxiliary(model, (images - mean) / std, training.auxiliary_weight)
            loss = cross_entropy(logits, targets, label_smoothing=training.label_smoothing)
            if auxiliary is not None:
                loss = loss + auxiliary.mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * len(rows)
        seconds = time.perf_counter() - started
        on_epoch(
            EpochReport(
                epoch=epoch + 1,
                num_epochs=training.num_epochs,
                loss_nats=total / len(dataset),
                examples_per_second=len(dataset) / seconds,
                validation=None if validation is None else validation.scores(model),
            )
        )
    return saved(model.state_dict(), training.saved_as)


def _loss_at(model: nn.Module, mean: Tensor, std: Tensor, targets: Tensor, images: Tensor) -> Tensor:
    return cross_entropy(model((images - mean) / std), targets)


def _batches(num_examples: int, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    yield from torch.randperm(num_examples, generator=generator).split(batch_size)


def _optimizer(model: nn.Module, training: Training) -> torch.optim.Optimizer:
    """Return AdamW with weight decay for matrices alone: biases, norms and single scalars are excluded."""
    decayed = [value for value in model.parameters() if value.ndim >= 2]
    return adamw(model.parameters(), decayed, learning_rate=training.learning_rate, weight_decay=training.weight_decay)


def _share_of_peak(training: Training, epoch: float) -> float:
    if epoch < training.warmup_epochs:
        return (epoch + 1e-3) / training.warmup_epochs
    progress = (epoch - training.warmup_epochs) / max(1, training.num_epochs - training.warmup_epochs)
    return 0.5 * (1 + cos(pi * progress))
