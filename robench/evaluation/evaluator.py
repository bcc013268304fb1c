"""Evaluator of a worker: caches model and data between shards, reads ahead, and converts errors to failures."""

import shlex
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from robench.core.checkpoint import Checkpoint
from robench.core.containment import Contained
from robench.core.declared import DatasetDeclaration, Declaration
from robench.core.errors import ContractError, DeclarationError, UsageError, described, shortened
from robench.core.library_watch import LibraryWatch, replacement_problem
from robench.core.protocols import AdversarialStore, Batch, Dataset, Measure, Model, ReadsAhead
from robench.core.records import Failure, Record
from robench.core.shard import EXACT_DTYPE, DatasetIdentity, Measurement, Shard
from robench.core.suite import Predict
from robench.datasets import open_dataset
from robench.devices import is_out_of_memory
from robench.evaluation.evaluate import answers, provenance, rows_at_once
from robench.evaluation.memory import free, halved_until_it_fits
from robench.models.in_memory_impl import model_of
from robench.models.loaded import LoadedModel
from robench.models.loading import load_model

# Dataset, start and stop.
Range = tuple[Dataset, int, int]

TRACEBACK_LENGTH = 20_000


@dataclass(slots=True)
class Evaluator:
    """Evaluator of shards on one device; can be sent to another process before its first shard.

    Attributes:
        decode_workers: number of processes that decode image files, 0 for none.
        adversarial: store that adversarial examples are written to, and read from for transfer; None stores none.
        modules: modules of models in memory, by name; with any, the evaluator stays in this process.
        tries_batch_size: whether to try, before the first shard of a measurement, how many rows a pass can have.
        loaded: models on this device that checks have loaded before, by name, with the digest of their weights; with
            any, the evaluator stays in this process. A model is taken out when its first shard is measured.
    """

    device: str = "cpu"
    data_root: Path | None = None
    decode_workers: int = 0
    limit: int | None = None
    adversarial: AdversarialStore | None = None
    modules: Mapping[str, nn.Module] = field(default_factory=dict)
    tries_batch_size: bool = False
    loaded: dict[str, tuple[str, LoadedModel]] = field(default_factory=dict)
    _model: tuple[str, LoadedModel] | None = field(default=None, init=False, repr=False)
    _watch: LibraryWatch | None = field(default=None, init=False, repr=False)
    # Rows of a pass that fit, by the key of a measurement whose batch size does not.
    _fitting: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    _datasets: dict[tuple[DatasetDeclaration, Declaration], Dataset] = field(
        default_factory=dict, init=False, repr=False
    )

    def __call__(self, shard: Shard, following: Shard | None = None) -> Record | Failure:
        """Return the record of ``shard``, or the failure with the reason; read ahead the examples of ``following``.

        Passes that exhaust the memory are repeated with half as many rows, where rows do not depend on each other.
        """
        while True:
            fitting = self._fitting.get(shard.measurement.key, shard.measurement.batch_size)
            is_whole = fitting == shard.measurement.batch_size
            result = self._measured(shard if is_whole else replace(shard, rows_per_pass=fitting), following)
            if not isinstance(result, int):
                return result
            # Here the error is gone, and with it all tensors that its traceback held.
            free()
            self._fitting[shard.measurement.key] = result

    def _measured(self, shard: Shard, following: Shard | None) -> Record | Failure | int:
        """Return the record or the failure, or with how many rows a pass the shard is to be measured again."""
        started = time.perf_counter()
        measurement = shard.measurement
        if measurement.foreign_code and self._watch is None:
            self._watch = LibraryWatch()
        try:
            self._check_libraries(measurement, "code that ran before")
            with Contained():
                model, dataset = self.opened(measurement)
                if self.tries_batch_size and shard.rows_per_pass is None and _is_divisible(measurement):
                    shard = self._tried(shard, model, dataset)
                read_ahead = ReadAhead(dataset, shard, lambda: None if following is None else self._range_of(following))
                evaluate: Measure = shard.measurement.condition.action.implemented()
                record = evaluate(shard, model, read_ahead, limit=self.limit, kept=self.adversarial)
            self._check_libraries(measurement, measurement.foreign_code)
            return record
        except Exception as error:  # the only broad catch: an error of a plug-in costs only its shard
            # Again, because the text of an error may be code of the plug-in, too.
            with Contained():
                reason, trace = described(error), shortened(traceback.format_exc(), TRACEBACK_LENGTH)
                is_out, is_refusal = is_out_of_memory(error), isinstance(error, DeclarationError)
        if is_out and shard.batch_size > 1 and _is_divisible(measurement):
            return shard.batch_size // 2
        if is_out:
            free()
        return Failure(
            shard=shard.header,
            error=f"{reason}. {self._advice(shard)}" if is_out else reason,
            traceback=trace,
            provenance=provenance(torch.device(self.device), started, self.limit),
            spoils_process=bool(self._replacement(measurement, measurement.foreign_code)),
            is_refusal=is_refusal,
        )

    def answers(self, shard: Shard, inputs: torch.Tensor) -> torch.Tensor:
        """Return the model's own answers to inputs of a shard that was measured; see ``evaluate.answers``."""
        with Contained():
            return answers(shard, inputs, *self.opened(shard.measurement))

    def opened(self, measurement: Measurement) -> tuple[Model, Dataset]:
        """Return the model and the data of a measurement; the ones used last are kept."""
        return self._model_of(measurement), self._dataset_of(measurement)

    def _tried(self, shard: Shard, model: Model, dataset: Dataset) -> Shard:
        """Return the shard with as many rows a pass as fit, at most its batch size."""
        key, size = shard.measurement.key, shard.measurement.batch_size
        if key not in self._fitting:
            inputs = dataset.batch(shard.start, min(shard.start + size, shard.stop)).inputs
            self._fitting[key] = halved_until_it_fits(model, inputs, size)
        return shard if self._fitting[key] == size else replace(shard, rows_per_pass=self._fitting[key])

    def _replacement(self, measurement: Measurement, culprit: str) -> str:
        """Return why this process must not measure, since functions of libraries are replaced; empty if it may.

        New replacements are by ``culprit``.
        """
        if self._watch is not None:
            self._watch.look(culprit)
        replaced = {} if self._watch is None else self._watch.replaced
        return replacement_problem(replaced, patches=measurement.checkpoint.patches)

    def _check_libraries(self, measurement: Measurement, culprit: str) -> None:
        if problem := self._replacement(measurement, culprit):
            raise ContractError(problem)

    def _range_of(self, shard: Shard) -> Range | None:
        """Return where the first examples of a shard are, or None for a dataset that cannot be opened."""
        try:
            dataset = self._dataset_of(shard.measurement)
        except Exception:  # The shard's own measuring reports it.
            return None
        return dataset, shard.start, min(shard.start + rows_at_once(shard), shard.stop)

    def _advice(self, shard: Shard) -> str:
        measurement = shard.measurement
        tried = f"Memory was exhausted on {self.device} at batch size {shard.batch_size}"
        others = "use another device, or fewer workers on this one"
        if not isinstance(measurement.condition.action, Predict):
            return f"{tried}, which is {measurement.condition.name}'s own: {others}"
        doctor = f"robench doctor --model {shlex.quote(measurement.checkpoint.name)}"
        return (
            f"{tried}: set a smaller batch_size in the suite ('{doctor}' says which fits), which is part of the key "
            f"of its results, or {others}"
        )

    def _model_of(self, measurement: Measurement) -> Model:
        checkpoint: Checkpoint = measurement.checkpoint
        if self._model is None or self._model[0] != checkpoint.name:
            # The old one is freed first: two large models may not fit.
            self._model = None
            module = self.modules.get(checkpoint.name)
            digest, ready = self.loaded.pop(checkpoint.name, ("", None))
            if ready is not None and digest == measurement.weights_digest:
                self._model = checkpoint.name, ready
            elif module is not None:
                self._model = checkpoint.name, model_of(checkpoint, module, self.device)
            else:
                planned = replace(checkpoint.weights, sha256=measurement.weights_digest)
                self._model = checkpoint.name, load_model(replace(checkpoint, weights=planned), self.device)
        model = self._model[1]
        return model if measurement.dtype == EXACT_DTYPE else model.in_precision(measurement.dtype)

    def _dataset_of(self, measurement: Measurement) -> Dataset:
        declared, preprocessing = measurement.condition.dataset, measurement.checkpoint.preprocessing
        if (declared, preprocessing) not in self._datasets:
            opened = open_dataset(
                declared, data_root=self.data_root, preprocessing=preprocessing, decode_workers=self.decode_workers
            )
            if opened.identity != measurement.dataset:
                raise UsageError(f"dataset {measurement.dataset.name!r} changed while it was being measured")
            self._datasets[declared, preprocessing] = opened
        return self._datasets[declared, preprocessing]


def _is_divisible(measurement: Measurement) -> bool:
    """Return whether the outcomes of a measurement do not depend on which examples share a pass."""
    condition = measurement.condition
    depends = measurement.checkpoint.coupled or bool(condition.perturbation.batch_dependence)
    return isinstance(condition.action, Predict) and not depends


class ReadAhead:
    """Dataset of one shard, which begins to read the next examples as soon as some have been read.

    It changes no example: a dataset that cannot read ahead (``core.protocols.ReadsAhead``) is only passed through.
    ``following`` returns the data to read after the shard, such as examples of another one; None for nothing.
    """

    def __init__(self, dataset: Dataset, shard: Shard, following: Callable[[], Range | None]) -> None:
        self._dataset, self._stop, self._following = dataset, shard.stop, following

    @property
    def identity(self) -> DatasetIdentity:
        """Return name, content digest and size."""
        return self._dataset.identity

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, Any]:
        return self._dataset[index]

    def batch(self, start: int, stop: int) -> Batch:
        """Return examples [start, stop), and begin to read the following ones.

        Raises:
            ExampleError: one of them cannot be read.
        """
        found = self._dataset.batch(start, stop)
        is_last = stop >= self._stop
        following = self._following() if is_last else (self._dataset, stop, min(2 * stop - start, self._stop))
        if following is not None and isinstance(following[0], ReadsAhead):
            following[0].read_ahead(*following[1:])
        return found
