"""Declaration of a mixture of Gaussian keys."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from robench.attention.base import AttentionBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Mgk(AttentionBase):
    """Mixture of Gaussian keys: several weighted keys per token. Nguyen et al. 2022, arXiv:2110.08678.

    Attributes:
        num_mixtures: number of keys per token.
    """

    kind: ClassVar[str] = "mgk"
    implementation: ClassVar[str] = "robench.attention.mgk_impl:MgkAttention"
    has_causal_form: ClassVar[bool] = True

    num_mixtures: Annotated[int, Ge(2), Le(1000)] = 2

    def parameters_in(self, *, num_tokens: int, num_heads: int, dim: int) -> int:
        """Return the number of parameters of a layer beyond those of softmax attention."""
        return (self.num_mixtures - 1) * dim**2
