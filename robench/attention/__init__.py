"""Attention mechanisms, one a file; imported by ``models`` alone.

A mechanism is a module over tokens (B, N, C) and the state of the forward pass that stands where timm's ``block.attn``
stood. Each is made from its declaration and the sizes of its layer, and may hold any parameters. A layer that stands
alone may be called without a state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from robench.attention.geometry import Geometry
from robench.attention.rpc import RpcAttention
from robench.attention.softmax import SoftmaxAttention
from robench.attention.state import ForwardState
from robench.attention.symmetric import SymmetricAttention
from robench.core.errors import UnknownNameError
from robench.declarations import attentions
from robench.declarations.attentions import Rpc, Softmax, Symmetric

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import nn

    from robench.core.protocols import Declaration
    from robench.declarations.attentions import Layers

__all__ = ["ATTENTIONS", "ForwardState", "Geometry", "build_attention", "declaration_at"]

# Any: each implementation takes its own declaration, which the key beside it names.
ATTENTIONS: Mapping[type, Callable[[Any, Geometry], nn.Module]] = {
    Softmax: SoftmaxAttention,
    Symmetric: SymmetricAttention,
    Rpc: RpcAttention,
}


def build_attention(declaration: Declaration, geometry: Geometry) -> nn.Module:
    """Return the declared mechanism for one layer, with initial weights from torch's global generator.

    Raises:
        UnknownNameError: no implementation belongs to the declaration.
    """
    declared = declaration_at(declaration, geometry.layer)
    if type(declared) not in ATTENTIONS:
        raise UnknownNameError("attention", declared.kind, attentions.ATTENTIONS)
    return ATTENTIONS[type(declared)](declared, geometry)


def declaration_at(declaration: Declaration, layer: int) -> Declaration:
    """Return what the declaration asks for at a layer: itself, or the mechanism that it names for elsewhere."""
    layers: Layers = getattr(declaration, "layers", "all")
    if layers == "all" or layer in layers:
        return declaration
    elsewhere: str = declaration.elsewhere  # type: ignore[attr-defined]  # declarations with layers have it
    return attentions.ATTENTIONS[elsewhere]()
