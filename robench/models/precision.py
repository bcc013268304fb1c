"""Passes of a model in half precision, by ``torch.autocast``.

Autocast computes products of matrices and convolutions in bfloat16 or float16, and what it lists as sensitive, such as
softmax, norms and losses, in float32. Inputs, weights and what gradients arrive at stay float32.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, get_args

import torch
from torch import nn

from robench.core.errors import ContractError, described, shortened
from robench.core.shard import Precision
from robench.domains.devices import is_out_of_memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from torch import Tensor

LONGEST_REASON = 300
_DTYPES = {name: getattr(torch, name) for name in get_args(Precision)}


def dtype_of(name: str) -> torch.dtype:
    """Return the number format of a name.

    Raises:
        ContractError: it is none of ``core.shard.Precision``.
    """
    if name not in _DTYPES:
        raise ContractError(f"precision must be {' or '.join(_DTYPES)}, got {name!r}")
    found: torch.dtype = _DTYPES[name]
    return found


@contextmanager
def reduced(dtype: torch.dtype | None, device: torch.device) -> Iterator[None]:
    """Run a pass in a number format; None changes nothing.

    Raises:
        ContractError: a module of the model cannot run in it; the message names the module.
    """
    if dtype is None:
        yield
        return
    try:
        with torch.autocast(device.type, dtype=dtype):
            yield
    # What has no kernel, or is given two formats, raises one of these.
    except (RuntimeError, TypeError, ValueError) as error:
        if is_out_of_memory(error):
            raise
        where = _innermost_module(error.__traceback__)
        raise ContractError(
            f"{where} cannot run in {str(dtype)[6:]}: {shortened(described(error), LONGEST_REASON)}. Measure the model "
            "in float32, or in another precision"
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
