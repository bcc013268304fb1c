"""Declaration of fully attentional networks, with attention over tokens and over channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from robench.attention.rpc import Rpc
from robench.attention.softmax import Softmax
from robench.attention.symmetric import Symmetric
from robench.attention.twicing import Twicing
from robench.models.residuals import Boost, PlainResidual
from robench.models.transformer import Count
from robench.models.vit import ImageTransformer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robench.declarations.base import DeclarationBase, FieldProblem

TOKEN_MIXINGS: Sequence[type[DeclarationBase]] = (Softmax, Symmetric, Rpc, Twicing)
FAN_RESIDUALS: Sequence[type[DeclarationBase]] = (PlainResidual, Boost)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fan(ImageTransformer):
    """Fully attentional network (FAN-ViT). Zhou et al. 2022, arXiv:2204.12451.

    The class token joins the patches after the last block that mixes tokens.

    Attributes:
        patch_size: 8 or 16 pixels, embedded by three or four convolutions.
        num_class_blocks: number of class-attention blocks after the ``depth`` others, the only ones with the class
            token.
        class_attention: ``softmax`` has a query projection (NVlabs/FAN); in ``symmetric`` the query is the class
            token's key, whatever ``attention`` is (rachtsy/FAN, models/fan_sym.py).
        attention: token mixing in the ``depth`` blocks: softmax, symmetric, rpc or twicing.
        residual: plain or boost.
    """

    kind: ClassVar[str] = "fan"
    implementation: ClassVar[str] = "robench.models.fan_impl:FullyAttentionalNetwork"

    num_class_blocks: Count = 2
    class_attention: Literal["softmax", "symmetric"] = "softmax"

    def contradictions(self) -> list[FieldProblem]:
        """Return problems between fields: sizes, layers and mechanisms must be supported by the backbone."""
        embedded = [] if self.patch_size in (8, 16) else [("patch_size", f"must be 8 or 16, got {self.patch_size}")]
        return [
            *embedded,
            *ImageTransformer.contradictions(self),
            *_refused("attention", self.attention, TOKEN_MIXINGS),
            *_refused("residual", self.residual, FAN_RESIDUALS),
        ]


def _refused(field_name: str, declared: DeclarationBase, taken: Sequence[type[DeclarationBase]]) -> list[FieldProblem]:
    if type(declared) in taken:
        return []
    kinds = ", ".join(sorted(kind.kind for kind in taken))
    return [(field_name, f"must be one that backbone fan takes ({kinds}), got {declared.kind}")]
