"""Declarations of transformers over words: language models, classifiers of texts, and mixtures of experts."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le, Lt, MaxLen

from robench.attention.geometry import TokenLayout
from robench.declarations.base import LARGEST, DeclarationBase, FieldProblem
from robench.models.transformer import NormPlace, Transformer, Width


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
        vocabulary_size: number of words, the end of a line and the unknown word included, or of pieces.
        feedforward: hidden width of the MLP, or of each expert.
        context: largest number of words, or of pieces, that are read at once.
        experts: sparse mixture of experts in place of each block's MLP; None for the MLP.
        vocabulary: ``words``: a closed vocabulary, whose other words are ``<unk>``; ``word-pieces``: words are read as
            the pieces of WordPiece, with case, as in BERT (``word_pieces.py``).
        norm: ``pre``: each branch begins with a LayerNorm, and another follows the last block, as in GPT-2; ``post``:
            a LayerNorm follows each residual connection, as in Vaswani et al. 2017 and the papers' models;
            ``residual``: a LayerNorm comes before each residual connection, for the branch and for what it is added
            to, and none follows the last block, as in the code of the NAACL 2019 tutorial on transfer learning.
        activation: activation of the MLP.
        dropout: probability with which training zeroes values of embedded words, and of each branch.
    """

    vocabulary_size: Annotated[int, Ge(2), Le(LARGEST)]
    feedforward: Width
    context: Annotated[int, Ge(1), Le(65_536)]
    experts: Experts | None = None
    norm: NormPlace = "pre"
    activation: Literal["gelu", "relu"] = "gelu"
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.0
    vocabulary: Literal["words", "word-pieces"] = "words"

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Return the largest number of words that are read at once."""
        return (self.context,)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Language(WordTransformer):
    """Causal transformer over words.

    A text is read in windows of ``context`` words. The first window scores all its words; each later one, ``stride``
    words further, scores its last ``stride``, so that with stride 1 every word has the longest context. Attention and
    residual connection are in their causal forms.

    Attributes:
        stride: number of words that a window moves on.
        positions: numbers of a window's positions; ``forward``: from 0 at its first word; ``backward``: down to 0 at
            its last place, as in the code of Transformer-XL and of the papers' models.
        cutoffs: vocabulary sizes at which a new cluster of the adaptive softmax begins, ascending; none for a softmax
            over all words. ``(20000, 40000, 200000)`` in the papers' models.
    """

    kind: ClassVar[str] = "language"
    implementation: ClassVar[str] = "robench.models.language_impl:LanguageModel"

    stride: Annotated[int, Ge(1), Le(65_536)] = 1
    positions: Literal["forward", "backward"] = "forward"
    cutoffs: Annotated[tuple[Annotated[int, Ge(1), Le(LARGEST)], ...], MaxLen(16)] = ()

    @property
    def reads_causally(self) -> bool:
        """Return True."""
        return True

    def contradictions(self) -> list[FieldProblem]:
        """Return the problems between sizes, and those of all transformers over words."""
        # Named, since slots make another class of this one.
        problems = WordTransformer.contradictions(self)
        if self.stride > self.context:
            problems.append(("stride", f"must be at most the context of {self.context} words, got {self.stride}"))
        ends = (*self.cutoffs, self.vocabulary_size)
        if any(first >= second for first, second in pairwise(ends)):
            problems.append(
                ("cutoffs", f"must ascend and stay below vocabulary_size {self.vocabulary_size}, got {[*self.cutoffs]}")
            )
        return problems


@dataclass(frozen=True, slots=True, kw_only=True)
class TextClassifier(WordTransformer):
    """Transformer over the first ``context`` words of a text and a class token, with learned positions.

    A shorter text is followed by the end of a line up to ``context``, in any batch, so that all mechanisms
    read the same number of tokens.

    Attributes:
        num_classes: number of classes.
        is_causal: whether attention and residual connection are in their causal forms, so that the blocks of a language
            model fit; the class token then comes after the words, and before them otherwise.
    """

    kind: ClassVar[str] = "text-classifier"
    implementation: ClassVar[str] = "robench.models.word_transformer_impl:TextClassifierModel"

    num_classes: Annotated[int, Ge(2), Le(LARGEST)]
    is_causal: bool = False

    @property
    def reads_causally(self) -> bool:
        """Return ``is_causal``."""
        return self.is_causal

    @property
    def num_tokens(self) -> int:
        """Return the number of tokens of an attention layer: the words and the class token."""
        return self.context + 1

    @property
    def layout(self) -> TokenLayout:
        """Return the places of the tokens: words behind the class token, or in front of it in the causal form."""
        return TokenLayout(num_special=0 if self.is_causal else 1)
