"""What every perturbation of texts must hold; a new one brings one line in EXAMPLES."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from word_search_models import TABLE, BagOfWords, Bigrams, Counted, give_wordnet

from robench.core.protocols import Batch, Perturbed
from robench.datasets import DATASETS
from robench.domains import DOMAINS
from robench.domains.code_points import decoded, encoded, padded
from robench.perturbations import PERTURBATIONS
from robench.perturbations.character_edits import CharacterEdits
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws
from robench.perturbations.gradient_word_swap import GradientWordSwap
from robench.perturbations.greedy_word_swap import GreedyWordSwap
from robench.perturbations.word_swap import WordSwap
from robench.testing.expectations import DECLARATION_CHECKS, watched_generators

EXAMPLES: dict[str, Any] = {
    "word-swap": WordSwap(rate=Fraction(1, 4)),
    "word-swap-exact": WordSwap(rate=Fraction(1, 4), count="exact", per="text", keeps_stop_words=False),
    "word-swap-independent": WordSwap(rate=Fraction(1, 2), count="independent", replacement="<unk>"),
    "delete": CharacterEdits(edit="delete", rate=Fraction(1, 2)),
    "swap": CharacterEdits(edit="swap", rate=Fraction(1, 4), per="text"),
    "typo": CharacterEdits(edit="typo", rate=Fraction(1), keeps_stop_words=False),
    "greedy": GreedyWordSwap(ranking="delete", num_queries=60),
    "greedy-unk": GreedyWordSwap(ranking="unk", num_queries=200, most_changed=Fraction(1, 2), unknown="<unk>"),
    "greedy-saliency": GreedyWordSwap(ranking="weighted-saliency", num_queries=300, most_substitutions=5),
    "greedy-random": GreedyWordSwap(ranking="random", num_queries=50, substitutions="table", table=TABLE),
    "greedy-synonyms": GreedyWordSwap(ranking="delete", num_queries=60, substitutions="wordnet-3.0"),
    "gradient": GradientWordSwap(num_queries=60, substitutions="table", table=TABLE),
    "gradient-words": GradientWordSwap(num_queries=60, substitutions="wordnet-3.0", proposed="words"),
}
# With a program in the library's place: test_textattack_backend.py, test_textattack_augmenter.py.
BY_LIBRARIES = {"textattack", "textattack-augmenter"}
TEXTS = [
    "Fellow citizens of the Senate\nand House\n", "", "\n", "one", "naïve — “quoted” text \U0001f600\n" * 5,
    "a b " * 90, "good film . dull story\nbright actors , bad film\n",
]  # fmt: skip
# Of the classifier of words, but for one that is wrong when clean.
CLASSES = [0, 0, 0, 0, 0, 1, 2]
ROWS = range(len(TEXTS))


@pytest.fixture(autouse=True)
def synonyms(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    give_wordnet(monkeypatch, tmp_path, TABLE)


def result_of(declaration: Any, rows: Sequence[int], task: str, model: Counted, length: int = 0) -> Perturbed:
    points = padded([encoded(TEXTS[row]) for row in rows], length)
    targets = points.clone() if task == "language-modeling" else torch.tensor([CLASSES[row] for row in rows])
    batch = Batch(ids=tuple(str(row) for row in rows), inputs=points, targets=targets, task=task, domain="texts")
    result = perturb(declaration, batch, model, ExampleDraws(list(rows)))
    DOMAINS["texts"].rules.check_clean(result.inputs, "the result")
    assert torch.equal(batch.inputs, padded([encoded(TEXTS[row]) for row in rows], length))
    assert result.num_queries is None or len(model.shown) == int(result.num_queries.sum())
    return result


def tasks_of(declaration: Any) -> tuple[str, ...]:
    """The tasks that a perturbation serves, language modeling first."""
    return tuple(sorted(declaration.tasks or ("classification", "language-modeling"), reverse=True))


def model_for(task: str) -> Counted:
    return Bigrams() if task == "language-modeling" else BagOfWords()


def swapped(declaration: Any, rows: Sequence[int] = ROWS, task: str | None = None, length: int = 0) -> list[str]:
    task = task or tasks_of(declaration)[0]
    return decoded(result_of(declaration, rows, task, model_for(task), length).inputs)


def test_every_declared_perturbation_of_texts_has_an_example() -> None:
    of_texts = {kind for kind, declared in PERTURBATIONS.items() if getattr(declared, "domain", "") == "texts"}
    assert {example.kind for example in EXAMPLES.values()} | BY_LIBRARIES == of_texts


@pytest.mark.parametrize("declaration", EXAMPLES.values(), ids=EXAMPLES.keys())
class TestEveryPerturbationOfTexts:
    @pytest.mark.parametrize("check", DECLARATION_CHECKS, ids=lambda check: check.__name__)
    def test_it_keeps_what_every_declaration_promises(self, declaration: Any, check: Any) -> None:
        check(declaration)

    def test_the_same_seeds_give_the_same_texts(self, declaration: Any) -> None:
        with watched_generators():
            first = swapped(declaration)
        assert swapped(declaration) == first
        assert first != TEXTS

    def test_texts_do_not_see_each_other_and_their_order_does_not_matter(self, declaration: Any) -> None:
        together = swapped(declaration)
        for row, text in enumerate(together):
            assert swapped(declaration, [row]) == [text]
        order = [4, 0, 6, 5, 2, 1, 3]
        assert swapped(declaration, order) == [together[row] for row in order]

    def test_padding_does_not_matter(self, declaration: Any) -> None:
        assert swapped(declaration, length=2000) == swapped(declaration)

    def test_the_domain_counts_the_words_that_were_changed(self, declaration: Any) -> None:
        for task in tasks_of(declaration):
            result = result_of(declaration, ROWS, task, model_for(task))
            clean = padded([encoded(text) for text in TEXTS])
            model: Any = None
            counted = DOMAINS["texts"].rules.check_perturbed(result.inputs, clean, declaration, model)["num_changed"]
            assert [bool(number) for number in counted] == [
                a != b for a, b in zip(decoded(result.inputs), TEXTS, strict=True)
            ]

    def test_what_asks_the_model_is_an_attack_and_counts_its_queries(self, declaration: Any) -> None:
        task = tasks_of(declaration)[0]
        model = model_for(task)
        result = result_of(declaration, ROWS, task, model)
        assert bool(model.shown) == declaration.is_attack == (result.num_queries is not None)

    def test_it_is_refused_on_other_inputs(self, declaration: Any) -> None:
        for task in ("classification", "language-modeling"):
            dataset = DATASETS["sotu-eras" if task == "classification" else "sotu"]
            assert (not declaration.problems_on(dataset)) == (task in tasks_of(declaration))
        assert declaration.problems_on(DATASETS["digits"])
