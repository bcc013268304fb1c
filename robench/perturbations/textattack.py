"""Declarations of TextAttack's recipes and augmenters that need no download, run by the library itself."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from robench.declarations.base import LARGEST, FieldProblem
from robench.perturbations.text_perturbation import TextPerturbation
from robench.tasks.classification import CLASSIFICATION

RECIPES = ("deepwordbug", "pruthi", "input-reduction")


class _OfLibrary(TextPerturbation):
    @property
    def backend(self) -> str:
        return "textattack"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextAttackRecipe(_OfLibrary):
    """Recipe of TextAttack 0.3.11 against a classifier of texts. Morris et al. 2020, arXiv:2005.05909.

    Attributes:
        recipe: ``deepwordbug`` (Gao et al. 2018, arXiv:1801.04354), ``pruthi`` (Pruthi et al. 2019, arXiv:1905.11268),
            or ``input-reduction`` (Feng et al. 2018, arXiv:1804.07781), which removes words as long as the class stays,
            and so makes no error.
        num_queries: largest number of texts that the search asks for a text, the clean one included. Texts that the
            library has in its cache count too, so that the recorded number, of texts that the model was shown, may be
            smaller.
    """

    kind: ClassVar[str] = "textattack"
    implementation: ClassVar[str] = "robench.perturbations.textattack_impl:by_recipe"
    is_attack: ClassVar[bool] = True
    is_gradient_free: ClassVar[bool] = True
    tasks: ClassVar[tuple[str, ...]] = (CLASSIFICATION.name,)

    recipe: str
    num_queries: Annotated[int, Ge(1), Le(LARGEST)]

    @property
    def stops_at_success(self) -> bool:
        """Return true: a text whose class is wrong is not attacked further."""
        return True

    def contradictions(self) -> list[FieldProblem]:
        """Refuse recipes that are unknown, or need files to download."""
        problems = TextPerturbation.contradictions(self)
        if self.recipe not in RECIPES:
            wanted = f"must be {', '.join(RECIPES[:-1])} or {RECIPES[-1]}, which need no download"
            problems.append(
                ("recipe", f"{wanted}, got {self.recipe}; greedy-word-swap has its search, with synonyms too")
            )
        return problems


@dataclass(frozen=True, slots=True, kw_only=True)
class TextAttackAugmenter(_OfLibrary):
    """Augmenter of TextAttack 0.3.11, which changes random words.

    Attributes:
        augmenter: ``char-swap`` swaps, replaces, deletes or adds one random letter of a word; ``deletion`` deletes it.
        rate: proportion of a text's words that are changed, rounded down, and at least one word.
    """

    kind: ClassVar[str] = "textattack-augmenter"
    implementation: ClassVar[str] = "robench.perturbations.textattack_impl:by_augmenter"

    augmenter: Literal["char-swap", "deletion"]
    rate: Annotated[Fraction, Ge(0), Le(1)]
