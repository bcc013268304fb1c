"""Declaration of attention whose keys are also its queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from robench.attention.base import AttentionBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Symmetric(AttentionBase):
    """Attention in which the keys are also the queries: softmax(K K^T / sqrt(d)) V."""

    kind: ClassVar[str] = "symmetric"
    implementation: ClassVar[str] = "robench.attention.symmetric_impl:SymmetricAttention"
