"""Declaration of RVT's position-aware attention scaling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from robench.attention.base import AttentionBase, Formula


@dataclass(frozen=True, slots=True, kw_only=True)
class Rvt(AttentionBase):
    """RVT's position-aware attention scaling: the logits are multiplied by sigmoid of a learned matrix.

    Attributes:
        formula: keys as projected, as RVT has it (``paper``), or of unit length, as the code of Robust KDE, whose
            baseline RVT is, has it (``released``).
    """

    kind: ClassVar[str] = "rvt"
    implementation: ClassVar[str] = "robench.attention.rvt_impl:RvtAttention"

    formula: Formula = "paper"

    def parameters_in(self, *, num_tokens: int, num_heads: int, dim: int) -> int:
        """Return how many parameters a layer has beside those of softmax attention."""
        return num_heads * num_tokens**2
