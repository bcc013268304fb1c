"""Declaration of twicing over linear attention."""

from dataclasses import dataclass
from typing import ClassVar

from robench.attention.base import AttentionBase


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearTwicing(AttentionBase):
    """Twicing over linear attention: A V + A (V - A V) with A the weights of linear attention. Twicing paper, B.1."""

    kind: ClassVar[str] = "linear-twicing"
    implementation: ClassVar[str] = "robench.attention.linear_twicing_impl:LinearTwicingAttention"
    has_causal_form: ClassVar[bool] = True
