"""Declarations of residual connections, and base class of those of transformers over tokens of any kind."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from robench.attention.base import AttentionBase
from robench.attention.geometry import TokenLayout
from robench.attention.softmax import Softmax
from robench.declarations.base import CausalFormBase, FieldProblem
from robench.models.base import ArchitectureBase

# Beyond every published model; their combination has separate limits.
Count = Annotated[int, Ge(1), Le(1000)]
Width = Annotated[int, Ge(1), Le(65_536)]
NormPlace = Literal["pre", "post", "residual"]
# ViT-G has 1.8 billion parameters, which take a minute to draw.
MOST_PARAMETERS = 2_000_000_000


class ResidualBase(CausalFormBase):
    """Base class of residual connections; the implementation is a callable ``(declaration, parts) -> nn.Module``.

    A connection that does not mix tokens has a causal form: it is the same block.
    """

    family: ClassVar[str] = "residual connection"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainResidual(ResidualBase):
    """Plain residual connection: the input plus the branch."""

    kind: ClassVar[str] = "plain"
    implementation: ClassVar[str] = "robench.models.transformer_impl:PlainBlock"
    has_causal_form: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Boost(ResidualBase):
    """Boosted residual connection: Y' = f(Y) + t Y0 + (1 - t) Y with a learned t, zero at start; Y0 entered block 0."""

    kind: ClassVar[str] = "boost"
    implementation: ClassVar[str] = "robench.models.transformer_impl:BoostBlock"
    has_causal_form: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatScale(ResidualBase):
    """FeatScale: separate scaling of mean and remainder of the attention's output, by learned per-channel factors.

    Attributes:
        formula: factors 1 + lambda (``paper``), or 1 + 2 lambda, since the code adds them twice (``released``).
    """

    kind: ClassVar[str] = "featscale"
    implementation: ClassVar[str] = "robench.models.transformer_impl:FeatScaleBlock"
    not_causal: ClassVar[str] = "it scales the mean over all tokens, later ones too"

    formula: Literal["paper", "released"] = "paper"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer(ArchitectureBase):
    """Backbone of blocks over tokens, each with the declared attention and residual connection.

    A subclass adds the fields of its embedding, its MLP and its head, and says how many tokens and parameters they
    make. Its implementation derives from ``transformer_impl.TransformerModel``.

    Attributes:
        depth: number of blocks; ``num_heads``: number of attention heads in each.
        dim: width of a token, all heads together.
        attention: attention of the ``depth`` layers; ``residual``: the connection around it.
    """

    depth: Count
    dim: Width
    num_heads: Width
    attention: AttentionBase = field(default_factory=Softmax)
    residual: ResidualBase = field(default_factory=PlainResidual)

    @property
    def couples_rows(self) -> bool:
        """Return whether rows of a batch influence each other."""
        return self.attention.is_coupled

    @property
    def reads_causally(self) -> bool:
        """Return whether attention and residual connection are in their causal forms."""
        return False

    @property
    def num_tokens(self) -> int:
        """Return the number of tokens of an attention layer."""
        raise NotImplementedError

    @property
    def layout(self) -> TokenLayout:
        """Return the places of the tokens of an attention layer."""
        return TokenLayout()

    @property
    def mlp_parameters(self) -> int:
        """Return the approximate number of parameters of the MLP of a block."""
        raise NotImplementedError

    @property
    def embedding_parameters(self) -> int:
        """Return the approximate number of parameters outside the blocks."""
        raise NotImplementedError

    @property
    def num_parameters(self) -> int:
        """Return the approximate number of parameters, to refuse models that cannot be built."""
        of_attention = self.attention.parameters_in(num_tokens=self.num_tokens, num_heads=self.num_heads, dim=self.dim)
        return self.depth * (4 * self.dim**2 + self.mlp_parameters + of_attention) + self.embedding_parameters

    def contradictions(self) -> list[FieldProblem]:
        """Return the problems between sizes, between attention and backbone, and of parts without a causal form."""
        problems: list[FieldProblem] = []
        if self.dim % self.num_heads:
            problems.append(("dim", f"must be a multiple of num_heads {self.num_heads}, got {self.dim}"))
        if self.num_parameters > MOST_PARAMETERS:
            wanted = f"must be so small, with the other sizes, that there are at most {MOST_PARAMETERS:,} parameters"
            problems.append(("dim", f"{wanted}, got about {self.num_parameters:,}"))
        problems += self._attention_problems()
        if self.reads_causally:
            problems += [
                (name, f"must have a causal form; {part.kind} has none: {part.causal_problem}")
                for name, part in (("attention", self.attention), ("residual", self.residual))
                if part.causal_problem
            ]
        return problems

    def _attention_problems(self) -> list[FieldProblem]:
        """Return the problems of the attention: layers that the backbone does not have, and those of the mechanism."""
        problems = self.attention.problems_in(num_tokens=self.num_tokens, depth=self.depth)
        layers = self.attention.layers
        if layers != "all" and (wrong := [layer for layer in layers if not 0 <= layer < self.depth]):
            found = str(wrong) if len(wrong) <= 10 else f"{wrong[:10]} and {len(wrong) - 10} more"
            problems = [("layers", f"must lie in 0..{self.depth - 1} (depth {self.depth}), got {found}"), *problems]
        return [(f"attention.{name}", message) for name, message in problems]
