"""Loops over the epochs of a training, resumed from a stored state or not; scores and weights after each epoch.

The state for resuming is a complete file beside the weights, written after every epoch, and in long ones within them
(``steps.py``). It contains no state of a random generator where each epoch starts from its own seeds
(``optimization.py``).
"""

from __future__ import annotations

import io
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from robench.core.checkpoint import Checkpoint
from robench.core.declared import Preprocessing
from robench.core.errors import ContractError, DeclarationError, MissingDataError, StoreUnwritableError, UsageError
from robench.core.files import open_regular, write_whole
from robench.core.identity import key_of
from robench.core.protocols import Batch
from robench.core.shard import EXACT_DTYPE
from robench.datasets import DATASETS, open_dataset
from robench.models.loaded import Normaliser
from robench.training.base import NO_PENALTY, EpochReport, Host, StepReport, ValidationScores
from robench.training.optimization import evaluating, in_precision, saved, seed_for, with_auxiliary
from robench.training.spectral import SpectralPenalty

# As suites have, so that models whose rows influence each other are scored as they are measured.
BATCH_SIZE = 100


class Learner(ABC):
    """Model in training with its optimiser: what all recipes share.

    Attributes:
        model: the model, in training mode.
        training: the declared recipe; its fields ``clip_grad``, ``auxiliary_weight``, ``spectral_penalty`` and
            ``saved_as`` are read where it has them.
        num_examples: number of examples of an epoch, None where it is not known; ``num_done``: number of those of the
            epoch in progress that are learned.
    """

    num_examples: int | None = None

    # Any: declarations differ in their fields.
    def __init__(self, model: nn.Module, training: Any, optimizer: torch.optim.Optimizer, host: Host) -> None:
        self.model = model.train()
        self.training = training
        self._optimizer = optimizer
        self._device = torch.device(host.device)
        self._micro_batch_size = host.micro_batch_size or training.batch_size
        self._precision = host.precision
        weights = getattr(training, "spectral_penalty", NO_PENALTY)
        self._spectral = SpectralPenalty(model, weights, training.seed) if any(weights) else None
        self._on_step = host.on_step
        self._epoch, self.num_done = 0, 0

    def begin(self, epoch: int, *, is_resumed: bool = False) -> None:
        """Begin an epoch (0-based), or the rest of it, as far as reports of steps are concerned."""
        self._epoch = epoch
        self._report(is_resumed=is_resumed)

    def _report(self, **further: Any) -> None:
        self._on_step(
            StepReport(
                epoch=self._epoch + 1,
                num_epochs=self.training.total_epochs,
                num_done=self.num_done,
                num_examples=self.num_examples,
                **further,
            )
        )

    @abstractmethod
    def epoch(self, epoch: int) -> tuple[float, int]:
        """Train for an epoch (0-based), or the rest of it; return the mean loss in nats and the number of examples."""

    def step(
        self,
        outputs_of: Callable[..., Tensor],
        inputs: Tensor,
        targets: Tensor,
        loss_of: Callable[[Tensor, Tensor], Tensor],
    ) -> Tensor:
        """Take a step of the optimiser on a batch (B, ...), in micro-batches, and return its mean loss.

        ``outputs_of`` is the model, or a method of it; ``inputs`` are normalised, and ``loss_of`` is the mean loss of
        outputs and targets.
        """
        self._optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=inputs.device)
        size = self._micro_batch_size
        for part, part_targets in zip(inputs.split(size), targets.split(size), strict=True):
            with in_precision(inputs.device, self._precision):
                outputs, auxiliary = with_auxiliary(outputs_of, part, self.training.auxiliary_weight)
                weighted = (loss_of(outputs.float(), part_targets) + auxiliary) * (len(part) / len(inputs))
            weighted.backward()
            total += weighted.detach()
        if self._spectral is not None:
            penalty = self._spectral()
            penalty.backward()
            total += penalty.detach()
        clip_grad = getattr(self.training, "clip_grad", None)
        if clip_grad is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), clip_grad)
        self._optimizer.step()
        self.num_done += len(inputs)
        self._report(loss_nats=total.item)
        return total

    @property
    def published(self) -> nn.Module:
        """Return the model that is scored, and whose weights are published."""
        return self.model

    def weights(self) -> dict[str, Tensor]:
        """Return the weights that would be published now, on the CPU."""
        return saved(weights_of(self.published), getattr(self.training, "saved_as", "float32"))

    def parts(self) -> dict[str, dict[str, Any]]:
        """Return state dicts of everything that changes, for ``restore``."""
        spectral = {} if self._spectral is None else {"spectral": self._spectral.state()}
        return {"model": self.model.state_dict(), "optimizer": self._optimizer.state_dict(), **spectral}

    def restore(self, parts: dict[str, dict[str, Any]]) -> None:
        """Restore the state from ``parts``."""
        self.model.load_state_dict(parts["model"])
        self._optimizer.load_state_dict(parts["optimizer"])
        if self._spectral is not None:
            self._spectral.restore(parts["spectral"])


# Returns the scores of a model on the evaluation split; None where there are not enough data.
Score = Callable[[nn.Module], ValidationScores | None]


def run_epochs(
    learner: Learner,
    *,
    host: Host,
    key: str,
    score: Score | None,
    on_epoch: Callable[[EpochReport], None],
) -> dict[str, Tensor]:
    """Train until all epochs are complete, from the stored state if there is one; return the published weights.

    A stored state must have the ``key``, a digest of all that decides it but the host's precision. Of a training with
    ``evaluate_every``, every so many epochs and the last have scores.

    Raises:
        ContractError: the loss is no longer a finite number.
        UsageError: the stored state is of another training.
        StoreUnwritableError: the state, or the weights after an epoch, cannot be written.
    """
    num_epochs = learner.training.total_epochs
    kept = None if host.state_path is None else read_state(host.state_path, key_on(host, key))
    if kept is not None:
        learner.restore(kept.parts)
    else:
        _keep(learner, 0, host)
    first = 0 if kept is None else kept.num_epochs_done
    for epoch in range(first, num_epochs):
        started = time.perf_counter()
        learner.begin(epoch, is_resumed=kept is not None and epoch == first)
        loss, num_examples = learner.epoch(epoch)
        learner.num_done = 0
        if not isfinite(loss):
            raise ContractError(
                f"the loss of epoch {epoch + 1} is {loss}: training has diverged. Lower learning_rate, or"
                " set clip_grad if the recipe has it"
            )
        seconds = time.perf_counter() - started
        # Before the state is stored, so that an interruption leaves no epoch without its scores and weights.
        is_scored = (epoch + 1) % getattr(learner.training, "evaluate_every", 1) == 0 or epoch + 1 == num_epochs
        scores = score(learner.published) if score is not None and is_scored else None
        _keep(learner, epoch + 1, host)
        store_state(learner, epoch + 1, host, key)
        on_epoch(
            EpochReport(
                epoch=epoch + 1,
                num_epochs=num_epochs,
                loss_nats=loss,
                examples_per_second=num_examples / seconds,
                validation=scores,
            )
        )
    return learner.weights()


def key_on(host: Host, key: str) -> str:
    """Return the key of the state of a training with this key on a host: another one for another precision."""
    return key if host.precision == EXACT_DTYPE else key_of([key, host.precision])


def store_state(learner: Learner, num_epochs_done: int, host: Host, key: str) -> None:
    """Write the state of a training after whole epochs, or within the next one, to the host's file if it has one."""
    if host.state_path is not None:
        state = TrainingState(key=key_on(host, key), num_epochs_done=num_epochs_done, parts=learner.parts())
        write_state(host.state_path, state)


def _keep(learner: Learner, epoch: int, host: Host) -> None:
    if host.epoch_files is not None:
        host.epoch_files.keep(epoch, learner.weights())


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return the state dict of a model, on the CPU."""
    return {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingState:
    """State of a training after a number of whole epochs, and perhaps steps of the next, which ``parts`` tell.

    Attributes:
        key: digest of all that decides the result.
    """

    key: str
    num_epochs_done: int
    parts: dict[str, dict[str, Any]]


def state_path(weights: Path) -> Path:
    """Return the path of the training state for a file of weights."""
    return weights.with_name(f"{weights.name}.training")


def write_state(path: Path, state: TrainingState) -> None:
    """Write the state atomically."""
    content = io.BytesIO()
    torch.save({"key": state.key, "num_epochs_done": state.num_epochs_done, "parts": state.parts}, content)
    try:
        write_whole(path, content.getvalue())
    except OSError as error:
        raise StoreUnwritableError(f"cannot write the state of training to {path}: {error.strerror}") from error


def read_state(path: Path, key: str) -> TrainingState | None:
    """Return the stored state of a training with this key, None without one."""
    if not path.exists():
        return None
    try:
        with open_regular(path) as file:
            content = torch.load(file, map_location="cpu", weights_only=True)
        state = TrainingState(key=content["key"], num_epochs_done=content["num_epochs_done"], parts=content["parts"])
    # Broad because torch may raise any error on a foreign file.
    except Exception as error:
        raise UsageError(
            f"{path} is not the state of a training ({type(error).__name__}); remove it to start again"
        ) from error
    if state.key != key:
        raise UsageError(
            f"{path} is of a training with other fields, other data or another precision; remove it to start again, or"
            " give the same entry, --num-epochs, --precision and data to resume it"
        )
    return state


class Scored(Protocol):
    """Examples to score: a dataset, or a part of one."""

    def __len__(self) -> int: ...

    def batch(self, start: int, stop: int) -> Batch:
        """Return examples [start, stop)."""


class Part:
    """Some rows of examples in memory, as ``Validation`` reads them."""

    def __init__(self, read: Callable[[Tensor], tuple[Tensor, Tensor]], rows: Tensor) -> None:
        self._read, self._rows = read, rows

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, start: int, stop: int) -> Batch:
        """Return examples [start, stop), without ids."""
        inputs, targets = self._read(self._rows[start:stop])
        return Batch(ids=(), inputs=inputs, targets=targets)


def split_rows(num_rows: int, held_out: float, seed: int) -> tuple[Tensor, Tensor]:
    """Return the rows that are learned from, in order, and those held out, a proportion of all drawn by the seed.

    Raises:
        DeclarationError: the proportion is above 0, and one of both has no row.
    """
    order = torch.randperm(num_rows, generator=torch.Generator().manual_seed(seed_for(seed, "held-out", 0)))
    num_held_out = round(held_out * num_rows)
    if held_out and not 0 < num_held_out < num_rows:
        raise DeclarationError(
            f"held_out {held_out:g} of {num_rows:,} training examples are {num_held_out:,}: hold out at least one, and "
            "not all"
        )
    return order[num_held_out:].sort().values, order[:num_held_out]


class Validation:
    """Examples of a dataset, normalised for a classifier."""

    def __init__(self, dataset: Scored, preprocessing: Preprocessing, device: torch.device) -> None:
        self._dataset = dataset
        self._device = device
        self._preprocessing = preprocessing

    def scores(self, model: nn.Module) -> ValidationScores:
        """Return the scores of a model that takes normalised inputs and is on this device."""
        num_right, total = 0, 0.0
        normaliser = Normaliser(model, self._preprocessing, self._device)
        with evaluating(model, self._device):
            for start in range(0, len(self._dataset), BATCH_SIZE):
                batch = self._dataset.batch(start, min(start + BATCH_SIZE, len(self._dataset)))
                inputs, targets = batch.inputs.to(self._device), batch.targets.to(self._device)
                normalised, others = normaliser(inputs)
                logits = model(normalised, **others)
                num_right += int((logits.argmax(1) == targets).sum())
                total += float(cross_entropy(logits, targets, reduction="sum"))
        size = len(self._dataset)
        return ValidationScores(top1_accuracy=num_right / size, loss_nats=total / size, num_examples=size)


def validation_on(
    dataset: str,
    preprocessing: Preprocessing,
    *,
    data_root: Path | None = None,
    device: torch.device,
    decode_workers: int = 0,
) -> Score | None:
    """Return the function that scores models in a training; None where its evaluation split is not on disk."""
    try:
        opened = open_dataset(dataset, data_root=data_root, preprocessing=preprocessing, decode_workers=decode_workers)
    except MissingDataError:
        return None
    return Validation(opened, preprocessing, device).scores


def check_classes(checkpoint: Checkpoint) -> None:
    """Refuse an architecture with another number of classes than the dataset of its training."""
    dataset = checkpoint.training.dataset if checkpoint.training else ""
    found, wanted = (getattr(each, "num_classes", None) for each in (checkpoint.architecture, DATASETS.get(dataset)))
    if None not in (found, wanted) and found != wanted:
        raise DeclarationError(
            f"checkpoint {checkpoint.name!r} has num_classes {found} in its architecture, and dataset {dataset!r} has"
            f" {wanted} classes: correct num_classes"
        )
