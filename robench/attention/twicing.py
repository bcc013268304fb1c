"""Declaration of twicing attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from robench.attention.base import AttentionBase, Layers


@dataclass(frozen=True, slots=True, kw_only=True)
class Twicing(AttentionBase):
    """Twicing attention: A V + A (V - A V) with A the softmax weights, so that what smoothing lost is added again.

    Attributes:
        layers: 0-based layers that do so, or ``all``; ``elsewhere``: mechanism of the other layers.
    """

    kind: ClassVar[str] = "twicing"
    implementation: ClassVar[str] = "robench.attention.twicing_impl:TwicingAttention"

    layers: Layers = "all"
    elsewhere: Literal["softmax"] = "softmax"
