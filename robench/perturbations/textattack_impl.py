"""Adapter of TextAttack 0.3.11: recipes, augmenters, and its greedy word swap with robench's substitutes.

The library sees one text at a time, with its generators seeded by the example, and asks this process for logits; every
text that the model is shown is counted. A search that fails returns the text with the best score that it reached.
What differs from robench's greedy word swap is said in ``greedy_search``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.core.protocols import Perturbed
from robench.core.seeds import Stream
from robench.domains.code_points import decoded, encoded_batch
from robench.perturbations.greedy_search import substitutes_of
from robench.perturbations.text_objectives import Reached, each_text
from robench.perturbations.textattack_process import textattack_process

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from torch import Tensor

    from robench.core.protocols import Batch, Draws, Model
    from robench.perturbations.greedy_word_swap import GreedyWordSwap
    from robench.perturbations.text_objectives import Reader
    from robench.perturbations.textattack import TextAttackAugmenter, TextAttackRecipe


def by_recipe(declaration: TextAttackRecipe, batch: Batch, model: Model, draws: Draws) -> Perturbed:
    """Return the texts that a recipe reaches.

    Raises:
        UsageError: the library's environment is not installed.
        ContractError: the library failed, or the model's outputs are not finite.
    """
    task = {"recipe": declaration.recipe, "num_queries": declaration.num_queries}

    def attack(text: str, label: Tensor, reader: Reader, draws: Draws) -> Reached:
        return _run(task, text, label, reader, draws)

    return each_text(attack, batch, model, draws)


def by_augmenter(declaration: TextAttackAugmenter, batch: Batch, model: Model, draws: Draws) -> Perturbed:
    """Return the texts that an augmenter makes; the model plays no part.

    Raises:
        UsageError: the library's environment is not installed.
        ContractError: the library failed.
    """
    del model
    task = {"augmenter": declaration.augmenter, "rate": float(declaration.rate)}
    process, seeds = textattack_process(), draws.seeds(Stream(purpose="library"))
    made = [
        process.attacked({**task, "text": text, "seed": seed}, lambda texts: [])
        for text, seed in zip(decoded(batch.inputs), seeds, strict=True)
    ]
    return Perturbed(inputs=encoded_batch(made).to(batch.inputs.device))


def greedy_by_library(declaration: GreedyWordSwap, text: str, label: Tensor, reader: Reader, draws: Draws) -> Reached:
    """Return the text that the library's greedy word swap reaches, and the number of texts that the model was shown."""
    task = {
        "recipe": declaration.kind,
        "num_queries": declaration.num_queries,
        "ranking": declaration.ranking,
        "unknown": declaration.unknown,
        "most_changed": float(declaration.most_changed),
        "keeps_stop_words": declaration.keeps_stop_words,
        "substitutes": substitutes_of(text, declaration),
    }
    return _run(task, text, label, reader, draws)


# Any: values of JSON.
def _run(task: dict[str, Any], text: str, label: Tensor, reader: Reader, draws: Draws) -> Reached:
    num_queries = 0

    def ask(texts: Sequence[str]) -> list[list[float]]:
        nonlocal num_queries
        num_queries += len(texts)
        return [row[0].double().tolist() for row in reader.rows(texts)]

    (seed,) = draws.seeds(Stream(purpose="library"))
    reached = textattack_process().attacked({**task, "text": text, "label": int(label), "seed": seed}, ask)
    return Reached(reached, num_queries)
