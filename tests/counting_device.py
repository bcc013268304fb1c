"""A device that computes on the CPU, is another device to all code, and counts what would wait for a GPU.

Tensors of it report the device ``meta`` and hold the numbers on the CPU. Within ``waits_counted`` operations run on
these numbers, and those are counted that make a program wait for all work queued on a CUDA device: reading a number or
a whole tensor, results whose shape depends on values (``nonzero``, indices by masks), and copies to the device that do
not say ``non_blocking``. Results are those of the CPU, to the bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

DEVICE = torch.device("meta")
# Operations whose result is a Python number, or has a shape that depends on values.
WAITING = {
    "_local_scalar_dense",
    "nonzero",
    "nonzero_numpy",
    "masked_select",
    "equal",
    "is_nonzero",
    "unique_dim",
    "_unique2",
    "unique_consecutive",
}


class Held(torch.Tensor):
    """Tensor of the counting device; ``held`` are its numbers on the CPU."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> Held:
        """Return a tensor of the same shape on the counting device."""
        made: Held = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]  # private
            cls,
            held.shape,
            dtype=held.dtype,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            device=DEVICE,
        )
        made.held = held
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Refuse operations outside ``waits_counted``."""
        raise AssertionError(f"{func} on the counting device outside waits_counted")


class Waits(TorchDispatchMode):
    """Counts of operations that wait, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """Return the number of all operations that wait."""
        return self.counts.total()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation on the numbers, and count it if it waits."""
        kwargs = dict(kwargs or {})
        name = func.overloadpacket.__name__
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        is_here = any(isinstance(each, Held) for each in given)
        asked = kwargs.get("device")
        goes_here = is_here if asked is None else torch.device(asked).type == DEVICE.type
        if self._waits(name, args, kwargs, is_here=is_here, goes_here=goes_here):
            self.counts[name] += 1
        if asked is not None:
            kwargs["device"] = "cpu"
        held_args, held_kwargs = tree_map_only(Held, lambda each: each.held, (args, kwargs))
        # Tensors of inference mode cannot be wrapped.
        with torch.inference_mode(False), torch.no_grad():
            return self._result(func, args, held_args, held_kwargs, is_here=is_here, goes_here=goes_here)

    def _result(self, func: Any, args: Any, held_args: Any, held_kwargs: Any, *, is_here: bool, goes_here: bool) -> Any:
        result = func(*held_args, **held_kwargs)
        if is_here and any(each.alias_info is not None and each.alias_info.is_write for each in func._schema.arguments):
            return args[0]
        # A copy between devices must not share memory, as a CPU's ``to`` does.
        return tree_map_only(torch.Tensor, Held, result) if goes_here else result

    def _waits(self, name: str, args: Any, kwargs: Any, *, is_here: bool, goes_here: bool) -> bool:
        if not is_here:
            return name == "_to_copy" and goes_here and not kwargs.get("non_blocking")
        if name == "_to_copy":
            return not goes_here
        if name in ("index", "index_put", "index_put_", "_index_put_impl_"):
            return any(each is not None and each.dtype in (torch.bool, torch.uint8) for each in args[1])
        return name in WAITING


class _Constants(TorchFunctionMode):
    """``torch.tensor`` on the device, which makes no operation there: a copy from the CPU, which waits."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is not torch.tensor:
            return func(*args, **kwargs)
        device = kwargs.pop("device", None)
        made = func(*args, **kwargs)
        return made if device is None else made.to(device)


@contextmanager
def waits_counted() -> Iterator[Waits]:
    """Run operations of the counting device, and count those that would wait."""
    with _Constants(), Waits() as waits:
        yield waits
