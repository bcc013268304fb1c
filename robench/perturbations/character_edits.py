"""Declaration of character edits: some words of a text are misspelt at random."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from robench.perturbations.text_perturbation import TextPerturbation


@dataclass(frozen=True, slots=True, kw_only=True)
class CharacterEdits(TextPerturbation):
    """Random edit of one inner letter in random words. Pruthi et al. 2019, arXiv:1905.11268.

    Words of fewer than four characters have no such edit. To a model of whole words an edited word is mostly an unknown
    one.

    Attributes:
        edit: an inner letter is left out (``delete``), changes places with the next (``swap``), or is replaced by a
            neighbour on the keyboard (``typo``).
        rate: part of the words of a line, or of a text, that is edited, in the mean; at most all that can be.
        per: unit in which words are counted.
        keeps_stop_words: whether the 179 stop words of NLTK's English list stay; case counts.
    """

    kind: ClassVar[str] = "character-edits"
    implementation: ClassVar[str] = "robench.perturbations.character_edits_impl:edited"

    edit: Literal["delete", "swap", "typo"]
    rate: Annotated[Fraction, Ge(0), Le(1)]
    per: Literal["line", "text"] = "line"
    keeps_stop_words: bool = True
