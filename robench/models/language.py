"""Declaration of word-level language models: causal transformers."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le, Lt, MaxLen

from robench.attention.base import AttentionBase
from robench.attention.softmax import Softmax
from robench.declarations.base import LARGEST, FieldProblem
from robench.models.base import ArchitectureBase
from robench.models.residuals import PlainResidual, ResidualBase
from robench.models.transformer import MOST_PARAMETERS, Count, Width


@dataclass(frozen=True, slots=True, kw_only=True)
class Language(ArchitectureBase):
    """Causal transformer over words, whose vocabulary is part of its weights.

    A text is read in windows of ``context`` words. The first window scores all its words; each later one, ``stride``
    words further, scores its last ``stride``, so that with stride 1 every word has the longest context.

    Attributes:
        vocabulary_size: number of words, the end of a line and the unknown word included.
        depth, dim, num_heads: sizes, ``dim`` of all heads together; ``feedforward``: hidden width of the MLP.
        context: number of words of a window; ``stride``: number of words that a window moves on.
        attention: attention of the layers, in its causal form; ``residual``: the connection around it.
        norm: ``pre``: each branch begins with a LayerNorm, and another follows the last block, as in GPT-2; ``post``:
            a LayerNorm follows each residual connection, as in Vaswani et al. 2017 and the papers' models.
        activation: activation of the MLP.
        positions: numbers of a window's positions; ``forward``: from 0 at its first word; ``backward``: down to 0 at
            its last place, as in the code of Transformer-XL and of the papers' models.
        dropout: probability with which training zeroes values of embedded words, and of each branch.
        cutoffs: vocabulary sizes at which a new cluster of the adaptive softmax begins, ascending; none for a softmax
            over all words. ``(20000, 40000, 200000)`` in the papers' models.
    """

    kind: ClassVar[str] = "language"
    implementation: ClassVar[str] = "robench.models.language_impl:build_language"

    vocabulary_size: Annotated[int, Ge(2), Le(LARGEST)]
    depth: Count
    dim: Width
    num_heads: Width
    feedforward: Width
    context: Annotated[int, Ge(1), Le(65_536)]
    stride: Annotated[int, Ge(1), Le(65_536)] = 1
    attention: AttentionBase = field(default_factory=Softmax)
    residual: ResidualBase = field(default_factory=PlainResidual)
    norm: Literal["pre", "post"] = "pre"
    activation: Literal["gelu", "relu"] = "gelu"
    positions: Literal["forward", "backward"] = "forward"
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.0
    cutoffs: Annotated[tuple[Annotated[int, Ge(1), Le(LARGEST)], ...], MaxLen(16)] = ()

    @property
    def couples_rows(self) -> bool:
        """Return whether rows of a batch influence each other."""
        return self.attention.is_coupled

    @property
    def num_parameters(self) -> int:
        """Return the approximate number of parameters, to refuse models that cannot be built."""
        of_block = 4 * self.dim**2 + 2 * self.dim * self.feedforward
        of_block += self.attention.parameters_in(num_tokens=self.context, num_heads=self.num_heads, dim=self.dim)
        return self.vocabulary_size * self.dim + self.depth * of_block

    def contradictions(self) -> list[FieldProblem]:
        """Return the problems between sizes, and between the attention and the backbone."""
        problems: list[FieldProblem] = []
        if self.dim % self.num_heads:
            problems.append(("dim", f"must be a multiple of num_heads {self.num_heads}, got {self.dim}"))
        if self.stride > self.context:
            problems.append(("stride", f"must be at most the context of {self.context} words, got {self.stride}"))
        ends = (*self.cutoffs, self.vocabulary_size)
        if any(first >= second for first, second in pairwise(ends)):
            problems.append(
                ("cutoffs", f"must ascend and stay below vocabulary_size {self.vocabulary_size}, got {[*self.cutoffs]}")
            )
        if self.num_parameters > MOST_PARAMETERS:
            problems.append(("", f"has {self.num_parameters:,} parameters, more than {MOST_PARAMETERS:,}"))
        for name, part in (("attention", self.attention), ("residual", self.residual)):
            if part.causal_problem:
                problems.append((name, f"must have a causal form; {part.kind} has none: {part.causal_problem}"))
        found = self.attention.problems_in(num_tokens=self.context, depth=self.depth)
        return problems + [(f"attention.{name}", message) for name, message in found]
