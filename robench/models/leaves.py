"""Tensors within a pass as leaves of its graph, for gradients by embedded tokens."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn


@contextmanager
def as_leaves(module: nn.Module, name: str) -> Iterator[list[Tensor]]:
    """Let a method or submodule of a module return leaves of the graph, which are collected in the list."""
    leaves: list[Tensor] = []

    def keep(output: Tensor) -> Tensor:
        leaves.append(output.detach().requires_grad_(True))
        return leaves[-1]

    part, own = getattr(module, name), vars(module)
    if isinstance(part, nn.Module):
        handle = part.register_forward_hook(lambda _, given, output: keep(output))
        try:
            yield leaves
        finally:
            handle.remove()
        return
    before = own.get(name)
    own[name] = lambda *given, **named: keep(part(*given, **named))
    try:
        yield leaves
    finally:
        del own[name]
        if before is not None:
            own[name] = before
