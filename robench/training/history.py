"""Training history: losses and validation scores by epoch, a JSON file beside the weights, complete after every epoch.

The file has no times, so that equal weights come with equal histories.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from robench.core.errors import StoreUnwritableError
from robench.core.files import write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from robench.training.base import EpochReport


def history_path(weights: Path) -> Path:
    """Return where the history of the training of a file of weights is kept."""
    return weights.with_suffix(".history.json")


class History:
    """History of one training, which continues the history of an interrupted one of the same checkpoint.

    Args:
        path: file, which an earlier training may have left.
        checkpoint: name of what is trained; ``dataset``: name of what it is trained and validated on.
    """

    def __init__(self, path: Path, *, checkpoint: str, dataset: str) -> None:
        self._path = path
        self._of = {"checkpoint": checkpoint, "dataset": dataset}

    def add(self, report: EpochReport) -> None:
        """Append an epoch; later epochs in the file, and those of another training, are dropped.

        Raises:
            StoreUnwritableError: the file cannot be written.
        """
        entry = {
            "epoch": report.epoch,
            "loss_nats": report.loss_nats,
            "validation": None if report.validation is None else asdict(report.validation),
        }
        head = {**self._of, "num_epochs": report.num_epochs}
        kept = [each for each in self._epochs(head) if each["epoch"] < report.epoch]
        # One epoch a line, for whoever looks at the file or at its changes.
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
