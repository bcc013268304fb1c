"""Declaration of linear attention."""

from dataclasses import dataclass
from typing import ClassVar

from robench.attention.base import AttentionBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear(AttentionBase):
    """Linear attention: the feature map elu(x) + 1 in place of the softmax, with neither a scale nor an epsilon.

    Katharopoulos et al. 2020, arXiv:2006.16236.
    """

    kind: ClassVar[str] = "linear"
    implementation: ClassVar[str] = "robench.attention.linear_impl:LinearAttention"
    has_causal_form: ClassVar[bool] = True
