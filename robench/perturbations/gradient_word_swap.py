"""Declaration of the gradient-guided word swap: substitutes that a model's gradient proposes."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from robench.declarations.base import FieldProblem
from robench.perturbations.text_perturbation import WordSearch
from robench.tasks.classification import CLASSIFICATION

NUM_PROPOSED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientWordSwap(WordSearch):
    """Search for the word and substitute that harm most to first order, as HotFlip chooses them.

    Ebrahimi et al. 2018, arXiv:1712.06751, section 4, for words: with the gradient of the margin between the other
    classes and the label by the embedded words, the gain of a substitute is that gradient times the change of the
    embedding. In each step the model is shown the substitutes of highest gain, and the best one is kept if it raises
    the score. Against classifiers over words that robench builds.

    Attributes:
        proposed: what the gradient proposes: ``substitutes``, by their gains, in each step; or ``words``, once, by the
            norm of the gradient by the embedded word, whose substitutes are then searched as by a greedy word swap.
        num_proposed: number of substitutes that the model is shown in a step, of any words; further ones follow while
            none raises the score. With proposed words it is left out: all of a word's substitutes are shown.
    """

    kind: ClassVar[str] = "gradient-word-swap"
    implementation: ClassVar[str] = "robench.perturbations.gradient_word_swap_impl:attacked"
    tasks: ClassVar[tuple[str, ...]] = (CLASSIFICATION.name,)

    proposed: Literal["substitutes", "words"] = "substitutes"
    num_proposed: Annotated[int, Ge(1), Le(1000)] = NUM_PROPOSED

    def contradictions(self) -> list[FieldProblem]:
        """Refuse what a search refuses, and a number of substitutes where words are proposed."""
        problems = super(GradientWordSwap, self).contradictions()
        if self.proposed == "words" and self.num_proposed != NUM_PROPOSED:
            problems.append(("num_proposed", f"must be left out with proposed words, got {self.num_proposed}"))
        return problems
