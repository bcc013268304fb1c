"""Declaration of twicing attention."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from robench.attention.base import AttentionBase, Layers


@dataclass(frozen=True, slots=True, kw_only=True)
class Twicing(AttentionBase):
    """Twicing attention: A V + A (V - A V) with A the softmax weights, which adds back the smoothed residual.

    Attributes:
        layers: 0-based layers with this mechanism, or ``all``; ``elsewhere``: mechanism of the other layers.
    """

    kind: ClassVar[str] = "twicing"
    implementation: ClassVar[str] = "robench.attention.twicing_impl:TwicingAttention"
    has_causal_form: ClassVar[bool] = True

    layers: Layers = "all"
    elsewhere: Literal["softmax"] = "softmax"
