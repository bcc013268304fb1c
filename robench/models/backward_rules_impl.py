"""Backward rules of transfer attacks on attention: outputs stay the same to the bit, gradients change.

Both read a layer of any mechanism as ``heads = weights @ values + rest`` (``attention.seen``): the forward pass is the
layer's own, and the gradient by its heads flows into weights, values and rest of this product alone.

* ``pna``, Pay No Attention: Wei et al. 2022, arXiv:2109.04176. The weights are constants, also where they depend on the
  values, as in RPC and RKDE.
* ``tgr``, token gradient regularisation: Zhang et al. 2023, arXiv:2303.15754. Of each example, the gradient by

      weights     loses the row and column of the largest and of the smallest entry of each head, and is times 0.25
      q, k, v     loses, in each channel, the largest and the smallest entry over the tokens, and is times 0.75
      MLP output  likewise, and is times 0.5

The MLP's factor is that of the released code; TransferAttack quotes 0.25 as official. The code finds extremes by the
first example of a batch, and knows four models by name. A layer without weights is a constant branch under ``pna``;
``tgr`` regularises its projections and MLP. FAN's class attention does not show itself: its derivative is as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from robench.attention.gradients import with_gradient_of
from robench.attention.heads import merge_heads
from robench.attention.seen import ShowsInside
from robench.core.errors import ContractError
from robench.models.shown import attentions_of

WEIGHTS_FACTOR, PROJECTIONS_FACTOR, MLP_FACTOR = 0.25, 0.75, 0.5
PROJECTIONS = ("qkv", "qk", "q", "kv")


class _Layer:
    """Hooks on one attention layer, whose heads get the gradient of ``weights @ values + rest`` by a rule."""

    def __init__(self, rule: str) -> None:
        self._is_constant = rule == "pna"
        self._path: Tensor | None = None
        self._projected: dict[nn.Module, Tensor] = {}

    def enter(self, attention: nn.Module, given: tuple[Any, ...]) -> None:
        """Compute the path of the gradient, from the arguments of the forward pass that follows."""
        assert isinstance(attention, ShowsInside)
        shown, self._path = attention.seen(*given), None
        if (weights_BHNM := shown.weights_BHNM) is None or shown.values_BHMD is None:
            return
        if self._is_constant:
            weights_BHNM = weights_BHNM.detach()
        else:
            _change_gradient(weights_BHNM, without_extreme_pairs, WEIGHTS_FACTOR)
        path_BHND = weights_BHNM @ shown.values_BHMD
        self._path = merge_heads(path_BHND if shown.rest_BHND is None else path_BHND + shown.rest_BHND)

    def project(self, projection: nn.Module, given: tuple[Any, ...], output: Tensor) -> Tensor:
        """Return queries, keys or values: one tensor for the path and the forward pass, so that it has one gradient."""
        if (kept := self._projected.pop(projection, None)) is not None:
            return kept
        if not self._is_constant:
            _change_gradient(output, without_extreme_tokens, PROJECTIONS_FACTOR)
        self._projected[projection] = output
        return output

    def leave(self, projection: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        """Return the merged heads (B, N, C) with the gradient of the path."""
        if self._path is not None:
            return (with_gradient_of(given[0], self._path),)
        return (given[0].detach(),) if self._is_constant else None


def followers_of(module: nn.Module, rule: str) -> list[nn.Module]:
    """Return the attention layers that follow a rule; raise a ContractError if there are none, or no such rule."""
    if rule not in ("pna", "tgr"):
        raise ContractError(f"there is no backward rule {rule!r}; choose pna or tgr")
    found = [each for each in attentions_of(module) if hasattr(each, "proj")]
    if not found:
        raise ContractError(
            f"backward {rule} needs attention layers with a method 'seen' and a projection 'proj', as robench's own, "
            "and the model has none: leave out backward, and take input_diversity, translation or scale_copies"
        )
    return found


@contextmanager
def following(module: nn.Module, rule: str | None) -> Iterator[None]:
    """Let graphs that are built of a module follow a rule; None for the derivative as it is."""
    with ExitStack() as hooks:
        attentions = followers_of(module, rule) if rule is not None and torch.is_grad_enabled() else []
        for attention in attentions:
            layer, children = _Layer(str(rule)), dict(attention.named_children())
            hooks.callback(attention.register_forward_pre_hook(layer.enter).remove)
            hooks.callback(children["proj"].register_forward_pre_hook(layer.leave).remove)
            for name in children.keys() & set(PROJECTIONS):
                hooks.callback(children[name].register_forward_hook(layer.project).remove)
        for block in module.modules() if rule == "tgr" else ():
            mlp = getattr(block, "mlp", None)
            if isinstance(mlp, nn.Module) and getattr(block, "attn", None) in attentions:
                hooks.callback(mlp.register_forward_hook(_regularise).remove)
        yield


def without_extreme_pairs(gradient_BHNM: Tensor) -> Tensor:
    """Return a gradient by weights with zeros in the rows and columns of each head's largest and smallest entry."""
    num_queries, num_keys = gradient_BHNM.shape[-2:]
    rows_N1 = torch.arange(num_queries, device=gradient_BHNM.device)[:, None]
    columns_M = torch.arange(num_keys, device=gradient_BHNM.device)
    flat_BHP = gradient_BHNM.flatten(2)
    for places_BH in (flat_BHP.argmax(-1), flat_BHP.argmin(-1)):
        place_BH11 = places_BH[..., None, None]
        is_hit = (rows_N1 == place_BH11 // num_keys) | (columns_M == place_BH11 % num_keys)
        gradient_BHNM = gradient_BHNM.masked_fill(is_hit, 0.0)
    return gradient_BHNM


def without_extreme_tokens(gradient_BNC: Tensor) -> Tensor:
    """Return a gradient by tokens with zeros, in each channel, at the tokens of the largest and the smallest entry."""
    largest_B1C, smallest_B1C = gradient_BNC.argmax(1, keepdim=True), gradient_BNC.argmin(1, keepdim=True)
    return gradient_BNC.scatter(1, largest_B1C, 0.0).scatter(1, smallest_B1C, 0.0)


def _regularise(mlp: nn.Module, given: tuple[Any, ...], output: Tensor) -> None:
    _change_gradient(output, without_extreme_tokens, MLP_FACTOR)


def _change_gradient(tensor: Tensor, change: Callable[[Tensor], Tensor], factor: float) -> None:
    if tensor.requires_grad:
        tensor.register_hook(lambda gradient: factor * change(gradient))
