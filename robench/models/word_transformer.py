"""Base class of the declarations of transformers over words: sizes, attention and residual connection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, Le, Lt

from robench.attention.base import AttentionBase
from robench.attention.softmax import Softmax
from robench.declarations.base import LARGEST, FieldProblem
from robench.models.base import ArchitectureBase
from robench.models.experts import Experts
from robench.models.residuals import PlainResidual, ResidualBase
from robench.models.transformer import MOST_PARAMETERS, Count, Width, attention_problems


@dataclass(frozen=True, slots=True, kw_only=True)
class WordTransformer(ArchitectureBase):
    """Backbone of attention layers over words, whose vocabulary is part of its weights.

    Attributes:
        vocabulary_size: number of words, the end of a line and the unknown word included.
        depth, dim, num_heads: sizes, ``dim`` of all heads together.
        feedforward: hidden width of the MLP, or of each expert.
        context: largest number of words that are read at once.
        attention: attention of the layers; ``residual``: the connection around it.
        experts: sparse mixture of experts in place of each block's MLP; None for the MLP.
        norm: ``pre``: each branch begins with a LayerNorm, and another follows the last block, as in GPT-2; ``post``:
            a LayerNorm follows each residual connection, as in Vaswani et al. 2017 and the papers' models.
        activation: activation of the MLP.
        dropout: probability with which training zeroes values of embedded words, and of each branch.
    """

    vocabulary_size: Annotated[int, Ge(2), Le(LARGEST)]
    depth: Count
    dim: Width
    num_heads: Width
    feedforward: Width
    context: Annotated[int, Ge(1), Le(65_536)]
    attention: AttentionBase = field(default_factory=Softmax)
    residual: ResidualBase = field(default_factory=PlainResidual)
    experts: Experts | None = None
    norm: Literal["pre", "post"] = "pre"
    activation: Literal["gelu", "relu"] = "gelu"
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.0

    @property
    def couples_rows(self) -> bool:
        """Return whether rows of a batch influence each other."""
        return self.attention.is_coupled

    @property
    def num_tokens(self) -> int:
        """Return the number of tokens of an attention layer."""
        return self.context

    @property
    def num_parameters(self) -> int:
        """Return the approximate number of parameters, to refuse models that cannot be built."""
        of_block = 4 * self.dim**2
        if self.experts is None:
            of_block += 2 * self.dim * self.feedforward
        else:
            of_block += self.experts.parameters_in(dim=self.dim, feedforward=self.feedforward)
        of_block += self.attention.parameters_in(num_tokens=self.num_tokens, num_heads=self.num_heads, dim=self.dim)
        return self.vocabulary_size * self.dim + self.depth * of_block

    @property
    def reads_causally(self) -> bool:
        """Return whether attention and residual connection are in their causal forms."""
        return False

    def contradictions(self) -> list[FieldProblem]:
        """Return the problems between sizes, between attention and backbone, and of parts without a causal form."""
        problems: list[FieldProblem] = []
        if self.dim % self.num_heads:
            problems.append(("dim", f"must be a multiple of num_heads {self.num_heads}, got {self.dim}"))
        if self.num_parameters > MOST_PARAMETERS:
            problems.append(("", f"has {self.num_parameters:,} parameters, more than {MOST_PARAMETERS:,}"))
        problems += attention_problems(self.attention, num_tokens=self.num_tokens, depth=self.depth)
        return problems + (self._causal_problems() if self.reads_causally else [])

    def _causal_problems(self) -> list[FieldProblem]:
        return [
            (name, f"must have a causal form; {part.kind} has none: {part.causal_problem}")
            for name, part in (("attention", self.attention), ("residual", self.residual))
            if part.causal_problem
        ]
