"""Declaration of word-level language models: causal transformers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le, MaxLen

from robench.declarations.base import LARGEST, FieldProblem
from robench.models.word_transformer import WordTransformer


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
