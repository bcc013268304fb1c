"""What a training that was interrupted goes on from: a whole file beside the weights, written after every epoch.

It holds no state of a random generator: each epoch begins at seeds of its own (``randomness.py``).
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
    """A training between two epochs.

    Attributes:
        key: of all that decides what the training ends with; another one's state is not gone on from.
        num_epochs_done: epochs that are over.
        parts: state dicts of what trains, by name.
    """

    key: str
    num_epochs_done: int
    parts: dict[str, dict[str, Any]]


def state_path(weights: Path) -> Path:
    """Return where the state of the training of a file of weights is kept."""
    return weights.with_name(f"{weights.name}.training")


def write_state(path: Path, state: TrainingState) -> None:
    """Write the state, whole or not at all.

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
    """Return the state that a training of this key left, None where there is none.

    Raises:
        UsageError: the file is of another training, or is none.
    """
    if not path.exists():
        return None
    try:
        with open_regular(path) as file:
            content = torch.load(file, map_location="cpu", weights_only=True)
        state = TrainingState(key=content["key"], num_epochs_done=content["num_epochs_done"], parts=content["parts"])
    # Broad because what torch raises on a file that is none of its own is of any class.
    except Exception as error:
        raise UsageError(
            f"{path} is no state of a training ({type(error).__name__}); remove it to begin anew"
        ) from error
    if state.key != key:
        raise UsageError(
            f"{path} is of a training with other fields, or of another number of images; remove it to begin anew, or"
            " give the same entry, the same --num-epochs and the same images to go on from it"
        )
    return state
