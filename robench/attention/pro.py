"""Declaration of attention by a robust mean of the values."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le

from robench.attention.base import AttentionBase, Formula
from robench.declarations.base import LARGEST, FieldProblem

DEFAULT_DELTA, DEFAULT_GAMMA = 1.0, 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pro(AttentionBase):
    """ProAttention: values far from a query's output have less weight, by iteratively re-weighted least squares.

    Attributes:
        penalty: penalty on the distance of a value from the output; ``huber-mcp`` is quadratic up to delta.
        delta: distance from which ``huber`` and ``huber-mcp`` weigh a value less, read by these alone.
        gamma: distance from which ``mcp`` and ``huber-mcp`` give a value no weight, read by these alone.
        num_steps: number of re-weightings; 0 is softmax attention.
        formula: weights as printed (``paper``), or with 0.01 added to distances, and no weight of ``mcp`` and
            ``huber-mcp`` below 0.01 (``released``).
    """

    kind: ClassVar[str] = "pro"
    implementation: ClassVar[str] = "robench.attention.pro_impl:ProAttention"
    has_causal_form: ClassVar[bool] = True

    penalty: Literal["l1", "huber", "mcp", "huber-mcp"] = "mcp"
    delta: Annotated[float, Gt(0), Le(LARGEST)] = DEFAULT_DELTA
    gamma: Annotated[float, Gt(0), Le(LARGEST)] = DEFAULT_GAMMA
    num_steps: Annotated[int, Ge(0), Le(1000)] = 3
    formula: Formula = "paper"

    def contradictions(self) -> list[FieldProblem]:
        """Refuse constants that the penalty does not read, and a gamma that is not above delta where both count."""
        unread = {
            "delta": "huber" not in self.penalty and self.delta != DEFAULT_DELTA,
            "gamma": "mcp" not in self.penalty and self.gamma != DEFAULT_GAMMA,
        }
        problems = [
            (name, f"has no effect with penalty {self.penalty}, got {getattr(self, name):g}")
            for name, is_unread in unread.items()
            if is_unread
        ]
        if self.penalty == "huber-mcp" and self.gamma <= self.delta:
            problems.append(("gamma", f"must be above delta {self.delta:g}, got {self.gamma:g}"))
        return problems
