"""TextAttack's augmenters with a small program in the library's place; the library itself is in tests/slow."""

import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from textattack_programs import ASKING, FAILING, RETURNING, program, run
from word_search_models import BagOfWords, sentences

from robench.core.errors import ContractError
from robench.core.seeds import Stream
from robench.datasets import DATASETS
from robench.domains.code_points import decoded
from robench.perturbations.draws import ExampleDraws
from robench.perturbations.textattack import TextAttackAugmenter
from robench.testing.expectations import DECLARATION_CHECKS

__all__ = ["program"]

AUGMENTER = TextAttackAugmenter(augmenter="deletion", rate=Fraction(1, 4))


def test_the_library_is_told_augmenter_rate_text_and_seed(program: Callable[[str], None]) -> None:
    program(ASKING)
    (answer,) = decoded(run(AUGMENTER, ["some words"]).inputs)
    (seed,) = ExampleDraws([0]).seeds(Stream(purpose="library"))
    task = {"augmenter": "deletion", "rate": 0.25, "text": "some words", "seed": seed}
    assert json.loads(answer)["task"] == task
    # Questions have no answers.
    assert json.loads(answer)["logits"] == []


def test_the_model_is_not_asked(program: Callable[[str], None]) -> None:
    program(RETURNING)
    model = BagOfWords()
    result = run(AUGMENTER, sentences(3), model)
    assert model.shown == []
    assert result.num_queries is None
    assert not AUGMENTER.is_attack
    assert AUGMENTER.most_passes == (0, 0)


def test_each_text_has_its_own_seed_and_depends_on_no_other(program: Callable[[str], None]) -> None:
    program(RETURNING)
    texts = sentences(4)
    seeds = ExampleDraws(range(4)).seeds(Stream(purpose="library"))
    found = decoded(run(AUGMENTER, texts).inputs)
    assert found == [text.upper() + str(seed) for text, seed in zip(texts, seeds, strict=True)]
    assert decoded(run(AUGMENTER, [texts[2]], seeds=range(2, 3)).inputs) == [found[2]]


def test_a_failure_of_the_library_is_a_contract_error(program: Callable[[str], None]) -> None:
    program(FAILING)
    with pytest.raises(ContractError, match="TextAttack failed: ValueError: no words"):
        run(AUGMENTER, ["some words"])


def test_texts_of_all_tasks_are_served_and_images_are_not() -> None:
    assert AUGMENTER.problems_on(DATASETS["sotu"]) == []
    assert AUGMENTER.problems_on(DATASETS["sotu-eras"]) == []
    assert AUGMENTER.problems_on(DATASETS["digits"]) == [("", "must serve texts, got dataset digits of images")]


@pytest.mark.parametrize("check", DECLARATION_CHECKS, ids=lambda check: check.__name__)
def test_it_keeps_what_every_declaration_promises(check: Any) -> None:
    check(AUGMENTER)
