"""Declaration of scaled dot-product attention."""

from dataclasses import dataclass
from typing import ClassVar

from robench.attention.base import AttentionBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Softmax(AttentionBase):
    """Scaled dot-product attention. Vaswani et al. 2017, arXiv:1706.03762."""

    kind: ClassVar[str] = "softmax"
    implementation: ClassVar[str] = "robench.attention.softmax_impl:SoftmaxAttention"
    has_causal_form: ClassVar[bool] = True
