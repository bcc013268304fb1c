"""What the rules of every domain promise, on inputs that the test makes for each."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
import torch

from robench.attacks.fgsm import Fgsm
from robench.core.columns import fields_of
from robench.core.errors import BudgetExceededError, ContractError
from robench.core.outcomes import Outcome
from robench.declarations.preprocessing import PREPROCESSINGS, NoPreprocessing
from robench.domains import DOMAINS
from robench.domains.code_points import encoded_batch
from robench.domains.real_valued import RealValued
from robench.perturbations import Clean

if TYPE_CHECKING:
    from torch import Tensor

# Clean examples of each domain; a further domain needs some here.
EXAMPLES = {
    "images": torch.rand(4, 3, 5, 5, generator=torch.Generator().manual_seed(0)),
    "texts": encoded_batch(["we the", "people", "of the", "union"]),
}
# Any: nothing here asks for the model.
NO_MODEL: Any = None


@pytest.fixture(params=sorted(DOMAINS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def examples(name: str) -> Tensor:
    return EXAMPLES[name]


def test_a_batch_of_examples_is_the_examples(name: str, examples: Tensor) -> None:
    assert torch.equal(DOMAINS[name].rules.collate(list(examples)), examples)


def test_valid_inputs_are_accepted_and_others_refused_by_name(name: str, examples: Tensor) -> None:
    rules = DOMAINS[name].rules
    rules.check_clean(examples, "d")
    with pytest.raises(ContractError, match="dataset 'd'"):
        rules.check_clean(torch.full(examples.shape, torch.nan), "d")
    assert examples.dtype == rules.dtype


def test_an_excerpt_is_an_example_of_the_domain(name: str, examples: Tensor) -> None:
    rules = DOMAINS[name].rules
    rules.check_clean(rules.collate([rules.excerpt(each) for each in examples]), "d")


def test_what_was_not_changed_has_not_moved(name: str, examples: Tensor) -> None:
    distances = DOMAINS[name].rules.check_perturbed(examples.clone(), examples, Clean(), NO_MODEL)
    assert distances.keys() <= fields_of(Outcome).keys()
    assert all(each.shape == (len(examples),) and not bool(each.any()) for each in distances.values())


def test_distances_are_of_each_example_alone(name: str, examples: Tensor) -> None:
    changed = examples.clone()
    changed[2] = examples[1]
    distances = DOMAINS[name].rules.check_perturbed(changed, examples, Clean(), NO_MODEL)
    for each in distances.values():
        assert (each > 0).tolist() == [False, False, True, False]


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
