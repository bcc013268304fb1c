"""Declaration of classifiers of texts: transformers over words with a class token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from robench.declarations.base import LARGEST
from robench.models.word_transformer import WordTransformer


@dataclass(frozen=True, slots=True, kw_only=True)
class TextClassifier(WordTransformer):
    """Transformer over the first ``context`` words of a text and a class token, with learned positions.

    A shorter text is followed by the end of a line up to ``context``, whatever batch it is in, so that all mechanisms
    read the same number of tokens.

    Attributes:
        num_classes: number of classes.
        is_causal: whether attention and residual connection are in their causal forms, so that the blocks of a language
            model fit; the class token then comes after the words, and before them otherwise.
    """

    kind: ClassVar[str] = "text-classifier"
    implementation: ClassVar[str] = "robench.models.text_classifier_impl:TextClassifierModel"

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
