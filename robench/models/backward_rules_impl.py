"""Backward rules of transfer attacks on attention: outputs stay the same to the bit, gradients change.

Both rules read a layer as ``heads = weights @ values + rest`` (``attention.seen``), whatever the mechanism: the forward
pass is the layer's own, and the gradient by its heads flows through this product alone, into weights, values and rest.

* ``pna``, Pay No Attention: Wei et al. 2022, arXiv:2109.04176. The weights are constants. In RPC and RKDE, whose
  weights depend on the values too, so are they; NeuTRENO's values of layer 0 are values.
* ``tgr``, token gradient regularisation: Zhang et al. 2023, arXiv:2303.15754. Of each example, the gradient by

      weights     loses the rows and columns of the largest and the smallest entry of each head, and is times 0.25
      q, k, v     loses, in each channel, the tokens of the largest and the smallest entry, and is times 0.75
      MLP output  likewise, and is times 0.5

Paper and code differ: the MLP's factor is 0.5 in the released code, as here, and 0.25 among the official settings that
TransferAttack quotes. The released code finds extremes by the first example of a batch, so is right for batches of one;
here each example has its own. It knows layers of four models by name, and hooks the dropout of softmax weights.

A layer that shows no weights has no path but that of its weights: its branch is constant under ``pna``, and under
``tgr`` only projections and MLP are regularised. Class attention of FAN, which does not show itself, is differentiated
as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from robench.attention.heads import merge_heads
from robench.attention.seen import ShowsInside
from robench.core.errors import ContractError

WEIGHTS_FACTOR, PROJECTIONS_FACTOR, MLP_FACTOR = 0.25, 0.75, 0.5
PROJECTIONS = ("qkv", "qk", "q", "kv")
RULES = ("pna", "tgr")


class _Through(torch.autograd.Function):
    """The first tensor, whose gradient goes to the second instead."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, path: Tensor) -> Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        return None, gradients[0]


class _Layer:
    """Hooks on one attention layer: its heads get the gradient of ``weights @ values + rest`` by a rule."""

    def __init__(self, rule: str) -> None:
        self._is_constant = rule == "pna"
        self._path: Tensor | None = None
        self._projected: dict[nn.Module, Tensor] = {}

    def enter(self, attention: nn.Module, given: tuple[Any, ...]) -> None:
        """Compute the path of the gradient, from the arguments of the forward pass that follows."""
        assert isinstance(attention, ShowsInside)
        shown = attention.seen(*given)
        self._path = None
        if shown.weights_BHNM is None or shown.values_BHMD is None:
            return
        weights_BHNM = shown.weights_BHNM.detach() if self._is_constant else shown.weights_BHNM
        if not self._is_constant:
            weights_BHNM = _changed(weights_BHNM, without_extreme_pairs, WEIGHTS_FACTOR)
        path_BHND = weights_BHNM @ shown.values_BHMD
        self._path = merge_heads(path_BHND if shown.rest_BHND is None else path_BHND + shown.rest_BHND)

    def project(self, projection: nn.Module, given: tuple[Any, ...], output: Tensor) -> Tensor:
        """Return queries, keys or values: one tensor for the path and the forward pass, so that it has one gradient."""
        if (kept := self._projected.pop(projection, None)) is not None:
            return kept
        changed = output if self._is_constant else _changed(output, without_extreme_tokens, PROJECTIONS_FACTOR)
        self._projected[projection] = changed
        return changed

    def leave(self, projection: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        """Return the merged heads (B, N, C) with the gradient of the path."""
        if self._path is not None:
            return (_Through.apply(given[0], self._path),)
        return (given[0].detach(),) if self._is_constant else None


def check_rule(module: nn.Module, rule: str) -> None:
    """Refuse a rule that a module cannot follow.

    Raises:
        ContractError: the rule is unknown, or an attention layer is missing or does not show itself.
    """
    if rule not in RULES:
        raise ContractError(f"there is no backward rule {rule!r}; choose {' or '.join(RULES)}")
    if not attentions_of(module):
        raise ContractError(
            f"backward {rule} needs attention layers with a method 'seen' and a projection 'proj', as robench's own, "
            "and the model has none: leave out backward, and take input_diversity, translation or scale_copies"
        )


def attentions_of(module: nn.Module) -> list[nn.Module]:
    """Return the attention layers that a rule reaches, in the order of the module's parts."""
    return [
        each
        for each in module.modules()
        if isinstance(each, ShowsInside) and isinstance(getattr(each, "proj", None), nn.Module)
    ]


@contextmanager
def following(module: nn.Module, rule: str | None) -> Iterator[None]:
    """Let graphs that are built of a module follow a rule; None for the derivative as it is."""
    with ExitStack() as hooks:
        if rule is not None and torch.is_grad_enabled():
            attentions = attentions_of(module)
            for attention in attentions:
                layer = _Layer(rule)
                hooks.callback(attention.register_forward_pre_hook(layer.enter).remove)
                hooks.callback(attention.get_submodule("proj").register_forward_pre_hook(layer.leave).remove)
                for projection in _children(attention, PROJECTIONS):
                    hooks.callback(projection.register_forward_hook(layer.project).remove)
            for mlp in _mlps_beside(module, attentions) if rule == "tgr" else ():
                hooks.callback(mlp.register_forward_hook(_regularised_mlp).remove)
        yield


def without_extreme_pairs(gradient_BHNM: Tensor) -> Tensor:
    """Return a gradient by weights with zeros in the rows and columns of each head's largest and smallest entry."""
    num_queries, num_keys = gradient_BHNM.shape[-2:]
    flat_BHP = gradient_BHNM.flatten(2)
    is_left = torch.ones_like(gradient_BHNM, dtype=torch.bool)
    for places_BH in (flat_BHP.argmax(-1), flat_BHP.argmin(-1)):
        rows_N1 = torch.arange(num_queries, device=flat_BHP.device)[:, None]
        columns_M = torch.arange(num_keys, device=flat_BHP.device)
        places_BH11 = places_BH[..., None, None]
        is_left &= (rows_N1 != places_BH11 // num_keys) & (columns_M != places_BH11 % num_keys)
    return gradient_BHNM * is_left


def without_extreme_tokens(gradient_BNC: Tensor) -> Tensor:
    """Return a gradient by tokens with zeros, in each channel, at the tokens of the largest and the smallest entry."""
    largest_B1C, smallest_B1C = gradient_BNC.argmax(1, keepdim=True), gradient_BNC.argmin(1, keepdim=True)
    return gradient_BNC.scatter(1, largest_B1C, 0.0).scatter(1, smallest_B1C, 0.0)


def _regularised_mlp(mlp: nn.Module, given: tuple[Any, ...], output: Tensor) -> Tensor:
    return _changed(output, without_extreme_tokens, MLP_FACTOR)


def _changed(tensor: Tensor, change: Callable[[Tensor], Tensor], factor: float) -> Tensor:
    if tensor.requires_grad:
        tensor.register_hook(lambda gradient: factor * change(gradient))
    return tensor


def _children(module: nn.Module, names: tuple[str, ...]) -> list[nn.Module]:
    children: Mapping[str, nn.Module] = dict(module.named_children())
    return [children[name] for name in names if name in children]


def _mlps_beside(module: nn.Module, attentions: list[nn.Module]) -> list[nn.Module]:
    """Return the submodules ``mlp`` of blocks whose ``attn`` is one of the attention layers."""
    return [
        mlp
        for block in module.modules()
        if getattr(block, "attn", None) in attentions
        for mlp in _children(block, ("mlp",))
    ]
