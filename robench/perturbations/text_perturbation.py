"""Base classes of the declarations of perturbations of texts, and of searches for words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Le, MaxLen

from robench.attacks.base import fields_but
from robench.core.declared import DatasetDeclaration
from robench.core.identity import Plain
from robench.declarations.base import LARGEST, FieldProblem, PerturbationBase
from robench.domains.texts import TEXTS
from robench.perturbations.wordnet import RELEASES, synonyms


class TextPerturbation(PerturbationBase):
    """Perturbation of texts.

    Attributes:
        tasks: names of the tasks that it serves; empty for all.
    """

    domain: ClassVar[str] = TEXTS.name
    tasks: ClassVar[tuple[str, ...]] = ()

    def problems_on(self, dataset: DatasetDeclaration) -> list[FieldProblem]:
        """Return why it cannot be applied to a dataset: of other inputs, or of another task."""
        if dataset.domain != self.domain:
            return [("", f"must serve texts, got dataset {dataset.name} of {dataset.domain}")]
        if self.tasks and dataset.task not in self.tasks:
            return [("", f"must serve {' or '.join(self.tasks)}, got dataset {dataset.name} of {dataset.task}")]
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class WordSearch(TextPerturbation):
    """Attack that replaces words of a text by substitutes, until its class is wrong.

    Attributes:
        num_queries: largest number of texts that the model is shown for a text, of a language model for a line: the
            clean one and those of a ranking included.
        substitutions: substitutes of a word: misspellings (``character_edits_impl``) of inner letters or of any; those
            of ``table``; or synonyms of WordNet 3.0 (``wordnet``), of any part of speech that the word can have, and
            none of stop words.
        most_substitutions: largest number of substitutes of a word, the first ones.
        table: substitutes of each word that may be replaced, by the word; case counts.
        most_changed: largest proportion of the words of a text, or of a line, that is replaced, rounded down.
        keeps_stop_words: whether the 179 stop words of NLTK's English list stay; case counts.
    """

    is_attack: ClassVar[bool] = True

    num_queries: Annotated[int, Ge(1), Le(LARGEST)]
    substitutions: Literal["typos", "typos-any-letter", "table", "wordnet-3.0"] = "typos"
    most_substitutions: Annotated[int, Ge(1), Le(1000)] = 20
    # Mappings have no hash; equality reads it all the same.
    table: Annotated[Mapping[str, tuple[str, ...]], MaxLen(100_000)] = field(default_factory=dict, hash=False)
    most_changed: Annotated[Fraction, Ge(0), Le(1)] = Fraction(1)
    keeps_stop_words: bool = True

    @property
    def stops_at_success(self) -> bool:
        """Return true: a text whose class is wrong is not attacked further; of language models no text is."""
        return True

    @property
    def length(self) -> tuple[str, int, Plain] | None:
        """Return name and value of the field with the queries of a search, and all but it."""
        return "num_queries", self.num_queries, fields_but(self, "num_queries")

    def check_model(self, model: Any, inputs: Any) -> None:
        """Read WordNet, if it is needed. Raises MissingDataError: it is absent, or of another release."""
        del model, inputs
        if self.substitutions in RELEASES:
            synonyms(self.substitutions)

    def contradictions(self) -> list[FieldProblem]:
        """Refuse an unused or missing table, and entries other than single words."""
        problems: list[FieldProblem] = []
        if (self.substitutions == "table") != bool(self.table):
            wanted = "list substitutes of words" if self.substitutions == "table" else "be left out"
            problems.append(("table", f"must {wanted} with substitutions {self.substitutions}"))
        for word, substitutes in self.table.items():
            bad = [each for each in substitutes if each == word or not is_word(each)]
            if bad:
                wanted = "must have other single words without white space as substitutes"
                problems.append((f"table.{word}", f"{wanted}, got {bad[0]!r:.100}"))
        return problems


def is_word(text: str) -> bool:
    """Return whether a text is one word without white space."""
    return text.split() == [text]
