"""A result of parameters alone, kept from pass to pass for as long as none of them has changed.

Whether one has is read off where its numbers lie, how they are laid out there, and the version that torch counts up
with every write. The memory is held for as long as the result is, so that no new tensor comes to lie where an old one
was. Writes through ``tensor.data`` are counted by nobody: who makes them has to ``forget``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable


class Trace(NamedTuple):
    """What changes whenever the numbers of a tensor do, while its memory is held."""

    address: int
    version: int
    shape: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device


class Held(NamedTuple):
    """A result, and what it was made of."""

    result: Tensor
    traces: tuple[Trace, ...]
    setting: object
    parameters: tuple[Tensor, ...]


class Kept:
    """At most one result; a copy or a pickle of it is empty."""

    def __init__(self) -> None:
        self._held: Held | None = None

    def __reduce__(self) -> tuple[type[Kept], tuple[()]]:
        return Kept, ()

    def forget(self) -> None:
        """Let go of the result."""
        self._held = None

    def get(self, parameters: tuple[Tensor, ...], setting: object, compute: Callable[[], Tensor]) -> Tensor:
        """Return ``compute()``, kept where it was called for the same parameters and setting before.

        Nothing is kept where gradients may flow to the parameters. ``setting`` is whatever else decides the result.
        """
        gradients_flow = torch.is_grad_enabled() and any(parameter.requires_grad for parameter in parameters)
        # Tensors made in inference mode have no version.
        if gradients_flow or any(parameter.is_inference() for parameter in parameters):
            return compute()
        traces = tuple(trace_of(parameter) for parameter in parameters)
        held = self._held
        if held is None or (held.traces, held.setting) != (traces, setting):
            # A result made in inference mode could not be used under gradients later.
            with torch.inference_mode(False), torch.no_grad():
                held = Held(compute(), traces, setting, tuple(parameter.detach() for parameter in parameters))
            self._held = held
        return held.result


def trace_of(tensor: Tensor) -> Trace:
    """Return the trace of a tensor as it is now."""
    return Trace(tensor.data_ptr(), tensor._version, tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
