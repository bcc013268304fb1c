"""Declaration of AttnScale."""

from dataclasses import dataclass
from typing import ClassVar

from robench.attention.base import AttentionBase


@dataclass(frozen=True, slots=True, kw_only=True)
class AttnScale(AttentionBase):
    """AttnScale: scaling of the softmax weights' deviation from their mean by 1 + lambda, learned for each head."""

    kind: ClassVar[str] = "attnscale"
    implementation: ClassVar[str] = "robench.attention.attnscale_impl:AttnScaleAttention"
    not_causal: ClassVar[str] = "the uniform weights that it scales around are over all tokens, later ones too"
