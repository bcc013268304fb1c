"""Attention layers of a forward pass in its graph, for losses on queries, keys or weights that pixels are to change.

For the time of a pass, hooks have each layer keep its projections, and its weights where the pass computes them. The
rest is computed when a loss asks for it; a layer that keeps nothing is asked by ``seen``, which runs it again.
``as_leaves`` gives the tensors that a method or part of a model returns, such as embedded tokens.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from robench.attention.seen import ShowsInside, aside
from robench.attention.state import ForwardState, Shown, by_length
from robench.core.errors import ContractError
from robench.core.protocols import ShownLayer
from robench.models.transformer_impl import TransformerModel


def attentions_of(module: nn.Module) -> list[nn.Module]:
    """Return the attention layers that can be seen, in the order of the module's parts; a segmenter's encoder alone."""
    transformer = next((part for part in module.modules() if isinstance(part, TransformerModel)), module)
    return [each for each in transformer.modules() if isinstance(each, ShowsInside)]


@contextmanager
def showing(
    module: nn.Module, computing: Callable[[], AbstractContextManager[None]] = nullcontext
) -> Iterator[list[ShownLayer]]:
    """Fill a list with the attention layers that passes run within this context, in the order of their calls.

    Outputs are the same, bit for bit. Tensors that a pass does not compute itself are computed within ``computing()``.
    """
    layers: list[ShownLayer] = []

    def enter(attention: nn.Module, given: tuple[Any, ...]) -> None:
        if not given:
            raise ContractError(f"{type(attention).__name__} is called without its tokens as first argument")
        if isinstance(given[-1], ForwardState):
            given[-1].shown = Shown()

    def leave(attention: Any, given: tuple[Any, ...], output: Any) -> None:
        shown = Shown()
        if isinstance(given[-1], ForwardState):
            shown, given[-1].shown = given[-1].shown or shown, None
            # A copy, since later layers publish values.
            given = (*given[:-1], aside(given[-1]))
        seen: Callable[[], Any] = cache(partial(attention.seen, *given))

        def read(part: str) -> Tensor | None:
            with computing():
                tensor = _tensor(part, attention, given, shown, seen)
            # Of passes in half precision, as outputs.
            return tensor.float() if tensor is not None and tensor.element_size() == 2 else tensor

        layers.append(ShownLayer(f"attention layer {len(layers)} ({type(attention).__name__})", read))

    with ExitStack() as hooks:
        for attention in attentions_of(module):
            hooks.callback(attention.register_forward_pre_hook(enter).remove)
            hooks.callback(attention.register_forward_hook(leave).remove)
        yield layers


def _tensor(part: str, attention: Any, given: tuple[Any, ...], shown: Shown, seen: Callable[[], Any]) -> Tensor | None:
    """Return a tensor of a layer in a pass with the arguments ``given``, None if it shows none."""
    heads: tuple[Tensor, ...] | None = shown.heads
    if part == "tokens_BNC" or heads is None:
        found: Tensor | None = given[0] if part == "tokens_BNC" else getattr(seen(), part)
        return found
    if part != "weights_BHNM":
        # A mixture has several keys.
        return heads[0] if part == "queries_BHND" else heads[-2] if len(heads) <= 3 else None
    state: ForwardState = given[-1]
    weights_BHNM = shown.weights_BHNM
    if weights_BHNM is None and state.lengths and not getattr(attention, "takes_masks", False):
        # Each length has its own number of columns.
        missing = heads[0].shape[-2]
        weights_BHNM = by_length(
            lambda own, its: pad(attention.weights(own, aside(its)), (0, missing - own[0].shape[-2])), heads, state
        )
    elif weights_BHNM is None:
        weights_BHNM = attention.weights(heads, aside(state))
    if state.mask_BN is None or state.branch_BN is not None:
        return weights_BHNM
    return torch.where(state.mask_BN[:, None, :, None], weights_BHNM, 0.0)


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
