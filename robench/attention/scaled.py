"""Declaration of the RPC paper's scaled attention."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from robench.attention.base import AttentionBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled(AttentionBase):
    """Scaled attention of the RPC paper: softmax(Q K^T / sqrt(d)) (I - S) V with a learned S, zero at start.

    Attributes:
        parameterization: parameterisation of S: a matrix for each head (``matrix``), or s softmax(K K^T / sqrt(d))
            (``scalar``).
    """

    kind: ClassVar[str] = "scaled"
    implementation: ClassVar[str] = "robench.attention.scaled_impl:ScaledAttention"
    not_causal: ClassVar[str] = "S V mixes the values of all tokens, later ones too, before any is weighed"

    parameterization: Literal["matrix", "scalar"] = "matrix"

    @property
    def mask_problem(self) -> str:
        """Return the reason why padding cannot be left out of the keys."""
        return "S has a weight for each pair of places" if self.parameterization == "matrix" else ""

    def parameters_in(self, *, num_tokens: int, num_heads: int, dim: int) -> int:
        """Return the number of parameters of a layer beyond those of softmax attention."""
        return num_heads * num_tokens**2 if self.parameterization == "matrix" else 0
