"""What a training reported of its epochs: a JSON file beside the weights, whole after every epoch.

It has no times, so that the same entry gives the same file where it gives the same weights.
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
    """The history of one training, which goes on where an interrupted one of the same checkpoint ended.

    Args:
        path: file, which an earlier training may have left.
        checkpoint: name of what is trained; ``dataset``: name of what it is trained and validated on.
    """

    def __init__(self, path: Path, *, checkpoint: str, dataset: str) -> None:
        self._path = path
        self._of = {"checkpoint": checkpoint, "dataset": dataset}

    def add(self, report: EpochReport) -> None:
        """Write an epoch behind those before it; what the file has of later ones, or of another training, goes.

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
        """Return the epochs that the file has of this training; none of one that is not of it."""
        try:
            found = json.loads(self._path.read_bytes())
            epochs: list[dict[str, Any]] = found.pop("epochs")
            is_whole = [each["epoch"] for each in epochs] == list(range(epochs[0]["epoch"], epochs[-1]["epoch"] + 1))
        # Broad in effect, since the file may be anything: what cannot be read is written anew.
        except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError):
            return []
        return epochs if found == head and is_whole else []
