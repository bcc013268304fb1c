"""Cache of a result that depends on parameters alone, valid until one of them changes.

Changes are detected by address, layout and the version counter that torch increments with every write. The memory is
held as long as the result, so that no new tensor can reuse the address. Writes through ``tensor.data`` are not counted:
callers that make them must call ``forget``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable


class Trace(NamedTuple):
    """Fingerprint of a tensor that changes with its numbers, while its memory is held."""

    address: int
    version: int
    shape: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device


class Held(NamedTuple):
    """Cached result and the fingerprints it depends on."""

    result: Tensor
    traces: tuple[Trace, ...]
    setting: object
    parameters: tuple[Tensor, ...]


class Kept:
    """Cache of at most one result; copies and pickles of it are empty."""

    def __init__(self) -> None:
        self._held: Held | None = None

    def __reduce__(self) -> tuple[type[Kept], tuple[()]]:
        return Kept, ()

    def forget(self) -> None:
        """Clear the cache."""
        self._held = None

    def get(self, parameters: tuple[Tensor, ...], setting: object, compute: Callable[[], Tensor]) -> Tensor:
        """Return ``compute()``, from the cache if it was called for the same parameters and setting before.

        Nothing is cached if gradients may flow to the parameters. ``setting`` contains everything else that determines
        the result.
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
    """Return the current fingerprint of a tensor."""
    return Trace(tensor.data_ptr(), tensor._version, tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
