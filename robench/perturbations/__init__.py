"""Perturbations of inputs: attacks, corruptions, clean inputs and sweeps; functions are imported on first use.

``dispatch`` runs declared perturbations; ``draws`` are the random numbers of the examples.
"""

from robench.attacks import ATTACKS
from robench.core.plugins import Plugins
from robench.corruptions import CORRUPTIONS
from robench.declarations.base import PerturbationBase
from robench.perturbations.clean import Clean

__all__ = ["PERTURBATIONS", "Clean"]

_BUILTIN: dict[str, str] = {
    "clean": "robench.perturbations.clean:Clean",
    "corruption": "robench.corruptions.corruption:Corruption",
    "series-corruption": "robench.corruptions.series:SeriesCorruption",
    "word-swap": "robench.perturbations.word_swap:WordSwap",
    "character-edits": "robench.perturbations.character_edits:CharacterEdits",
    "greedy-word-swap": "robench.perturbations.greedy_word_swap:GreedyWordSwap",
    "gradient-word-swap": "robench.perturbations.gradient_word_swap:GradientWordSwap",
    "token-swap": "robench.perturbations.token_edits:TokenSwap",
    "gradient-token-swap": "robench.perturbations.gradient_token_swap:GradientTokenSwap",
    "token-deletion": "robench.perturbations.token_edits:TokenDeletion",
    "listops-insertion": "robench.perturbations.listops_insertion:ListOpsInsertion",
    "listops-extension": "robench.perturbations.listops_insertion:ListOpsExtension",
    "episode-shift": "robench.perturbations.episode_shift:EpisodeShift",
    "observation-attack": "robench.perturbations.episode_shift:ObservationAttack",
    "textattack": "robench.perturbations.textattack:TextAttackRecipe",
    "textattack-augmenter": "robench.perturbations.textattack:TextAttackAugmenter",
}
PERTURBATIONS: Plugins[type[PerturbationBase]] = Plugins.joined(_BUILTIN, ATTACKS, CORRUPTIONS, base=PerturbationBase)
