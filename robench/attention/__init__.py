"""Attention mechanisms, one a file; imported by ``models`` alone.

A mechanism is a module over tokens (B, N, C) and the state of the forward pass that stands where timm's ``block.attn``
stood. Each is made from its declaration and the sizes of its layer, and may hold any parameters. A layer that stands
alone may be called without a state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from robench.attention.alibi_impl import AlibiAttention
from robench.attention.attnscale_impl import AttnScaleAttention
from robench.attention.bilateral_impl import BilateralAttention
from robench.attention.elliptical_impl import EllipticalAttention
from robench.attention.fourier_impl import FourierAttention
from robench.attention.fourier_mom_impl import FourierMomAttention
from robench.attention.geometry import Geometry
from robench.attention.kde_impl import KdeAttention
from robench.attention.linear_impl import LinearAttention
from robench.attention.linear_twicing_impl import LinearTwicingAttention
from robench.attention.linformer_impl import LinformerAttention
from robench.attention.mgk_impl import MgkAttention
from robench.attention.mom_impl import MomAttention
from robench.attention.neutreno_impl import NeutrenoAttention
from robench.attention.nystrom_impl import NystromAttention
from robench.attention.performer_impl import PerformerAttention
from robench.attention.primal_impl import PrimalAttention
from robench.attention.rkde_impl import RkdeAttention
from robench.attention.rpc_asymmetric_impl import RpcAsymmetricAttention
from robench.attention.rpc_impl import RpcAttention
from robench.attention.rvt_impl import RvtAttention
from robench.attention.scaled_impl import ScaledAttention
from robench.attention.softmax_impl import SoftmaxAttention
from robench.attention.spkde_impl import SpkdeAttention
from robench.attention.state import ForwardState
from robench.attention.symmetric_impl import SymmetricAttention
from robench.attention.twicing_impl import TwicingAttention
from robench.core.errors import UnknownNameError
from robench.declarations import attentions
from robench.declarations.attentions import Rpc, Softmax, Symmetric
from robench.declarations.dot_attentions import (
    Alibi,
    AttnScale,
    Bilateral,
    Elliptical,
    Neutreno,
    RpcAsymmetric,
    Rvt,
    Scaled,
    Twicing,
)
from robench.declarations.kernel_attentions import Fourier, Kde, Mgk, Rkde
from robench.declarations.linear_attentions import Linear, LinearTwicing, Linformer, Nystrom, Performer
from robench.declarations.mom_attentions import FourierMom, Mom
from robench.declarations.primal_attention import Primal
from robench.declarations.spkde_attention import Spkde

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
    RpcAsymmetric: RpcAsymmetricAttention,
    Scaled: ScaledAttention,
    Bilateral: BilateralAttention,
    Alibi: AlibiAttention,
    Twicing: TwicingAttention,
    Linear: LinearAttention,
    LinearTwicing: LinearTwicingAttention,
    Neutreno: NeutrenoAttention,
    AttnScale: AttnScaleAttention,
    Kde: KdeAttention,
    Rkde: RkdeAttention,
    Spkde: SpkdeAttention,
    Mom: MomAttention,
    FourierMom: FourierMomAttention,
    Fourier: FourierAttention,
    Mgk: MgkAttention,
    Performer: PerformerAttention,
    Primal: PrimalAttention,
    Elliptical: EllipticalAttention,
    Rvt: RvtAttention,
    Linformer: LinformerAttention,
    Nystrom: NystromAttention,
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
