"""Training history: losses and validation scores by epoch, a JSON file beside the weights, complete after every epoch.

The file has no times, so that equal weights come with equal histories.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from robench.core.errors import StoreUnwritableError, UsageError
from robench.core.files import read_regular, write_whole
from robench.core.shard import EXACT_DTYPE
from robench.training.base import EpochReport, TrainingPrecision, ValidationScores

_MAX_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """Completed epoch of a training, counted from 1; see ``EpochReport``."""

    epoch: int
    loss_nats: float
    validation: ValidationScores | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingHistory:
    """History of one training as kept, of at least one epoch, ascending.

    Attributes:
        checkpoint: name of the trained entry; ``dataset``: name of its training and validation data.
        num_epochs: number of epochs of the whole training, not only of those so far.
        precision: that of the passes of training; a file states it where it is not float32.
    """

    checkpoint: str
    dataset: str
    num_epochs: int
    epochs: tuple[Epoch, ...]
    precision: TrainingPrecision = EXACT_DTYPE


def history_path(weights: Path) -> Path:
    """Return where the history of the training of a file of weights is kept."""
    return weights.with_suffix(".history.json")


def read_history(path: Path) -> TrainingHistory:
    """Return the history in a file. Raises UsageError: the file cannot be read, or is not a history."""
    try:
        history = TypeAdapter(TrainingHistory).validate_python(json.loads(read_regular(path, _MAX_BYTES)))
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}); name a file that 'robench train' kept") from error
    # Of JSON, and of pydantic.
    except (ValueError, RecursionError) as error:
        raise _no_history(path) from error
    epochs = [each.epoch for each in history.epochs]
    if not epochs or epochs != sorted(set(epochs)):
        raise _no_history(path)
    return history


def _no_history(path: Path) -> UsageError:
    return UsageError(f"{path} is not a training history; name a .history.json that 'robench train' kept")


class History:
    """History of one training, which continues the history of an interrupted one of the same checkpoint."""

    def __init__(
        self, path: Path, *, checkpoint: str, dataset: str, precision: TrainingPrecision = EXACT_DTYPE
    ) -> None:
        self._path = path
        stated = {} if precision == EXACT_DTYPE else {"precision": precision}
        self._of = {"checkpoint": checkpoint, "dataset": dataset, **stated}

    def add(self, report: EpochReport) -> None:
        """Append an epoch; later epochs in the file, and those of another training, are dropped."""
        entry = {
            "epoch": report.epoch,
            "loss_nats": report.loss_nats,
            "validation": None if report.validation is None else asdict(report.validation),
        }
        head = {**self._of, "num_epochs": report.num_epochs}
        kept = [each for each in self._epochs(head) if each["epoch"] < report.epoch]
        # One epoch a line, for readers of the file or of its changes.
        lines = ",\n".join(json.dumps(each) for each in (*kept, entry))
        content = f'{json.dumps(head)[:-1]}, "epochs": [\n{lines}\n]}}\n'
        try:
            write_whole(self._path, content.encode())
        except OSError as error:
            message = f"cannot write the weights to {self._path.parent}: {error.strerror} ({self._path.name})"
            raise StoreUnwritableError(message) from error

    def _epochs(self, head: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the epochs in the file, none if it belongs to another training."""
        try:
            found = json.loads(self._path.read_bytes())
            epochs: list[dict[str, Any]] = found.pop("epochs")
            is_whole = [each["epoch"] for each in epochs] == list(range(epochs[0]["epoch"], epochs[-1]["epoch"] + 1))
        # Broad in effect, since the file may be anything: what cannot be read is written anew.
        except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError):
            return []
        return epochs if found == head and is_whole else []
