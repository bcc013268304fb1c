"""Declaration of attention with the keys as queries."""

from dataclasses import dataclass
from typing import ClassVar

from robench.attention.base import AttentionBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Symmetric(AttentionBase):
    """Attention with the keys as queries: softmax(K K^T / sqrt(d)) V."""

    kind: ClassVar[str] = "symmetric"
    implementation: ClassVar[str] = "robench.attention.symmetric_impl:SymmetricAttention"
    has_causal_form: ClassVar[bool] = True
