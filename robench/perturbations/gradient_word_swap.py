"""Declaration of the gradient-guided word swap: substitutes that a model's gradient proposes."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from robench.perturbations.text_perturbation import WordSearch
from robench.tasks.classification import CLASSIFICATION


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientWordSwap(WordSearch):
    """Search for the word and substitute that harm most to first order, as HotFlip chooses them.

    Ebrahimi et al. 2018, arXiv:1712.06751, section 4, for words: with the gradient of the margin between the other
    classes and the label by the embedded words, the gain of a substitute is that gradient times the change of the
    embedding. In each step the model is shown the substitutes of highest gain, and the best one is kept if it raises
    the score. Against classifiers over words that robench builds.

    Attributes:
        num_proposed: number of substitutes that the model is shown in a step, of any words; further ones follow while
            none raises the score.
    """

    kind: ClassVar[str] = "gradient-word-swap"
    implementation: ClassVar[str] = "robench.perturbations.gradient_word_swap_impl:attacked"
    tasks: ClassVar[tuple[str, ...]] = (CLASSIFICATION.name,)

    num_proposed: Annotated[int, Ge(1), Le(1000)] = 8
