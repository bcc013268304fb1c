"""Declaration of the greedy word swap: a search for the words whose replacement a model minds most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Ge, Le, MaxLen

from robench.declarations.base import LARGEST, FieldProblem
from robench.perturbations.text_perturbation import TextPerturbation
from robench.tasks.classification import CLASSIFICATION
from robench.tasks.language_modeling import LANGUAGE_MODELING

if TYPE_CHECKING:
    from robench.core.declared import DatasetDeclaration


@dataclass(frozen=True, slots=True, kw_only=True)
class GreedyWordSwap(TextPerturbation):
    """Search that ranks words by importance and replaces one after another by the substitute that harms most.

    Morris et al. 2020, arXiv:2005.05909 (``GreedyWordSwapWIR``); Jin et al. 2020, arXiv:1907.11932, algorithm 1. A text
    is attacked until its class is wrong; of a language model each line is attacked, for the loss of its kept words.

    Attributes:
        ranking: importance of a word: the score of the text without it (``delete``), or with ``unknown`` in its place
            (``unk``); the softmax of the latter times the gain of the best substitute (``weighted-saliency``, Ren et
            al. 2019); or a random order, which asks the model nothing.
        num_queries: largest number of texts that the model is shown for a text, of a language model for a line: the
            clean one and those of the ranking included. A search whose ranking takes all of them changes nothing.
        substitutions: substitutes of a word: misspellings (``perturbations.typos``), or those of ``table``.
        most_substitutions: largest number of substitutes of a word, the first ones.
        table: substitutes of each word that may be replaced, by the word; case counts.
        unknown: word in the place of a word that is being ranked.
        most_changed: largest share of the words of a text, or of a line, that is replaced, rounded down.
        keeps_stop_words: whether the 179 stop words of NLTK's English list stay; case counts.
        backend: implementation that runs: robench's own, or TextAttack's, against classifiers alone.
    """

    kind: ClassVar[str] = "greedy-word-swap"
    implementation: ClassVar[str] = "robench.perturbations.greedy_word_swap_impl:attacked"
    is_attack: ClassVar[bool] = True
    is_gradient_free: ClassVar[bool] = True
    tasks: ClassVar[tuple[str, ...]] = (CLASSIFICATION.name, LANGUAGE_MODELING.name)

    ranking: Literal["delete", "unk", "weighted-saliency", "random"]
    num_queries: Annotated[int, Ge(1), Le(LARGEST)]
    substitutions: Literal["typos", "table"] = "typos"
    most_substitutions: Annotated[int, Ge(1), Le(1000)] = 20
    # Mappings have no hash; equality reads it all the same.
    table: Annotated[Mapping[str, tuple[str, ...]], MaxLen(100_000)] = field(default_factory=dict, hash=False)
    unknown: str = "[UNK]"
    most_changed: Annotated[Fraction, Ge(0), Le(1)] = Fraction(1)
    keeps_stop_words: bool = True
    backend: Literal["robench", "textattack"] = "robench"

    def problem_on(self, dataset: DatasetDeclaration) -> str:
        """Return why it cannot be applied to a dataset: of other inputs or another task, or of one TextAttack lacks."""
        problem = TextPerturbation.problem_on(self, dataset)
        if not problem and self.backend != "robench" and dataset.task != CLASSIFICATION.name:
            return f"must serve {CLASSIFICATION.name} with backend {self.backend}, got dataset {dataset.name}"
        return problem

    @property
    def stops_at_success(self) -> bool:
        """Return true: a text whose class is wrong is not attacked further; of language models no text is."""
        return True

    def contradictions(self) -> list[FieldProblem]:
        """Refuse a table that is not used or is missing, and what is not one word."""
        problems: list[FieldProblem] = []
        if (self.substitutions == "table") != bool(self.table):
            wanted = "list substitutes of words" if self.substitutions == "table" else "be left out"
            problems.append(("table", f"must {wanted} with substitutions {self.substitutions}"))
        if not _is_word(self.unknown):
            problems.append(("unknown", f"must be one word without white space, got {self.unknown!r:.100}"))
        for word, substitutes in self.table.items():
            bad = [each for each in substitutes if each == word or not _is_word(each)]
            if bad:
                wanted = "must have other single words without white space as substitutes"
                problems.append((f"table.{word}", f"{wanted}, got {bad[0]!r:.100}"))
        return problems


def _is_word(text: str) -> bool:
    return text.split() == [text]
