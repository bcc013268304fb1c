"""Declaration of one attention layer over tokens, without a backbone."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from robench.attention.base import AttentionBase
from robench.attention.softmax import Softmax
from robench.declarations.base import FieldProblem
from robench.models.base import ArchitectureBase
from robench.models.transformer import Width

# Of DeiT-tiny. Touvron et al. 2021, arXiv:2012.12877, table 1.
DIM, NUM_HEADS = 192, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleLayer(ArchitectureBase):
    """Single attention layer, whose inputs are tokens (N, C); registries cannot name it.

    It is a layer that has the mechanism, and not the first where that is another one, such as softmax attention.

    Attributes:
        attention: its mechanism.
        num_tokens: N; ``dim``: C; ``num_heads``: number of heads.
    """

    kind: ClassVar[str] = "single-layer"
    implementation: ClassVar[str] = "robench.models.single_layer_impl:LayerOfTokens"

    attention: AttentionBase = field(default_factory=Softmax)
    num_tokens: Annotated[int, Ge(1), Le(65_536)]
    dim: Width = DIM
    num_heads: Width = NUM_HEADS

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Return the shape of an input."""
        return self.num_tokens, self.dim

    @property
    def layer(self) -> int:
        """Return the 0-based place of the layer."""
        return 1 if self.attention.layers == "all" else self.attention.layers[0]

    @property
    def depth(self) -> int:
        """Return the number of layers of the backbone that it is taken from."""
        return max(2, self.layer + 1)

    def contradictions(self) -> list[FieldProblem]:
        """Return the problems between sizes, and between attention and number of tokens."""
        problems = self.attention.problems_in(num_tokens=self.num_tokens, depth=self.depth)
        found = [(f"attention.{field_name}", message) for field_name, message in problems]
        if self.dim % self.num_heads:
            found.append(("dim", f"must be a multiple of num_heads {self.num_heads}, got {self.dim}"))
        return found
