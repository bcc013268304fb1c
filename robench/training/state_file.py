"""Training state for resuming after an interruption: a complete file beside the weights, written after every epoch.

It contains no state of a random generator: each epoch starts from its own seeds (``randomness.py``).
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from robench.core.errors import StoreUnwritableError, UsageError
from robench.core.files import open_regular, write_whole

if TYPE_CHECKING:
    from pathlib import Path


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
    """Write the state atomically.

    Raises:
        StoreUnwritableError: it cannot be written.
    """
    content = io.BytesIO()
    torch.save({"key": state.key, "num_epochs_done": state.num_epochs_done, "parts": state.parts}, content)
    try:
        write_whole(path, content.getvalue())
    except OSError as error:
        raise StoreUnwritableError(f"cannot write the state of training to {path}: {error.strerror}") from error


def read_state(path: Path, key: str) -> TrainingState | None:
    """Return the stored state of a training with this key, None if there is none.

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
