"""Declaration of bilateral attention over contents and positions."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Gt, Le

from robench.attention.base import AttentionBase
from robench.declarations.base import LARGEST, FieldProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Bilateral(AttentionBase):
    """Bilateral attention: the sum of logits of contents and logits of positions, through the same W_Q and W_K.

    Attributes:
        content_bandwidth, position_bandwidth: h^2 in the paper, the divisor of the logits; None for sqrt(d).
        positions: encoding of a token's position: the backbone's learned vectors, sinusoids, ALiBi's distances in place
            of the positional logits, or nothing (``none``, the paper's Nonlocal attention).
    """

    kind: ClassVar[str] = "bilateral"
    implementation: ClassVar[str] = "robench.attention.bilateral_impl:BilateralAttention"
    has_causal_form: ClassVar[bool] = True

    content_bandwidth: Annotated[float | None, Gt(0), Le(LARGEST)] = None
    position_bandwidth: Annotated[float | None, Gt(0), Le(LARGEST)] = None
    positions: Literal["learned", "sinusoid", "alibi", "none"] = "learned"

    def contradictions(self) -> list[FieldProblem]:
        """Refuse a position bandwidth without vectors of positions."""
        if self.position_bandwidth is None or self.positions in ("learned", "sinusoid"):
            return []
        return [("position_bandwidth", f"has no effect with positions {self.positions}, got {self.position_bandwidth}")]
