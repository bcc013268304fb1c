"""Attention mechanisms and residual connections of a transformer block.

``formula`` tells the two readings of a mechanism apart: ``paper`` is what is printed, ``released`` what the authors'
public code computes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from robench.declarations.attention_base import AttentionBase
from robench.declarations.base import LARGEST, DeclarationBase
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
from robench.declarations.residuals import Boost, FeatScale
from robench.declarations.spkde_attention import Spkde

if TYPE_CHECKING:
    from collections.abc import Mapping

Formula = Literal["paper", "released"]
Layers = Literal["all"] | tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Softmax(AttentionBase):
    """Scaled dot-product attention. Vaswani et al. 2017, arXiv:1706.03762."""

    kind: ClassVar[str] = "softmax"


@dataclass(frozen=True, slots=True, kw_only=True)
class Symmetric(AttentionBase):
    """Attention in which the keys are also the queries: softmax(K K^T / sqrt(d)) V."""

    kind: ClassVar[str] = "symmetric"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rpc(AttentionBase):
    """Robust principal component attention: the keys are cleaned of sparse corruption by principal attention pursuit.

    Attributes:
        num_iterations: iterations of principal attention pursuit, the last softmax included.
        sparsity: lambda of the paper, the weight of the sparse term.
        layers: 0-based layers that clean their keys, or ``all``.
        elsewhere: mechanism of the other layers.
        formula: threshold lambda / mu per head (``paper``), or lambda * mu with the full width (``released``).
    """

    kind: ClassVar[str] = "rpc"

    num_iterations: Annotated[int, Ge(1), Le(1000)] = 4
    sparsity: Annotated[float, Ge(0), Le(LARGEST)] = 4.0
    layers: Layers = (0,)
    elsewhere: Literal["softmax", "symmetric"] = "symmetric"
    formula: Formula = "paper"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainResidual(DeclarationBase):
    """The usual residual connection: the input plus the branch."""

    kind: ClassVar[str] = "plain"


ATTENTIONS: Mapping[str, type[AttentionBase]] = {
    "softmax": Softmax,
    "symmetric": Symmetric,
    "rpc": Rpc,
    "rpc-asymmetric": RpcAsymmetric,
    "scaled": Scaled,
    "bilateral": Bilateral,
    "alibi": Alibi,
    "twicing": Twicing,
    "linear": Linear,
    "linear-twicing": LinearTwicing,
    "neutreno": Neutreno,
    "attnscale": AttnScale,
    "kde": Kde,
    "rkde": Rkde,
    "spkde": Spkde,
    "mom": Mom,
    "fourier-mom": FourierMom,
    "fourier": Fourier,
    "mgk": Mgk,
    "performer": Performer,
    "primal": Primal,
    "elliptical": Elliptical,
    "rvt": Rvt,
    "linformer": Linformer,
    "nystrom": Nystrom,
}
RESIDUALS: Mapping[str, type[DeclarationBase]] = {"plain": PlainResidual, "boost": Boost, "featscale": FeatScale}
