"""TextAttack itself beside robench's greedy word swap: accuracy left, queries, and the same bytes twice.

The library is installed by ``robench backends install textattack`` unless it is there; where it cannot be, the tests
are skipped and say so.
"""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import torch

from robench.attacks.backends.installed import install
from robench.core.errors import UsageError
from robench.core.protocols import Batch, Perturbed
from robench.datasets import open_dataset
from robench.declare import read_registries
from robench.domains.code_points import decoded, encoded_batch
from robench.models.loading import load_model
from robench.perturbations import textattack_impl
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws
from robench.perturbations.greedy_word_swap import GreedyWordSwap
from robench.perturbations.textattack import TextAttackAugmenter, TextAttackRecipe

NUM_TEXTS = 100
NUM_QUERIES = 600


@pytest.fixture(autouse=True)
def library() -> None:
    try:
        install("textattack")
    except UsageError as error:
        pytest.skip(f"TextAttack cannot be installed here: {error}")


@pytest.fixture(scope="module")
def model() -> Any:
    return load_model(read_registries()["sotu-eras-softmax"])


class Counting:
    """Model that counts the texts that it is shown."""

    def __init__(self, model: Any) -> None:
        self._model, self.num_shown = model, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def outputs(self, inputs: torch.Tensor, seeds: Any) -> torch.Tensor:
        self.num_shown += len(inputs)
        found: torch.Tensor = self._model.outputs(inputs, seeds)
        return found


def batch_of(num_texts: int, num_words: int | None = None) -> Batch:
    dataset = open_dataset("sotu-eras", data_root=None, preprocessing=None)
    batch = dataset.batch(0, num_texts)
    texts = [" ".join(text.split()[:num_words]) for text in decoded(batch.inputs)]
    return replace(batch, inputs=encoded_batch(texts), task="classification", domain="texts")


def run(declaration: Any, batch: Batch, model: Any) -> Perturbed:
    return perturb(declaration, batch, model, ExampleDraws(range(len(batch.ids))))


def num_right(found: Perturbed, batch: Batch, model: Any) -> int:
    logits = model.outputs(found.inputs, tuple(range(len(batch.ids))))
    return int((logits.argmax(1) == batch.targets).sum())


@pytest.mark.parametrize("ranking", ["delete", "unk", "weighted-saliency"])
def test_no_more_accuracy_is_left_and_every_query_is_counted(
    model: Any, ranking: Any, record_testsuite_property: Any
) -> None:
    batch = batch_of(NUM_TEXTS)
    declared = GreedyWordSwap(ranking=ranking, num_queries=NUM_QUERIES, most_substitutions=4)
    here, there = Counting(model), Counting(model)
    own = run(declared, batch, here)
    others = run(replace(declared, backend="textattack"), batch, there)
    left = num_right(own, batch, model), num_right(others, batch, model)
    assert own.num_queries is not None
    assert others.num_queries is not None
    used = int(own.num_queries.sum()), int(others.num_queries.sum())
    record_testsuite_property(f"{ranking}: right and queries of robench and TextAttack", f"{left}, {used}")
    clean = num_right(Perturbed(inputs=batch.inputs), batch, model)
    assert left[0] <= left[1] < clean
    assert used == (here.num_shown, there.num_shown)
    assert max(own.num_queries.max(), others.num_queries.max()) <= NUM_QUERIES


@pytest.mark.parametrize(
    "declaration",
    [
        TextAttackRecipe(recipe="deepwordbug", num_queries=60),
        TextAttackRecipe(recipe="pruthi", num_queries=60),
        TextAttackRecipe(recipe="input-reduction", num_queries=60),
        TextAttackAugmenter(augmenter="char-swap", rate=Fraction(1, 5)),
        TextAttackAugmenter(augmenter="deletion", rate=Fraction(1, 5)),
    ],
    ids=lambda each: getattr(each, "recipe", None) or each.augmenter,
)
def test_recipes_and_augmenters_change_texts_and_give_the_same_bytes_twice(model: Any, declaration: Any) -> None:
    batch = batch_of(6, num_words=12)
    first = decoded(run(declaration, batch, model).inputs)
    # In another process of the library.
    textattack_impl.textattack_process().close()
    textattack_impl.textattack_process.cache_clear()
    assert decoded(run(declaration, batch, model).inputs) == first
    changed = sum(a != b for a, b in zip(first, decoded(batch.inputs), strict=True))
    assert changed >= 3
