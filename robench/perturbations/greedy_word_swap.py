"""Declaration of the greedy word swap: a search for the words whose replacement a model minds most."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from robench.core.declared import DatasetDeclaration
from robench.declarations.base import FieldProblem
from robench.perturbations.text_perturbation import TextPerturbation, WordSearch, is_word
from robench.tasks.classification import CLASSIFICATION
from robench.tasks.language_modeling import LANGUAGE_MODELING


@dataclass(frozen=True, slots=True, kw_only=True)
class GreedyWordSwap(WordSearch):
    """Search that ranks words by importance and replaces one after another by the substitute that harms most.

    Morris et al. 2020, arXiv:2005.05909 (``GreedyWordSwapWIR``); Jin et al. 2020, arXiv:1907.11932, algorithm 1. A text
    is attacked until its class is wrong; of a language model each line is attacked, for the loss of its kept words. A
    search whose ranking takes all of its queries changes nothing.

    Attributes:
        ranking: importance of a word: the score of the text without it (``delete``), or with ``unknown`` in its place
            (``unk``); the softmax of the latter times the gain of the best substitute (``weighted-saliency``, Ren et
            al. 2019); or a random order, which asks the model nothing.
        unknown: word in the place of a word that is being ranked.
        backend: implementation that runs: robench's own, or TextAttack's, against classifiers alone.
    """

    kind: ClassVar[str] = "greedy-word-swap"
    implementation: ClassVar[str] = "robench.perturbations.greedy_word_swap_impl:attacked"
    is_gradient_free: ClassVar[bool] = True
    tasks: ClassVar[tuple[str, ...]] = (CLASSIFICATION.name, LANGUAGE_MODELING.name)

    ranking: Literal["delete", "unk", "weighted-saliency", "random"]
    unknown: str = "[UNK]"
    backend: Literal["robench", "textattack"] = "robench"

    def problems_on(self, dataset: DatasetDeclaration) -> list[FieldProblem]:
        """Return why it cannot be applied to a dataset: of other inputs or another task, or of one TextAttack lacks."""
        problems = TextPerturbation.problems_on(self, dataset)
        if not problems and self.backend != "robench" and dataset.task != CLASSIFICATION.name:
            wanted = f"must serve {CLASSIFICATION.name} with backend {self.backend}"
            return [("", f"{wanted}, got dataset {dataset.name}")]
        return problems

    def contradictions(self) -> list[FieldProblem]:
        """Refuse what a search refuses, and more than one word in the place of a ranked one."""
        problems = super(GreedyWordSwap, self).contradictions()
        if not is_word(self.unknown):
            problems.append(("unknown", f"must be one word without white space, got {self.unknown!r:.100}"))
        return problems
