"""What the rules of every domain promise, on inputs that the test makes for each."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import torch

from robench.attacks.fgsm import Fgsm
from robench.core.errors import BudgetExceededError, ContractError
from robench.declarations.preprocessing import PREPROCESSINGS, NoPreprocessing
from robench.domains import DOMAINS
from robench.domains.code_points import encoded_batch
from robench.domains.real_valued import RealValued
from robench.testing.domain import DOMAIN_CHECKS

# Clean examples of each domain.
EXAMPLES = {
    "images": torch.rand(4, 3, 5, 5, generator=torch.Generator().manual_seed(0)),
    "texts": encoded_batch(["we the", "people", "of the", "union"]),
}
# Any: nothing here asks for the model.
NO_MODEL: Any = None


@pytest.mark.parametrize("check", DOMAIN_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", DOMAINS)
def test_it_keeps_what_every_domain_promises(name: str, check: Any) -> None:
    assert name in EXAMPLES, f"domain {name!r} has no examples: add {name!r}: tensor, to EXAMPLES of this file"
    check(DOMAINS[name], EXAMPLES[name])


class TestRealValued:
    rules = RealValued(lower=-2, upper=3)
    clean = torch.tensor([[-2.0, 3.0], [0.0, 0.5]])

    def test_its_bounds_are_valid_values(self) -> None:
        self.rules.check_clean(self.clean, "d")

    @pytest.mark.parametrize("value", [-2.001, 3.001, float("inf"), float("nan")])
    def test_values_outside_are_refused_with_the_interval(self, value: float) -> None:
        broken = self.clean.clone()
        broken[1, 1] = value
        with pytest.raises(ContractError, match=r"dataset 'd' gave inputs from .* to .*, wanted \[-2, 3\]"):
            self.rules.check_clean(broken, "d")

    def test_a_budget_is_held_to_whatever_the_interval(self) -> None:
        fgsm = Fgsm(epsilon=Fraction(1, 4))
        moved = self.clean + torch.tensor([[0.25, -0.25], [0.25, 0.25]])
        assert self.rules.check_perturbed(moved, self.clean, fgsm, NO_MODEL)["linf"].tolist() == [0.25, 0.25]
        with pytest.raises(BudgetExceededError, match=r"moved an input by 0\.25 in linf, more than its budget 0\.2"):
            self.rules.check_perturbed(moved, self.clean, replace(fgsm, epsilon=Fraction(1, 5)), NO_MODEL)

    def test_examples_of_two_shapes_are_no_batch(self) -> None:
        with pytest.raises(ContractError, match=r"one shape, got \(2,\) and \(3,\)"):
            self.rules.collate([torch.zeros(3), torch.zeros(2)])


class TestPreprocessing:
    def test_every_kind_names_the_domain_of_its_inputs(self) -> None:
        image = PREPROCESSINGS["image"](mean=(0.5,) * 3, std=(0.5,) * 3)
        assert image.domain in DOMAINS
        assert NoPreprocessing(inputs="plane").domain == "plane"

    def test_without_any_inputs_are_left_as_they_are(self) -> None:
        assert NoPreprocessing(inputs="plane").normalisation is None
