"""From a mechanism's declaration to the module of one layer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from torch import Tensor, nn

from robench.attention import ATTENTIONS
from robench.attention.base import AttentionBase
from robench.core.errors import ContractError, UnknownNameError
from robench.core.providers import provider_of, title_of

if TYPE_CHECKING:
    from robench.attention.geometry import Geometry
    from robench.core.protocols import Declaration


def build_attention(declaration: Declaration, geometry: Geometry) -> nn.Module:
    """Return the declared mechanism for one layer, with initial weights from torch's global generator.

    Raises:
        UnknownNameError: the declaration is of no attention mechanism.
        ContractError: a mechanism that is not robench's is no module.
    """
    if not isinstance(declaration, AttentionBase):
        raise UnknownNameError("attention", declaration.kind, ATTENTIONS)
    declared = declaration_at(declaration, geometry.layer)
    module: nn.Module = declared.implemented()(declared, geometry)
    if provider_of(declared) is not None:
        title = title_of("attention", declared, declared.kind)
        if not isinstance(module, nn.Module):
            raise ContractError(f"{title} returned a {type(module).__name__}, wanted a torch.nn.Module")
        module.register_forward_hook(partial(_check_tokens, title))
    return module


def _check_tokens(title: str, module: nn.Module, given: tuple[object, ...], output: object) -> None:
    """Refuse what an attention mechanism of others made of tokens (B, N, C) where it is no such tokens."""
    tokens = given[0]
    assert isinstance(tokens, Tensor)  # the blocks are robench's
    if not isinstance(output, Tensor):
        raise ContractError(f"{title} returned a {type(output).__name__}, wanted tokens {tuple(tokens.shape)}")
    if output.shape != tokens.shape or output.dtype != tokens.dtype:
        met, wanted = ((tuple(each.shape), each.dtype) for each in (output, tokens))
        raise ContractError(f"{title} returned {met[0]} of {met[1]}, wanted {wanted[0]} of {wanted[1]}")


def declaration_at(declaration: AttentionBase, layer: int) -> AttentionBase:
    """Return what the declaration asks for at a layer: itself, or the mechanism that it names for elsewhere."""
    if declaration.layers == "all" or layer in declaration.layers:
        return declaration
    return ATTENTIONS[declaration.elsewhere]()
