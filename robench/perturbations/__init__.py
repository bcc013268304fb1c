"""Perturbations of inputs: attacks, corruptions, clean inputs and sweeps; functions are imported on first use.

``dispatch`` runs declared perturbations; ``draws`` are the random numbers of the examples.
"""

from __future__ import annotations

from robench.attacks import ATTACKS
from robench.core.plugins import Plugins
from robench.corruptions import CORRUPTIONS
from robench.corruptions.corruption import Corruption
from robench.declarations.base import PerturbationBase
from robench.perturbations.character_edits import CharacterEdits
from robench.perturbations.clean import Clean
from robench.perturbations.gradient_word_swap import GradientWordSwap
from robench.perturbations.greedy_word_swap import GreedyWordSwap
from robench.perturbations.textattack import TextAttackAugmenter, TextAttackRecipe
from robench.perturbations.word_swap import WordSwap

__all__ = ["PERTURBATIONS", "Clean"]

_BUILTIN: dict[str, type[PerturbationBase]] = {
    "clean": Clean,
    "corruption": Corruption,
    "word-swap": WordSwap,
    "character-edits": CharacterEdits,
    "greedy-word-swap": GreedyWordSwap,
    "gradient-word-swap": GradientWordSwap,
    "textattack": TextAttackRecipe,
    "textattack-augmenter": TextAttackAugmenter,
}
PERTURBATIONS = Plugins.joined(_BUILTIN, ATTACKS, CORRUPTIONS, base=PerturbationBase)
