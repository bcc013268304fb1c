"""Declaration of word swap: some words of a text are replaced by one word."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from robench.perturbations.text_perturbation import TextPerturbation


@dataclass(frozen=True, slots=True, kw_only=True)
class WordSwap(TextPerturbation):
    """Replacement of random words by one word, which a vocabulary may not have.

    On a vocabulary of words without the replacement it is a replacement by the unknown word.

    Attributes:
        rate: part of the words of a line, or of a text, that is replaced.
        replacement: word in their place.
        count: ``exact``: rate times the number of words, rounded down, at least one in a line with any (the authors'
            code); ``share``: the same, rounded at random so that its mean is exact; ``independent``: each word with
            the probability ``rate``.
        per: unit in which words are counted.
        keeps_stop_words: whether the 179 stop words of NLTK's English list stay, as in TextAttack; case counts.
    """

    kind: ClassVar[str] = "word-swap"
    implementation: ClassVar[str] = "robench.perturbations.word_swap_impl:swapped"

    rate: Annotated[Fraction, Ge(0), Le(1)]
    replacement: str = "AAA"
    count: Literal["exact", "share", "independent"] = "share"
    per: Literal["line", "text"] = "line"
    keeps_stop_words: bool = True
