"""Attention layers of a forward pass in its graph, for losses on queries, keys or weights that pixels are to change.

For the time of a pass, hooks have each layer keep its projections, and its weights where the pass computes them. The
rest is computed when a loss asks for it. A layer that only has a method ``seen`` is called by it, a second time.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cache, cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from robench.attention.seen import Seen, ShowsInside, aside
from robench.attention.state import ForwardState, Shown, by_length
from robench.core.errors import ContractError
from robench.models.transformer_impl import TransformerModel


class ShownLayer:
    """Tensors of an attention layer in a forward pass, in its graph; each is computed once, when it is first read.

    Axes as in ``Seen``. Weights are zero where the query or the key is padding. Reading raises a ContractError where
    the mechanism has no such tensor, or where weights are NaN or infinite.

    Attributes:
        name: index and class of the layer, for messages.
        tokens_BNC: the tokens that enter the layer.
    """

    def __init__(self, name: str, tokens_BNC: Tensor, tensor_of: Callable[[str], Tensor | None]) -> None:
        self.name, self.tokens_BNC, self._tensor_of = name, tokens_BNC, tensor_of

    @cached_property
    def queries_BHND(self) -> Tensor:
        """Return the queries; in a symmetric mechanism the keys."""
        return self._tensor("queries_BHND")

    @cached_property
    def keys_BHMD(self) -> Tensor:
        """Return the keys as projected."""
        return self._tensor("keys_BHMD")

    @cached_property
    def weights_BHNM(self) -> Tensor:
        """Return the weights of the values in each token."""
        weights_BHNM = self._tensor("weights_BHNM")
        if not weights_BHNM.isfinite().all():
            raise ContractError(f"{self.name} shows weights that are NaN or infinite, wanted finite ones")
        return weights_BHNM

    def rows(self, n: int) -> "ShownLayer":
        """Return the layer for the first ``n`` examples, whose tensors are parts of this one's."""
        return ShownLayer(self.name, self.tokens_BNC[:n], lambda name: getattr(self, name)[:n])

    def _tensor(self, name: str) -> Tensor:
        tensor = self._tensor_of(name)
        if tensor is None:
            raise ContractError(f"{self.name} shows no {name.split('_')[0]}: its mechanism has none for each token")
        return tensor


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

    def leave(attention: nn.Module, given: tuple[Any, ...], output: Any) -> None:
        state, shown = given[-1], None
        if isinstance(state, ForwardState):
            # A copy, since later layers publish values.
            shown, state.shown = state.shown, None
            given = (*given[:-1], aside(state))
        tensor_of = _computed(attention, given, shown or Shown())

        def within(name: str) -> Tensor | None:
            with computing():
                return tensor_of(name)

        layers.append(ShownLayer(f"attention layer {len(layers)} ({type(attention).__name__})", given[0], within))

    with ExitStack() as hooks:
        for attention in attentions_of(module):
            hooks.callback(attention.register_forward_pre_hook(enter).remove)
            hooks.callback(attention.register_forward_hook(leave).remove)
        yield layers


def _computed(attention: Any, given: tuple[Any, ...], shown: Shown) -> Callable[[str], Tensor | None]:
    """Return a function of a tensor's name to the tensor, from the arguments of a pass and what the layer kept."""

    @cache
    def seen() -> Seen:
        found: Seen = attention.seen(*given)
        return found

    def tensor_of(name: str) -> Tensor | None:
        if shown.heads is None:
            found: Tensor | None = getattr(seen(), name)
            return found
        if name == "weights_BHNM":
            return _weights(attention, shown, given[-1])
        # A mixture has several keys.
        return shown.heads[0] if name == "queries_BHND" else shown.heads[-2] if len(shown.heads) <= 3 else None

    return tensor_of


def _weights(attention: Any, shown: Shown, state: ForwardState) -> Tensor:
    """Return the weights of a pass, (B, H, N, N), zero at padding."""
    assert shown.heads is not None
    num_tokens = shown.heads[0].shape[-2]

    def padded(own: tuple[Tensor, ...], its_state: ForwardState | None) -> Tensor:
        weights_BHNM: Tensor = attention.weights(own, aside(its_state))
        return pad(weights_BHNM, (0, num_tokens - weights_BHNM.shape[-1]))

    weights_BHNM = shown.weights_BHNM
    if weights_BHNM is None:
        by_rows = state.lengths and not getattr(attention, "takes_masks", False)
        weights_BHNM = (
            by_length(padded, shown.heads, state) if by_rows else attention.weights(shown.heads, aside(state))
        )
    if state.mask_BN is None or state.branch_BN is not None:
        return weights_BHNM
    return torch.where(state.mask_BN[:, None, :, None], weights_BHNM, 0.0)
