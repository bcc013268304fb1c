"""What every perturbation of texts must hold; a new one brings one line in EXAMPLES."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
import torch

from robench.core.protocols import Batch
from robench.datasets import DATASETS
from robench.domains import DOMAINS
from robench.domains.code_points import decoded, encoded_batch
from robench.perturbations import PERTURBATIONS
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws
from robench.perturbations.word_swap import WordSwap
from robench.testing.declarations import DECLARATION_CHECKS
from robench.testing.expectations import watched_generators

if TYPE_CHECKING:
    from collections.abc import Sequence

EXAMPLES: dict[str, Any] = {
    "word-swap": WordSwap(rate=Fraction(1, 4)),
    "word-swap-exact": WordSwap(rate=Fraction(1, 4), count="exact", per="text", keeps_stop_words=False),
    "word-swap-independent": WordSwap(rate=Fraction(1, 2), count="independent", replacement="<unk>"),
}
TEXTS = [
    "Fellow citizens of the Senate\nand House\n",
    "",
    "\n",
    "one",
    "naïve — “quoted” text \U0001f600\n" * 5,
    "a b " * 90,
]
# Any: nothing here asks for the model.
NO_MODEL: Any = None


def swapped(declaration: Any, rows: Sequence[int] = range(6)) -> list[str]:
    points = encoded_batch([TEXTS[row] for row in rows])
    batch = Batch(ids=tuple(str(row) for row in rows), inputs=points, targets=points.clone())
    inputs = perturb(declaration, batch, NO_MODEL, ExampleDraws(list(rows))).inputs
    DOMAINS["texts"].rules.check_clean(inputs, "the result")
    assert torch.equal(batch.inputs, encoded_batch([TEXTS[row] for row in rows]))
    return decoded(inputs)


def test_every_declared_perturbation_of_texts_has_an_example() -> None:
    of_texts = {kind for kind, declared in PERTURBATIONS.items() if getattr(declared, "domain", "") == "texts"}
    assert {example.kind for example in EXAMPLES.values()} == of_texts


@pytest.mark.parametrize("declaration", EXAMPLES.values(), ids=EXAMPLES.keys())
class TestEveryPerturbationOfTexts:
    @pytest.mark.parametrize("check", DECLARATION_CHECKS, ids=lambda check: check.__name__)
    def test_it_keeps_what_every_declaration_promises(self, declaration: Any, check: Any) -> None:
        check(declaration.kind, declaration)

    def test_the_same_seeds_give_the_same_texts(self, declaration: Any) -> None:
        with watched_generators(declaration.kind):
            first = swapped(declaration)
        assert swapped(declaration) == first
        assert first != TEXTS

    def test_texts_do_not_see_each_other_and_their_order_does_not_matter(self, declaration: Any) -> None:
        together = swapped(declaration)
        for row, text in enumerate(together):
            assert swapped(declaration, [row]) == [text]
        order = [4, 0, 5, 2, 1, 3]
        assert swapped(declaration, order) == [together[row] for row in order]

    def test_it_is_refused_on_other_inputs(self, declaration: Any) -> None:
        assert not declaration.problem_on(DATASETS["sotu"])
        assert declaration.problem_on(DATASETS["digits"])
