"""Choice of devices and worker processes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from robench.core.errors import UsageError

if TYPE_CHECKING:
    from robench.runs.request import ExecutorName


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """Device name of each worker; ``in_process`` if a single worker needs no separate process."""

    devices: tuple[str, ...]
    in_process: bool
    decode_workers: int


def choose_workers(
    device: str, workers: int | None, executor: ExecutorName, shard_timeout: float | None = None
) -> Workers:
    """Return one worker per GPU, or per CPU core, unless ``workers`` is given.

    With ``shard_timeout`` even a single worker has a process, because nothing else can be ended.

    Raises:
        UsageError: no such device on this machine; the message lists the available ones.
    """
    found = _devices(device)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if executor == "serial":
        count = 1
    elif workers is not None:
        count = workers
    else:
        count = cores if found == ["cpu"] else len(found)
    in_process = executor == "serial" or (executor == "auto" and count == 1 and shard_timeout is None)
    return Workers(
        devices=tuple(found[i % len(found)] for i in range(count)),
        in_process=in_process,
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
