"""Declaration of word swap: some words of a text are replaced by one word."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from robench.core.declared import DatasetDeclaration
from robench.declarations.base import FieldProblem
from robench.perturbations.text_perturbation import TextPerturbation, is_word
from robench.tasks.language_modeling import LANGUAGE_MODELING


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
        targets: words that a language model has to predict while it reads the swapped text: ``swapped``, with the
            replacements (the authors' code); ``clean``, the words that were there, by models that take targets.
    """

    kind: ClassVar[str] = "word-swap"
    implementation: ClassVar[str] = "robench.perturbations.word_swap_impl:swapped"

    rate: Annotated[Fraction, Ge(0), Le(1)]
    replacement: str = "AAA"
    count: Literal["exact", "share", "independent"] = "share"
    per: Literal["line", "text"] = "line"
    keeps_stop_words: bool = True
    targets: Literal["clean", "swapped"] = "swapped"

    @property
    def scores_clean_targets(self) -> bool:
        """Return whether the targets are the clean words."""
        return self.targets == "clean"

    def contradictions(self) -> list[FieldProblem]:
        """Refuse replacements that would move the words after them, where each word has a clean one as its target."""
        if self.targets == "clean" and not is_word(self.replacement):
            message = f"must be a single word without white space with targets clean, got {self.replacement!r:.100}"
            return [("replacement", message)]
        return []

    def problems_on(self, dataset: DatasetDeclaration) -> list[FieldProblem]:
        """Return why it cannot be applied to a dataset, such as clean words as the targets of a classifier."""
        problems = TextPerturbation.problems_on(self, dataset)
        if self.targets == "clean" and dataset.task != LANGUAGE_MODELING.name:
            problems.append(
                ("targets", f"must be left out for dataset {dataset.name}, where models do not predict words")
            )
        return problems
