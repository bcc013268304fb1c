"""Choice of devices and worker processes."""

from __future__ import annotations

import os
from dataclasses import MISSING, dataclass, fields

import torch

from robench.core.errors import UnknownNameError, UsageError
from robench.declare.schema import fields_problem
from robench.executors import EXECUTORS, IN_PROCESS, ON_THIS_MACHINE, ExecutorBase

# The executor is chosen by the number of workers.
AUTO = "auto"


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
        return Workers(devices=(), executor=asked, decode_workers=1)
    found = _devices(device)
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


def _devices(device: str) -> list[str]:
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
