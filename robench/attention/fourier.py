"""Declaration of FourierFormer."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from robench.attention.base import AttentionBase
from robench.declarations.base import LARGEST, FieldProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Fourier(AttentionBase):
    """FourierFormer: products of sinc functions with one learned radius. Nguyen et al. 2022, arXiv:2206.00206.

    Attributes:
        power: exponent of each sinc; even, so that no kernel is negative.
    """

    kind: ClassVar[str] = "fourier"
    # 2: numpy's sines and logarithms on a processor, which round otherwise.
    version: ClassVar[int] = 2
    implementation: ClassVar[str] = "robench.attention.fourier_impl:FourierAttention"
    has_causal_form: ClassVar[bool] = True

    power: Annotated[int, Ge(2), Le(LARGEST)] = 4

    def contradictions(self) -> list[FieldProblem]:
        """Refuse odd powers, whose kernels are negative in places, so that their sum may be zero."""
        return [("power", f"must be even, got {self.power}")] if self.power % 2 else []
