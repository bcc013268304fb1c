"""Passes of a model in half precision, by ``torch.autocast``, and compiled ones.

Autocast computes products of matrices and convolutions in bfloat16 or float16, and what it lists as sensitive, such as
softmax, norms and losses, in float32. Inputs, weights and what gradients arrive at stay float32.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

import torch
from torch import nn

from robench.core.errors import ContractError, described, shortened
from robench.core.shard import Precision, is_compiled, number_format
from robench.domains.devices import is_out_of_memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from torch import Tensor

LONGEST_REASON = 300


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Arithmetic of passes.

    Attributes:
        name: its name, a ``core.shard.Precision``.
        dtype: number format of products of matrices and convolutions.
        is_compiled: whether passes are compiled.
    """

    name: str
    dtype: torch.dtype
    is_compiled: bool


def arithmetic_of(name: str) -> Arithmetic:
    """Return the arithmetic of a name.

    Raises:
        ContractError: it is none of ``core.shard.Precision``.
    """
    if name not in get_args(Precision):
        raise ContractError(f"precision must be one of {', '.join(get_args(Precision))}, got {name!r}")
    return Arithmetic(name, getattr(torch, number_format(name)), is_compiled(name))


@contextmanager
def running_in(arithmetic: Arithmetic | None, device: torch.device) -> Iterator[None]:
    """Run a pass in an arithmetic; None changes nothing.

    Raises:
        ContractError: a module of the model cannot run in it; the message names the module.
    """
    if arithmetic is None:
        yield
        return
    is_exact = arithmetic.dtype == torch.float32
    try:
        with nullcontext() if is_exact else torch.autocast(device.type, dtype=arithmetic.dtype):
            yield
    # What has no kernel, is given two formats, or cannot be compiled, raises one of these.
    except (RuntimeError, TypeError, ValueError) as error:
        if is_out_of_memory(error):
            raise
        where = _innermost_module(error.__traceback__)
        raise ContractError(
            f"{where} cannot run in {arithmetic.name}: {shortened(described(error), LONGEST_REASON)}. Measure the "
            "model in float32, or in another precision"
        ) from error


def widened(outputs: Tensor) -> Tensor:
    """Return outputs as float32, if their format is a shorter one."""
    return outputs.float() if outputs.is_floating_point() and outputs.element_size() < 4 else outputs


def _innermost_module(traceback: TracebackType | None) -> str:
    """Return the class of the last module on the way to an error, or ``the model``."""
    found = "the model"
    while traceback is not None:
        module = traceback.tb_frame.f_locals.get("self")
        # Layers of torch say less than the module that calls them.
        if isinstance(module, nn.Module) and not type(module).__module__.startswith("torch."):
            found = type(module).__name__
        traceback = traceback.tb_next
    return found
