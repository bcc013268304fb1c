"""Declarations of TextAttack's recipes and augmenters that need no download, run by the library itself."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from robench.core.errors import did_you_mean
from robench.declarations.base import LARGEST, FieldProblem
from robench.perturbations.text_perturbation import TextPerturbation
from robench.tasks.classification import CLASSIFICATION

RECIPES = ("deepwordbug", "pruthi", "input-reduction")
_EMBEDDINGS, _ENCODER = "counter-fitted word embeddings", "the Universal Sentence Encoder"
# Recipes of TextAttack 0.3.11 that need files of others, and the ranking of greedy-word-swap that is their search.
_DOWNLOADS = {
    "a2t": (f"{_EMBEDDINGS} and DistilBERT", "delete"),
    "alzantot": (f"{_EMBEDDINGS} and a language model", None),
    "bae": (f"BERT and {_ENCODER}", "delete"),
    "bert-attack": (f"BERT and {_ENCODER}", "unk"),
    "checklist": ("a tagger of flair", None),
    "clare": (f"DistilRoBERTa and {_ENCODER}", None),
    "faster-alzantot": (f"{_EMBEDDINGS} and a language model", None),
    "iga": (_EMBEDDINGS, None),
    "kuleshov": (f"{_EMBEDDINGS} and GPT-2", None),
    "pso": ("HowNet", None),
    "pwws": ("WordNet of NLTK", "weighted-saliency"),
    "textbugger": (f"{_EMBEDDINGS} and {_ENCODER}", "delete"),
    "textfooler": (f"{_EMBEDDINGS} and {_ENCODER}", "delete"),
}


class _OfLibrary(TextPerturbation):
    """Perturbation by the library's own code."""

    @property
    def backend(self) -> str:
        """Return the library whose code runs."""
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
        if self.recipe in _DOWNLOADS:
            files, ranking = _DOWNLOADS[self.recipe]
            search = f"Its search is kind: greedy-word-swap with ranking: {ranking}; give that your own table"
            advice = "Run TextAttack itself" if ranking is None else search
            problems.append(("recipe", f"{self.recipe} needs {files}, which robench does not download. {advice}"))
        elif self.recipe not in RECIPES:
            known = did_you_mean(self.recipe, (*RECIPES, *_DOWNLOADS))
            problems.append(
                ("recipe", f"must be {', '.join(RECIPES[:-1])} or {RECIPES[-1]}, got {self.recipe}.{known}")
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
