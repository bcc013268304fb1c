"""Declaration of RVT's position-aware attention scaling."""

from dataclasses import dataclass
from typing import ClassVar

from robench.attention.base import AttentionBase, Formula


@dataclass(frozen=True, slots=True, kw_only=True)
class Rvt(AttentionBase):
    """Position-aware attention scaling of RVT: the logits are multiplied by the sigmoid of a learned matrix.

    Attributes:
        formula: keys as projected, as in RVT (``paper``), or of unit length, as in the code of Robust KDE, which uses
            RVT as a baseline (``released``).
    """

    kind: ClassVar[str] = "rvt"
    implementation: ClassVar[str] = "robench.attention.rvt_impl:RvtAttention"
    not_causal: ClassVar[str] = (
        "its learned matrix has a weight for each pair of places of an image, and no form of it for texts is defined"
    )

    formula: Formula = "paper"

    @property
    def mask_problem(self) -> str:
        """Return the reason why padding cannot be left out of the keys."""
        return "its learned matrix has a weight for each pair of places"

    def parameters_in(self, *, num_tokens: int, num_heads: int, dim: int) -> int:
        """Return the number of parameters of a layer beyond those of softmax attention."""
        return num_heads * num_tokens**2
