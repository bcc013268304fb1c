"""Reproducible arithmetic on one kind of device, without changing the caller's settings.

On a CPU every worker computes with one thread: with more, libraries split sums differently and the last bits of
gradients change (measured with torch 2.15: input gradients of a DeiT-tiny differ between 1 and 2 threads). More workers
use the cores instead, which is also faster.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from importlib.metadata import version

import torch

from robench.core.protocols import Model
from robench.devices import deterministic_kernels


def arithmetic_for(model: Model) -> AbstractContextManager[None]:
    """Return ``fixed_arithmetic`` as forward and backward passes of a model need it."""
    return fixed_arithmetic(model.device, uses_tf32=getattr(model, "uses_tf32", False))


@contextmanager
def fixed_arithmetic(device: torch.device, *, uses_tf32: bool = False) -> Iterator[None]:
    """Compute with one thread, full float32 and deterministic kernels; restore settings and generators afterwards.

    With ``uses_tf32`` products of matrices and convolutions on a GPU are in TF32, also those of attacks.

    Operations without a deterministic kernel on a device other than the CPU issue torch's warning, and run.
    """
    threads = torch.get_num_threads()
    settings = (
        torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cudnn.allow_tf32,
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.deterministic,
    )
    try:
        _set(1, uses_tf32, uses_tf32, False, True)
        with (
            deterministic_kernels(device),
            torch.random.fork_rng(devices=[device] if device.type == "cuda" else []),
        ):
            yield
    finally:
        _set(threads, *settings)


def _set(threads: int, matmul_tf32: bool, cudnn_tf32: bool, benchmark: bool, deterministic: bool) -> None:
    torch.set_num_threads(threads)
    torch.backends.cuda.matmul.allow_tf32 = matmul_tf32
    torch.backends.cudnn.allow_tf32 = cudnn_tf32
    torch.backends.cudnn.benchmark = benchmark
    torch.backends.cudnn.deterministic = deterministic


def device_kind(device: torch.device) -> str:
    """Return the kind of device that determines the last bits, such as ``cpu AVX512`` or ``NVIDIA H200``."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    if device.type == "cpu":
        return f"cpu {torch.backends.cpu.get_cpu_capability()}"
    return device.type


def library_versions() -> dict[str, str]:
    """Return the version of each library involved in the arithmetic."""
    return dict(_versions())


@cache
def _versions() -> tuple[tuple[str, str], ...]:
    # Reading them takes milliseconds, and a shard of a small model not much longer.
    return tuple((name, version(name)) for name in ("robench", "torch", "timm", "numpy"))
