"""Construction of one layer's module from a mechanism's declaration."""

from functools import partial

from torch import Tensor, nn

from robench.attention import ATTENTIONS
from robench.attention.base import AttentionBase
from robench.attention.geometry import Geometry
from robench.core.errors import ContractError
from robench.core.providers import provider_of, title_of


def build_attention(declaration: AttentionBase, geometry: Geometry) -> nn.Module:
    """Return the declared mechanism for one layer, with initial weights from torch's global generator.

    Raises:
        ContractError: a third-party mechanism did not return a module.
        DeclarationError: a causal layer is wanted of a mechanism without a causal form, or of settings without one.
    """
    declared = declaration_at(declaration, geometry.layer)
    module: nn.Module = declared.implemented_for(is_causal=geometry.is_causal)(declared, geometry)
    if provider_of(declared) is not None:
        title = title_of("attention", declared, declared.kind)
        if not isinstance(module, nn.Module):
            raise ContractError(f"{title} returned a {type(module).__name__}, wanted a torch.nn.Module")
        module.register_forward_hook(partial(_check_tokens, title))
    return module


def _check_tokens(title: str, module: nn.Module, given: tuple[object, ...], output: object) -> None:
    """Refuse outputs of a third-party mechanism that are not tokens like its inputs (B, N, C)."""
    tokens = given[0]
    assert isinstance(tokens, Tensor)  # the blocks are robench's
    if not isinstance(output, Tensor):
        raise ContractError(f"{title} returned a {type(output).__name__}, wanted tokens {tuple(tokens.shape)}")
    if output.shape != tokens.shape or output.dtype != tokens.dtype:
        found, wanted = ((tuple(each.shape), each.dtype) for each in (output, tokens))
        raise ContractError(f"{title} returned {found[0]} of {found[1]}, wanted {wanted[0]} of {wanted[1]}")


def declaration_at(declaration: AttentionBase, layer: int) -> AttentionBase:
    """Return the declaration for a layer: itself, or the mechanism that it names for other layers."""
    if declaration.layers == "all" or layer in declaration.layers:
        return declaration
    return ATTENTIONS[declaration.elsewhere]()
