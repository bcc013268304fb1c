"""Declaration of cosine attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Gt, Le
from robench.attention.base import AttentionBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Cosine(AttentionBase):
    """Softmax attention over the cosines of queries and keys. Liu et al. 2022, arXiv:2111.09883, section 3.2.

    Attributes:
        scale: factor of the cosines at the start of training; each head learns its own.
    """

    kind: ClassVar[str] = "cosine"
    implementation: ClassVar[str] = "robench_example_plugin.cosine_impl:CosineAttention"

    scale: Annotated[float, Gt(0), Le(1000)] = 10.0

    def parameters_in(self, *, num_tokens: int, num_heads: int, dim: int) -> int:
        """Return the number of parameters of a layer beyond those of softmax attention."""
        return num_heads
