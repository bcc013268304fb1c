"""Loops over the epochs of a training, resumed from a stored state or not; scores and weights after each epoch.

The state for resuming is a complete file beside the weights, written after every epoch, and in long ones within them
(``steps.py``). It contains no state of a random generator where each epoch starts from its own seeds
(``optimization.py``).
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from robench.core.declared import Preprocessing
from robench.core.errors import ContractError, MissingDataError, StoreUnwritableError, UsageError
from robench.core.files import open_regular, write_whole
from robench.core.identity import key_of
from robench.core.protocols import Batch
from robench.core.shard import EXACT_DTYPE
from robench.datasets import open_dataset
from robench.models.loaded import Normaliser
from robench.training.base import EpochReport, Host, TrainingPrecision, ValidationScores
from robench.training.optimization import evaluating, in_precision, set_learning_rate, with_auxiliary

# As suites have, so that models whose rows influence each other are scored as they are measured.
BATCH_SIZE = 100


class Learner(Protocol):
    """Model in training, with all state that changes from epoch to epoch."""

    @property
    def published(self) -> nn.Module:
        """Return the model that is published."""

    def parts(self) -> dict[str, dict[str, Any]]:
        """Return state dicts of everything that changes, for ``restore``."""

    def restore(self, parts: dict[str, dict[str, Any]]) -> None:
        """Restore the state from ``parts``."""


class Scoring(Protocol):
    """Scores of models on the evaluation split."""

    def scores(self, model: nn.Module) -> ValidationScores | None:
        """Return the scores of a model; None where there are not enough data."""


def run_epochs(
    learner: Learner,
    learn: Callable[[int], tuple[float, int]],
    num_epochs: int,
    *,
    host: Host,
    key: str,
    validation: Scoring | None,
    weights: Callable[[], Mapping[str, Tensor]],
    on_epoch: Callable[[EpochReport], None],
) -> None:
    """Train until ``num_epochs`` are complete, from the stored state if there is one.

    ``learn`` trains the learner for one epoch (0-based), from where its state is, and returns the mean loss in nats and
    the number of examples that it took. A stored state must have the ``key``, a digest of all that decides it but the
    host's precision. ``weights`` returns what would be published now.

    Raises:
        ContractError: the loss is no longer a finite number.
        UsageError: the stored state is of another training.
        StoreUnwritableError: the state, or the weights after an epoch, cannot be written.
    """
    kept = None if host.state_path is None else read_state(host.state_path, key_on(host, key))
    if kept is not None:
        learner.restore(kept.parts)
    else:
        _keep(host, 0, weights)
    for epoch in range(0 if kept is None else kept.num_epochs_done, num_epochs):
        started = time.perf_counter()
        loss, num_examples = learn(epoch)
        if not isfinite(loss):
            raise ContractError(
                f"the loss of epoch {epoch + 1} is {loss}: training has diverged. Lower learning_rate, or"
                " set clip_grad if the recipe has it"
            )
        seconds = time.perf_counter() - started
        # Before the state is stored, so that an interruption leaves no epoch without its scores and weights.
        scores = None if validation is None else validation.scores(learner.published)
        _keep(host, epoch + 1, weights)
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


def key_on(host: Host, key: str) -> str:
    """Return the key of the state of a training with this key on a host: another one for another precision."""
    return key if host.precision == EXACT_DTYPE else key_of([key, host.precision])


def store_state(learner: Learner, num_epochs_done: int, host: Host, key: str) -> None:
    """Write the state of a training after whole epochs, or within the next one, to the host's file if it has one."""
    if host.state_path is not None:
        state = TrainingState(key=key_on(host, key), num_epochs_done=num_epochs_done, parts=learner.parts())
        write_state(host.state_path, state)


def fit(
    optimizer: torch.optim.Optimizer,
    num_epochs: int,
    *,
    batches: Callable[[], Sequence[Tensor]],
    loss_of: Callable[[Tensor], Tensor],
    rate_at: Callable[[float], float],
    scores: Callable[[], ValidationScores | None],
    host: Host | None,
    weights: Callable[[], Mapping[str, Tensor]],
    on_epoch: Callable[[EpochReport], None],
) -> None:
    """Train a model on the CPU, from its first epoch to its last.

    ``batches`` draws the batches of an epoch, the rows of each, and ``loss_of`` is the mean loss of one; ``rate_at`` is
    the learning rate after a number of epochs, such as 1.5. ``weights`` returns what would be published now.
    """
    _keep(host, 0, weights)
    for epoch in range(num_epochs):
        started, total, count = time.perf_counter(), 0.0, 0
        of_epoch = batches()
        for place, rows in enumerate(of_epoch):
            set_learning_rate(optimizer, rate_at(epoch + place / len(of_epoch)))
            loss = loss_of(rows)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total, count = total + float(loss.detach()) * len(rows), count + len(rows)
        seconds = time.perf_counter() - started
        _keep(host, epoch + 1, weights)
        on_epoch(
            EpochReport(
                epoch=epoch + 1,
                num_epochs=num_epochs,
                loss_nats=total / count,
                examples_per_second=count / seconds,
                validation=scores(),
            )
        )


def _keep(host: Host | None, epoch: int, weights: Callable[[], Mapping[str, Tensor]]) -> None:
    if host is not None and host.epoch_files is not None:
        host.epoch_files.keep(epoch, weights())


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return the state dict of a model, on the CPU."""
    return {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}


def accumulate_gradients(
    model: Callable[..., Tensor],
    inputs: Tensor,
    targets: Tensor,
    loss_of: Callable[[Tensor, Tensor], Tensor],
    *,
    micro_batch_size: int,
    auxiliary_weight: float,
    precision: TrainingPrecision = EXACT_DTYPE,
) -> Tensor:
    """Add the gradients of a batch's mean loss, computed in micro-batches, to the parameters; return the loss.

    ``model`` is one, or a method of it; ``inputs`` are normalised, (B, ...), and ``loss_of`` is the mean loss of
    outputs and targets (B, ...).
    """
    total = torch.zeros((), device=inputs.device)
    for part, part_targets in zip(inputs.split(micro_batch_size), targets.split(micro_batch_size), strict=True):
        with in_precision(inputs.device, precision):
            outputs, auxiliary = with_auxiliary(model, part, auxiliary_weight)
            weighted = (loss_of(outputs.float(), part_targets) + auxiliary) * (len(part) / len(inputs))
        weighted.backward()
        total += weighted.detach()
    return total


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
) -> Validation | None:
    """Return the validation of a training on ``dataset``; None where its evaluation split is not on disk."""
    try:
        opened = open_dataset(dataset, data_root=data_root, preprocessing=preprocessing, decode_workers=decode_workers)
    except MissingDataError:
        return None
    return Validation(opened, preprocessing, device)
