"""Base class of the declarations of attention mechanisms, and shared types of their fields."""

from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from robench.declarations.base import LARGEST, CausalFormBase, FieldProblem

# The two definitions of a mechanism: as printed in the paper, and as computed by the authors' public code.
Formula = Literal["paper", "released"]
# Logits of positions in mechanisms that approximate softmax attention.
Positions = Literal["none", "alibi", "bilateral"]
Layers = Literal["all"] | tuple[int, ...]
Count = Annotated[int, Ge(1), Le(LARGEST)]


class AttentionBase(CausalFormBase):
    """Declaration of an attention mechanism; the defaults are those of softmax attention.

    The implementation is a callable ``(declaration, geometry) -> nn.Module``; the module takes tokens (B, N, C) and the
    state of the forward pass (``attention.state``).

    With ``has_causal_form``, the module is causal where the geometry ``is_causal``, and then takes up to its
    ``num_tokens`` tokens. Its parameters have the shapes of the other form's unless its documentation says otherwise.
    """

    family: ClassVar[str] = "attention"

    @property
    def mask_problem(self) -> str:
        """Return the reason why padding cannot be left out of the keys; empty if it can.

        The outputs at valid tokens are then those of the valid tokens alone.
        """
        return "rows of a batch influence each other" if self.is_coupled else ""

    @property
    def layers(self) -> Layers:
        """Return the 0-based layers with this mechanism, or ``all``."""
        return "all"

    @property
    def elsewhere(self) -> str:
        """Return the kind of the mechanism in all other layers."""
        return "softmax"

    @property
    def is_coupled(self) -> bool:
        """Return whether rows of a batch influence each other, so that outputs depend on the batch."""
        return False

    def parameters_in(self, *, num_tokens: int, num_heads: int, dim: int) -> int:
        """Return the number of parameters of a layer beyond those of softmax attention."""
        return 0

    def problems_in(self, *, num_tokens: int, depth: int) -> list[FieldProblem]:
        """Return the incompatibilities with a backbone of this many tokens and layers."""
        return []


def too_many(field: str, asked: int, num_tokens: int) -> list[FieldProblem]:
    """Return a message if more is requested than there are tokens, otherwise no message."""
    return (
        [(field, f"must be at most the {num_tokens} tokens of the backbone, got {asked}")] if asked > num_tokens else []
    )
