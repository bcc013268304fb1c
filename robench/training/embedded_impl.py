"""Training on embedded data, by the ``training`` fields of a registry entry.

AdamW on the cross-entropy, linear warm-up, cosine decay to zero. The
same entry gives the same bytes on one kind of CPU and one release of torch.
"""

from collections.abc import Callable
from dataclasses import replace
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
from robench.training.base import EpochReport, Host
from robench.training.epochs import Learner, run_epochs, validation_on
from robench.training.images import Training
from robench.training.optimization import (
    adamw,
    adversarial,
    check_auxiliary,
    noisy,
    reproducible,
    set_learning_rate,
    shifted,
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
        kept = Host(data_root=None)
        kept = kept if host is None else replace(kept, epoch_files=host.epoch_files, on_step=host.on_step)
        return run_epochs(
            EmbeddedLearner(checkpoint, training, domain, kept),
            host=kept,
            key="",
            score=validation_on(training.dataset, checkpoint.preprocessing, device=torch.device("cpu")),
            on_epoch=on_epoch,
        )


class EmbeddedLearner(Learner):
    """Model in training on data in memory; all draws follow each other through all epochs."""

    def __init__(self, checkpoint: Checkpoint, training: Training, domain: Domain, host: Host) -> None:
        dataset = open_dataset(training.dataset, data_root=None, preprocessing=checkpoint.preprocessing, split="train")
        everything = dataset.batch(0, len(dataset))
        self._inputs, self._targets = everything.inputs, everything.targets
        self._mean, self._std = normalisation_of(checkpoint.preprocessing)
        self._limits = domain.rules.limits
        model = build(checkpoint.architecture)
        super().__init__(model, training, _optimizer(model, training), host)
        self.num_examples = len(everything.inputs)
        check_auxiliary(model, self._normalised(self._inputs[:2]), training.auxiliary_weight)
        self._generator = torch.Generator().manual_seed(training.seed)

    def epoch(self, epoch: int) -> tuple[float, int]:
        """Train for an epoch (0-based); return the mean loss in nats and the number of examples."""
        training, total = self.training, 0.0
        batches = torch.randperm(len(self._inputs), generator=self._generator).split(training.batch_size)
        loss_of = partial(cross_entropy, label_smoothing=training.label_smoothing)
        for place, rows in enumerate(batches):
            fraction = _fraction_of_peak(training, epoch + place / len(batches))
            set_learning_rate(self._optimizer, training.learning_rate * fraction)
            inputs, targets = self._augmented(rows), self._targets[rows]
            total += float(self.step(self.model, self._normalised(inputs), targets, loss_of)) * len(rows)
        return total / len(self._inputs), len(self._inputs)

    def _augmented(self, rows: Tensor) -> Tensor:
        """Return shifted, noisy and adversarial inputs (B, ...) of the given rows."""
        inputs = shifted(self._inputs[rows], self.training.max_shift, self._generator)
        inputs = noisy(inputs, self.training.noise_scale, self._generator, self._limits)

        def loss_at(points: Tensor) -> Tensor:
            return cross_entropy(self.model(self._normalised(points)), self._targets[rows])

        return adversarial(inputs, loss_at, self.training, self._generator, self._limits)

    def _normalised(self, inputs: Tensor) -> Tensor:
        return (inputs - self._mean) / self._std


def _optimizer(model: nn.Module, training: Training) -> torch.optim.Optimizer:
    """Return AdamW with weight decay for matrices alone: biases, norms and single scalars are excluded."""
    decayed = [value for value in model.parameters() if value.ndim >= 2]
    return adamw(model.parameters(), decayed, learning_rate=training.learning_rate, weight_decay=training.weight_decay)


def _fraction_of_peak(training: Training, epoch: float) -> float:
    if epoch < training.warmup_epochs:
        return (epoch + 1e-3) / training.warmup_epochs
    progress = (epoch - training.warmup_epochs) / max(1, training.num_epochs - training.warmup_epochs)
    return 0.5 * (1 + cos(pi * progress))
