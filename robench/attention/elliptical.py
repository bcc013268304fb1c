"""Declaration of elliptical attention."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Gt, Le

from robench.attention.base import AttentionBase
from robench.declarations.base import LARGEST, FieldProblem

DEFAULT_DELTA = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Elliptical(AttentionBase):
    """Elliptical attention: coordinates in which attention changes much have more weight in the scores.

    Attributes:
        delta: step between layers, the divisor of the change; it cancels, since the largest change is normalised to 1.
        estimator: change of the values since the previous layer (``over_layers``), or of the layer's own output when
            each coordinate of its queries is moved (``finite_differences``).
    """

    kind: ClassVar[str] = "elliptical"
    implementation: ClassVar[str] = "robench.attention.elliptical_impl:EllipticalAttention"
    has_causal_form: ClassVar[bool] = True

    delta: Annotated[float, Gt(0), Le(LARGEST)] = DEFAULT_DELTA
    estimator: Literal["over_layers", "finite_differences"] = "over_layers"

    def contradictions(self) -> list[FieldProblem]:
        """Refuse delta with finite differences, which define their own step."""
        if self.estimator == "over_layers" or self.delta == DEFAULT_DELTA:
            return []
        return [("delta", f"has no effect with estimator finite_differences, got {self.delta}")]
