"""Training on embedded data, by the ``training`` fields of a registry entry.

AdamW on the cross-entropy, linear warm-up, cosine decay to zero. The
same entry gives the same bytes on one kind of CPU and one release of torch.
"""

from collections.abc import Callable
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
from robench.training.base import EpochReport, Host
from robench.training.epochs import fit, validation_on
from robench.training.images import Training
from robench.training.optimization import (
    adamw,
    adversarial,
    check_auxiliary,
    noisy,
    reproducible,
    saved,
    shifted,
    with_auxiliary,
)


def train(
    checkpoint: Checkpoint, host: Host | None = None, on_epoch: Callable[[EpochReport], None] = lambda report: None
) -> dict[str, Tensor]:
    """Train ``checkpoint`` from scratch, and return the state dict.

    Computed on the CPU; of ``host``, the files of epochs alone are used. The caller's random generators and number of
    threads are restored.
    """
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
        return _train(checkpoint, training, domain, host, on_epoch)


def _train(
    checkpoint: Checkpoint,
    training: Training,
    domain: Domain,
    host: Host | None,
    on_epoch: Callable[[EpochReport], None],
) -> dict[str, Tensor]:
    preprocessing, limits = checkpoint.preprocessing, domain.rules.limits
    dataset = open_dataset(training.dataset, data_root=None, preprocessing=preprocessing, split="train")
    everything = dataset.batch(0, len(dataset))
    mean, std = normalisation_of(preprocessing)
    model = build(checkpoint.architecture).train()
    check_auxiliary(model, (everything.inputs[:2] - mean) / std, training.auxiliary_weight)
    generator = torch.Generator().manual_seed(training.seed)
    validation = validation_on(training.dataset, preprocessing, device=torch.device("cpu"))

    def loss_of(rows: Tensor) -> Tensor:
        inputs = shifted(everything.inputs[rows], training.max_shift, generator)
        inputs, targets = noisy(inputs, training.noise_scale, generator, limits), everything.targets[rows]

        def loss_at(points: Tensor) -> Tensor:
            return cross_entropy(model((points - mean) / std), targets)

        inputs = adversarial(inputs, loss_at, training, generator, limits)
        logits, auxiliary = with_auxiliary(model, (inputs - mean) / std, training.auxiliary_weight)
        return cross_entropy(logits, targets, label_smoothing=training.label_smoothing) + auxiliary

    def weights() -> dict[str, Tensor]:
        return saved(model.state_dict(), training.saved_as)

    fit(
        _optimizer(model, training),
        training.num_epochs,
        batches=lambda: torch.randperm(len(dataset), generator=generator).split(training.batch_size),
        loss_of=loss_of,
        rate_at=lambda epoch: training.learning_rate * _fraction_of_peak(training, epoch),
        scores=lambda: None if validation is None else validation.scores(model),
        host=host,
        weights=weights,
        on_epoch=on_epoch,
    )
    return weights()


def _optimizer(model: nn.Module, training: Training) -> torch.optim.Optimizer:
    """Return AdamW with weight decay for matrices alone: biases, norms and single scalars are excluded."""
    decayed = [value for value in model.parameters() if value.ndim >= 2]
    return adamw(model.parameters(), decayed, learning_rate=training.learning_rate, weight_decay=training.weight_decay)


def _fraction_of_peak(training: Training, epoch: float) -> float:
    if epoch < training.warmup_epochs:
        return (epoch + 1e-3) / training.warmup_epochs
    progress = (epoch - training.warmup_epochs) / max(1, training.num_epochs - training.warmup_epochs)
    return 0.5 * (1 + cos(pi * progress))
