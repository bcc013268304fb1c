"""Copies to devices, and the tensors whose numbers a program must wait for.

Operations on an accelerator are queued, and the program goes on. It waits for all of them where it reads a number,
needs a shape that depends on values (``nonzero``, indices by masks), or copies from memory that is not pinned. On a CPU
there is nothing to wait for, and reading first can save work.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


def is_asynchronous(values: Tensor) -> bool:
    """Return whether operations on a tensor's device are queued, so that reading numbers waits: not on a CPU."""
    return values.device.type != "cpu"


def to_device(values: Tensor, device: torch.device | str) -> Tensor:
    """Return a tensor on a device, without waiting for the copy; on its own device, the tensor itself.

    To CUDA the copy is made from pinned memory, which the allocator keeps until the copy has ended.
    """
    if values.device.type == "cpu" and str(device).startswith("cuda"):
        values = values.pin_memory()
    return values.to(device, non_blocking=values.device.type == "cpu")


def indices_on_cpu(rows: Tensor) -> Tensor:
    """Return on the CPU the indices of rows selected by mask (B,) or indices; waits once if they are on a device."""
    here = rows.cpu()
    return here.nonzero()[:, 0] if here.dtype == torch.bool else here


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that the memory of a device or of this machine is exhausted."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    # What torch's allocators for CPUs raise has no type of its own.
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator: can't allocate memory" in str(error)


@contextmanager
def deterministic_kernels(device: torch.device) -> Iterator[None]:
    """Choose deterministic kernels on another device than the CPU, where there are any; restore the settings.

    Operations without a deterministic kernel issue torch's warning, and run.
    """
    if device.type == "cpu":
        yield
        return
    if device.type == "cuda":
        # cuBLAS reads this when its first handle is made, and is not reproducible without it.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    memory: Any = torch.utils.deterministic  # a module with a property, unknown to mypy
    before = torch.get_deterministic_debug_mode(), memory.fill_uninitialized_memory, torch.backends.cudnn.deterministic
    try:
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.deterministic = True
        # Which finds mistakes of kernels, at the cost of a write to each new tensor.
        memory.fill_uninitialized_memory = False
        yield
    finally:
        torch.set_deterministic_debug_mode(before[0])
        memory.fill_uninitialized_memory = before[1]
        torch.backends.cudnn.deterministic = before[2]
