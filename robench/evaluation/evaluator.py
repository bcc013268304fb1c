"""A worker's edge: keeps the victim and the data loaded between shards, and turns what goes wrong into failures."""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from robench.core.errors import RobenchError, UsageError
from robench.core.records import Failure, Record
from robench.datasets import open_dataset
from robench.evaluation.evaluate import evaluate, provenance
from robench.models import load_victim

if TYPE_CHECKING:
    from robench.core.checkpoint import Checkpoint
    from robench.core.protocols import Dataset, Declaration, Victim
    from robench.core.shard import Measurement, Shard


@dataclass(slots=True)
class Evaluator:
    """Measures shards on one device; can be sent to another process before its first shard.

    Attributes:
        decode_workers: processes that decode image files, 0 for none.
    """

    device: str = "cpu"
    data_root: Path | None = None
    decode_workers: int = 0
    limit: int | None = None
    _victim: tuple[str, Victim] | None = field(default=None, init=False, repr=False)
    _datasets: dict[tuple[str, Declaration], Dataset] = field(default_factory=dict, init=False, repr=False)

    def __call__(self, shard: Shard) -> Record | Failure:
        """Return the record of ``shard``, or the failure that says why there is none."""
        started = time.perf_counter()
        try:
            measurement = shard.measurement
            return evaluate(shard, self._victim_of(measurement), self._dataset_of(measurement), self.limit)
        except Exception as error:  # the one broad catch: whatever a plug-in raises costs its shard alone
            return Failure(
                shard=shard.header,
                error=str(error) if isinstance(error, RobenchError) else f"{type(error).__name__}: {error}",
                traceback=traceback.format_exc(),
                provenance=provenance(torch.device(self.device), started, self.limit),
            )

    def _victim_of(self, measurement: Measurement) -> Victim:
        checkpoint: Checkpoint = measurement.checkpoint
        if self._victim is None or self._victim[0] != checkpoint.name:
            # The old one goes first: two large models may not fit.
            self._victim = None
            planned = replace(checkpoint.weights, sha256=measurement.weights_digest)
            self._victim = checkpoint.name, load_victim(replace(checkpoint, weights=planned), self.device)
        return self._victim[1]

    def _dataset_of(self, measurement: Measurement) -> Dataset:
        key = measurement.dataset.name, measurement.checkpoint.preprocessing
        if key not in self._datasets:
            opened = open_dataset(
                measurement.dataset.name,
                data_root=self.data_root,
                preprocessing=measurement.checkpoint.preprocessing,
                decode_workers=self.decode_workers,
            )
            if opened.identity != measurement.dataset:
                raise UsageError(f"dataset {measurement.dataset.name!r} changed while it was being measured")
            self._datasets[key] = opened
        return self._datasets[key]
