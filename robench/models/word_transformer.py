"""Base class of the declarations of transformers over words, and sparse mixtures of experts in place of their MLPs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le, Lt

from robench.declarations.base import LARGEST, DeclarationBase, FieldProblem
from robench.models.transformer import Transformer, Width


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts(DeclarationBase):
    """Sparse mixture of experts: a linear gate sends each token to a few of several MLPs.

    Attributes:
        num_experts: number of MLPs, each with the backbone's hidden width; ``num_chosen``: how many of them each token
            goes to, those with its highest gate logits.
        weights: weights of a token's outputs: a softmax over the chosen experts' logits (``chosen``), as in Shazeer et
            al. 2017, arXiv:1701.06538, or their part of the softmax over all (``all``), as in the Switch Transformer,
            Fedus et al. 2021, arXiv:2101.03961, which has ``num_chosen`` 1.
    """

    kind: ClassVar[str] = "experts"
    implementation: ClassVar[str] = "robench.models.word_transformer_impl:ExpertMlp"

    num_experts: Annotated[int, Ge(2), Le(4096)]
    num_chosen: Annotated[int, Ge(1), Le(4096)] = 2
    weights: Literal["chosen", "all"] = "chosen"

    def contradictions(self) -> list[FieldProblem]:
        """Refuse more chosen experts than there are, and a gate that no gradient reaches."""
        if self.num_chosen > self.num_experts:
            return [("num_chosen", f"must be at most num_experts {self.num_experts}, got {self.num_chosen}")]
        if self.num_chosen == 1 and self.weights == "chosen":
            wrong = "must be all where num_chosen is 1: a single expert's weight is 1, so that the gate learns nothing"
            return [("weights", wrong)]
        return []

    def parameters_in(self, *, dim: int, feedforward: int) -> int:
        """Return the number of parameters of the matrices of a mixture in one block."""
        return self.num_experts * (2 * dim * feedforward + dim)


@dataclass(frozen=True, slots=True, kw_only=True)
class WordTransformer(Transformer):
    """Transformer over words, whose vocabulary is part of its weights.

    Attributes:
        vocabulary_size: number of words, the end of a line and the unknown word included.
        feedforward: hidden width of the MLP, or of each expert.
        context: largest number of words that are read at once.
        experts: sparse mixture of experts in place of each block's MLP; None for the MLP.
        norm: ``pre``: each branch begins with a LayerNorm, and another follows the last block, as in GPT-2; ``post``:
            a LayerNorm follows each residual connection, as in Vaswani et al. 2017 and the papers' models.
        activation: activation of the MLP.
        dropout: probability with which training zeroes values of embedded words, and of each branch.
    """

    vocabulary_size: Annotated[int, Ge(2), Le(LARGEST)]
    feedforward: Width
    context: Annotated[int, Ge(1), Le(65_536)]
    experts: Experts | None = None
    norm: Literal["pre", "post"] = "pre"
    activation: Literal["gelu", "relu"] = "gelu"
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.0

    @property
    def num_tokens(self) -> int:
        """Return the number of tokens of an attention layer."""
        return self.context

    @property
    def mlp_parameters(self) -> int:
        """Return the number of parameters of the matrices of a block's MLP, or of its experts."""
        if self.experts is None:
            return 2 * self.dim * self.feedforward
        return self.experts.parameters_in(dim=self.dim, feedforward=self.feedforward)

    @property
    def embedding_parameters(self) -> int:
        """Return the number of parameters of the embedding."""
        return self.vocabulary_size * self.dim
