"""Choice of devices, worker processes and batch sizes."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path

import torch
from torch import Tensor

from robench.core.checkpoint import Checkpoint
from robench.core.containment import Contained
from robench.core.declared import DatasetDeclaration
from robench.core.errors import MissingDataError, RobenchError, UnknownNameError, UsageError, described
from robench.core.shard import EXACT_DTYPE
from robench.datasets import open_dataset
from robench.declarations.preprocessing import ImagePreprocessing
from robench.declare import find_checkpoints, find_datasets
from robench.declare.schema import fields_problem
from robench.evaluation.memory import largest_fitting_power
from robench.executors import EXECUTORS, IN_PROCESS, ON_THIS_MACHINE, ExecutorBase
from robench.models.loading import load_model

# The executor is chosen by the number of workers.
AUTO = "auto"
# Larger batches are hardly faster, and a CPU begins to swap long before it refuses.
MOST_ROWS = 1024
MOST_ROWS_ON_CPU = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """Workers of a run.

    Attributes:
        devices: device name of each worker; empty if workers are elsewhere.
        executor: what runs them.
        decode_workers: number of processes beside each worker that decode image files.
    """

    devices: tuple[str, ...]
    executor: ExecutorBase
    decode_workers: int

    @property
    def in_process(self) -> bool:
        """Return whether the only worker is the process of the run."""
        return self.executor.is_in_process

    @property
    def are_processes(self) -> bool:
        """Return whether they are further processes of this machine."""
        return not self.executor.is_in_process and not self.executor.is_elsewhere


def executor_kind(name: str) -> type[ExecutorBase] | None:
    """Return the class of the executors of a name, None for ``auto``.

    Raises:
        UnknownNameError: there is no executor of that name.
        PluginError: it is of another distribution, and broken.
    """
    if name == AUTO:
        return None
    if name not in EXECUTORS:
        raise UnknownNameError("executor", name, [AUTO, *EXECUTORS])
    declared = EXECUTORS[name]
    if wrong := fields_problem(declared):
        raise EXECUTORS.refusal(name, wrong)
    return declared


def executor_asked(executor: str | ExecutorBase) -> ExecutorBase | None:
    """Return the executor of a name or declaration, None for ``auto``; raises like ``executor_kind``.

    Raises:
        UsageError: it has fields without a default.
    """
    if isinstance(executor, ExecutorBase):
        return executor
    kind = executor_kind(executor)
    if kind is None:
        return None
    lacking = [each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING]
    if lacking:
        raise UsageError(
            f"executor {executor!r} has no default for {' and '.join(lacking)}; set {'each' if lacking[1:] else 'it'} "
            "by --executor-option NAME=VALUE, or in Python give a declaration in place of the name"
        )
    return kind()


def choose_workers(
    device: str, workers: int | None, executor: str | ExecutorBase, shard_timeout: float | None = None
) -> Workers:
    """Return one worker per GPU, or per CPU core, unless ``workers`` is given.

    With ``shard_timeout`` even a single worker has a process, because nothing else can be ended.

    Raises:
        UsageError: no such device on this machine; the message lists the available ones.
        UnknownNameError: there is no such executor.
    """
    asked = executor_asked(executor)
    if asked is not None and asked.is_elsewhere:
        return Workers(devices=(), executor=asked, decode_workers=asked.decode_workers)
    found = devices_of(device)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if asked is not None and asked.is_in_process:
        count = 1
    elif workers is not None:
        count = workers
    else:
        count = cores if found == ["cpu"] else len(found)
    alone = IN_PROCESS if count == 1 and shard_timeout is None else ON_THIS_MACHINE
    return Workers(
        devices=tuple(found[i % len(found)] for i in range(count)),
        executor=alone if asked is None else asked,
        # Measuring and decoding share the cores.
        decode_workers=max(1, min(8, cores // count)),
    )


def devices_of(device: str) -> list[str]:
    """Return the devices selected by ``device``: all GPUs for ``cuda``, one otherwise."""
    gpus = [f"cuda:{i}" for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    if device == "auto":
        return gpus or ["cpu"]
    if device == "cuda" and gpus:
        return gpus
    if device == "cpu" or device in gpus:
        return [device]
    there = ", ".join(["cpu", *(["cuda", *gpus] if gpus else [])])
    raise UsageError(f"no device {device!r} on this machine; there is: {there}")


def batch_size_text(
    name: str, registries: Sequence[Path], device: str, precision: str, data_root: Path | None = None
) -> str:
    """Return the largest batch size, a power of two, whose forward and backward pass fits, in a sentence.

    The pass has an example of the data that the model was trained on, or where that is absent an image of the size that
    its preprocessing cuts.

    Raises:
        RobenchError: the model cannot be loaded, there is no such device or example, or not even one example fits.
    """
    (checkpoint,) = find_checkpoints([name], registries)
    chosen = choose_workers(device, 1, AUTO).devices[0]
    inputs = _example(checkpoint, find_datasets(registries), data_root)
    model = load_model(checkpoint, chosen)
    if precision != EXACT_DTYPE:
        model = model.in_precision(precision)
    most = MOST_ROWS_ON_CPU if chosen == "cpu" else MOST_ROWS
    try:
        with Contained():
            fitting = largest_fitting_power(model, inputs, most)
    except Exception as error:
        raise RobenchError(f"a pass on {chosen} failed: {described(error)}") from error
    if fitting is None:
        raise RobenchError(f"not even one example fits into the memory of {chosen}; use a device with more")
    beyond = "the most that is tried" if fitting * 2 > most else f"{2 * fitting} do not fit"
    return f"{fitting} on {chosen} in {precision} ({beyond}); batch_size of a suite is part of its results' keys"


def _example(checkpoint: Checkpoint, datasets: Mapping[str, DatasetDeclaration], data_root: Path | None) -> Tensor:
    """Return one example as a batch (1, ...)."""
    preprocessing = checkpoint.preprocessing
    declared = datasets.get(checkpoint.trained_on or "")
    try:
        if declared is not None:
            return open_dataset(declared, data_root=data_root, preprocessing=preprocessing).batch(0, 1).inputs
    except MissingDataError:
        if not isinstance(preprocessing, ImagePreprocessing) or preprocessing.crop is None:
            raise
    if isinstance(preprocessing, ImagePreprocessing) and preprocessing.crop is not None:
        return torch.full((1, preprocessing.num_channels or 3, preprocessing.crop, preprocessing.crop), 0.5)
    raise RobenchError("the size of its inputs is unknown: say trained_on in its entry")
