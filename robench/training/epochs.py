"""Loop over the epochs of a training that resumes after the last complete one, and one step of an optimiser.

The state for resuming is a complete file beside the weights, written after every epoch. It contains no state of a
random generator: each epoch starts from its own seeds (``optimization.py``).
"""

import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from robench.core.errors import ContractError, StoreUnwritableError, UsageError
from robench.core.files import open_regular, write_whole
from robench.training.base import EpochReport, Host
from robench.training.optimization import with_auxiliary
from robench.training.validation import Validation


class Learner(Protocol):
    """Model in training, with all state that changes from epoch to epoch."""

    @property
    def published(self) -> nn.Module:
        """Return the model that is published."""

    def parts(self) -> dict[str, dict[str, Any]]:
        """Return state dicts of everything that changes, for ``restore``."""

    def restore(self, parts: dict[str, dict[str, Any]]) -> None:
        """Restore the state from ``parts``."""


def run_epochs(
    learner: Learner,
    learn: Callable[[int], tuple[float, int]],
    num_epochs: int,
    *,
    host: Host,
    key: str,
    validation: Validation | None,
    on_epoch: Callable[[EpochReport], None],
) -> None:
    """Train until ``num_epochs`` are complete, from the stored state if there is one.

    Args:
        learner: the model in training.
        learn: function that trains it for one epoch (0-based), whose draws begin at seeds of that epoch; it returns the
            mean loss in nats and the number of examples.
        num_epochs: number of epochs of the whole training.
        host: where the state is stored after each epoch.
        key: digest of everything that determines the result, which a stored state must have.
        validation: data for scores after each epoch, None for none.
        on_epoch: called after each epoch.

    Raises:
        ContractError: the loss is no longer a finite number.
        UsageError: the stored state is of another training.
        StoreUnwritableError: the state cannot be written.
    """
    kept = None if host.state_path is None else read_state(host.state_path, key)
    if kept is not None:
        learner.restore(kept.parts)
    for epoch in range(0 if kept is None else kept.num_epochs_done, num_epochs):
        started = time.perf_counter()
        loss, num_examples = learn(epoch)
        if not isfinite(loss):
            raise ContractError(
                f"the loss of epoch {epoch + 1} is {loss}: training has diverged. Lower learning_rate, or"
                " set clip_grad if the recipe has it"
            )
        seconds = time.perf_counter() - started
        # Before the state is stored, so that an interruption leaves no epoch without its scores.
        scores = None if validation is None else validation.scores(learner.published)
        if host.state_path is not None:
            write_state(host.state_path, TrainingState(key=key, num_epochs_done=epoch + 1, parts=learner.parts()))
        on_epoch(
            EpochReport(
                epoch=epoch + 1,
                num_epochs=num_epochs,
                loss_nats=loss,
                examples_per_second=num_examples / seconds,
                validation=scores,
            )
        )


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return the state dict of a model, on the CPU."""
    return {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}


def accumulate_gradients(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    loss_of: Callable[[Tensor, Tensor], Tensor],
    *,
    micro_batch_size: int,
    auxiliary_weight: float,
) -> Tensor:
    """Add the gradients of a batch's mean loss, computed in micro-batches, to the parameters; return the loss.

    Inputs (B, ...) are normalised; ``loss_of`` returns the mean loss of outputs and targets.
    """
    total = torch.zeros((), device=inputs.device)
    for part, part_targets in zip(inputs.split(micro_batch_size), targets.split(micro_batch_size), strict=True):
        outputs, auxiliary = with_auxiliary(model, part, auxiliary_weight)
        loss = loss_of(outputs, part_targets)
        if auxiliary is not None:
            loss = loss + auxiliary.mean()
        weighted = loss * (len(part) / len(inputs))
        weighted.backward()
        total += weighted.detach()
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingState:
    """State of a training between two epochs.

    Attributes:
        key: digest of everything that determines the result; a state with another key is refused.
        num_epochs_done: number of completed epochs.
        parts: state dicts by name.
    """

    key: str
    num_epochs_done: int
    parts: dict[str, dict[str, Any]]


def state_path(weights: Path) -> Path:
    """Return the path of the training state for a file of weights."""
    return weights.with_name(f"{weights.name}.training")


def write_state(path: Path, state: TrainingState) -> None:
    """Write the state atomically. Raises StoreUnwritableError: it cannot be written."""
    content = io.BytesIO()
    torch.save({"key": state.key, "num_epochs_done": state.num_epochs_done, "parts": state.parts}, content)
    try:
        write_whole(path, content.getvalue())
    except OSError as error:
        raise StoreUnwritableError(f"cannot write the state of training to {path}: {error.strerror}") from error


def read_state(path: Path, key: str) -> TrainingState | None:
    """Return the stored state of a training with this key, or None.

    Raises:
        UsageError: the file is of another training, or not a training state.
    """
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
            f"{path} is of a training with other fields, or of another number of images; remove it to start again, or"
            " give the same entry, the same --num-epochs and the same images to resume it"
        )
    return state
