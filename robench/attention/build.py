"""From a mechanism's declaration to the module of one layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from robench.attention import ATTENTIONS
from robench.attention.base import AttentionBase
from robench.core.errors import UnknownNameError

if TYPE_CHECKING:
    from robench.attention.geometry import Geometry
    from robench.core.protocols import Declaration


def build_attention(declaration: Declaration, geometry: Geometry) -> nn.Module:
    """Return the declared mechanism for one layer, with initial weights from torch's global generator.

    Raises:
        UnknownNameError: the declaration is of no attention mechanism.
    """
    if not isinstance(declaration, AttentionBase):
        raise UnknownNameError("attention", declaration.kind, ATTENTIONS)
    declared = declaration_at(declaration, geometry.layer)
    module: nn.Module = declared.implemented()(declared, geometry)
    return module


def declaration_at(declaration: AttentionBase, layer: int) -> AttentionBase:
    """Return what the declaration asks for at a layer: itself, or the mechanism that it names for elsewhere."""
    if declaration.layers == "all" or layer in declaration.layers:
        return declaration
    return ATTENTIONS[declaration.elsewhere]()
