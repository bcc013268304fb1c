"""Training on embedded data, by the ``training`` fields of a registry entry.

AdamW on the cross-entropy, linear warm-up, cosine decay to zero. The
same entry gives the same bytes on one kind of CPU and one release of torch.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from math import cos, pi

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from robench.core.checkpoint import Checkpoint
from robench.core.errors import DeclarationError
from robench.datasets import open_dataset
from robench.domains import DOMAINS, Domain
from robench.domains.images import IMAGES
from robench.models.build import build
from robench.models.loaded import normalisation_of
from robench.training.augmentation import adversarial, noisy, shifted
from robench.training.base import EpochReport, Host
from robench.training.embedded import Training
from robench.training.optimization import adamw, check_auxiliary, reproducible, saved, set_learning_rate, with_auxiliary
from robench.training.validation import validation_on


def train(
    checkpoint: Checkpoint, host: Host | None = None, on_epoch: Callable[[EpochReport], None] = lambda report: None
) -> dict[str, Tensor]:
    """Train ``checkpoint`` from scratch, and return the state dict.

    Computed on the CPU regardless of ``host``. The caller's random generators and number of threads are restored.

    Raises:
        DeclarationError: the entry has no such training, inputs are not real numbers, or the model lacks
            auxiliary losses that are weighted.
    """
    del host
    training = checkpoint.training
    if not isinstance(training, Training):
        found = "has no 'training' fields" if training is None else f"has a training of kind {training.kind!r}"
        raise DeclarationError(
            f"checkpoint {checkpoint.name!r} {found}; add those of kind {Training.kind!r} to its entry"
        )
    domain = DOMAINS[checkpoint.preprocessing.domain]
    if not domain.is_real_valued:
        raise DeclarationError(
            f"checkpoint {checkpoint.name!r} is of {domain.name}, and a training of kind {Training.kind!r} is of inputs"
            " of real numbers: state the training of another kind"
        )
    if training.max_shift and domain.axes != IMAGES.axes:
        axes = ", ".join(domain.axes) or "unknown"
        raise DeclarationError(
            f"checkpoint {checkpoint.name!r} has training.max_shift {training.max_shift}, which shifts images, and"
            f" inputs of the axes {axes}: leave it out"
        )
    with reproducible(training.seed):
        return _train(checkpoint, training, domain, on_epoch)


def _train(
    checkpoint: Checkpoint, training: Training, domain: Domain, on_epoch: Callable[[EpochReport], None]
) -> dict[str, Tensor]:
    preprocessing, limits = checkpoint.preprocessing, domain.rules.limits
    dataset = open_dataset(training.dataset, data_root=None, preprocessing=preprocessing, split="train")
    everything = dataset.batch(0, len(dataset))
    mean, std = normalisation_of(preprocessing)
    model = build(checkpoint.architecture).train()
    check_auxiliary(model, (everything.inputs[:2] - mean) / std, training.auxiliary_weight)
    optimizer = _optimizer(model, training)
    generator = torch.Generator().manual_seed(training.seed)
    validation = validation_on(training.dataset, preprocessing, device=torch.device("cpu"))
    for epoch in range(training.num_epochs):
        started, total = time.perf_counter(), 0.0
        batches = list(_batches(len(dataset), training.batch_size, generator))
        for i, rows in enumerate(batches):
            factor = _fraction_of_peak(training, epoch + i / len(batches))
            set_learning_rate(optimizer, training.learning_rate * factor)
            inputs = shifted(everything.inputs[rows], training.max_shift, generator)
            inputs, targets = noisy(inputs, training.noise_scale, generator, limits), everything.targets[rows]
            inputs = adversarial(inputs, partial(_loss_at, model, mean, std, targets), training, generator, limits)
            logits, auxiliary = with_auxiliary(model, (inputs - mean) / std, training.auxiliary_weight)
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


def _loss_at(model: nn.Module, mean: Tensor, std: Tensor, targets: Tensor, inputs: Tensor) -> Tensor:
    return cross_entropy(model((inputs - mean) / std), targets)


def _batches(num_examples: int, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    yield from torch.randperm(num_examples, generator=generator).split(batch_size)


def _optimizer(model: nn.Module, training: Training) -> torch.optim.Optimizer:
    """Return AdamW with weight decay for matrices alone: biases, norms and single scalars are excluded."""
    decayed = [value for value in model.parameters() if value.ndim >= 2]
    return adamw(model.parameters(), decayed, learning_rate=training.learning_rate, weight_decay=training.weight_decay)


def _fraction_of_peak(training: Training, epoch: float) -> float:
    if epoch < training.warmup_epochs:
        return (epoch + 1e-3) / training.warmup_epochs
    progress = (epoch - training.warmup_epochs) / max(1, training.num_epochs - training.warmup_epochs)
    return 0.5 * (1 + cos(pi * progress))
