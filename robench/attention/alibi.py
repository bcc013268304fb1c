"""Declaration of attention with linear biases."""

from dataclasses import dataclass
from typing import ClassVar

from robench.attention.base import AttentionBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Alibi(AttentionBase):
    """Softmax attention whose logits fall linearly with distance, by a fixed slope for each head."""

    kind: ClassVar[str] = "alibi"
    implementation: ClassVar[str] = "robench.attention.alibi_impl:AlibiAttention"
    has_causal_form: ClassVar[bool] = True
