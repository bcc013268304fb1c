"""What the rules of every domain promise, on inputs that the test makes for each."""

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from refusals import Refusal, check

from robench.attacks.fgsm import Fgsm
from robench.core.budgets import spelling_of
from robench.core.errors import BudgetExceededError, ContractError
from robench.declarations.base import FieldsError
from robench.declarations.preprocessing import PREPROCESSINGS, NoPreprocessing
from robench.domains import DOMAINS, Domain, code_points
from robench.domains.code_points import encoded_batch
from robench.domains.series_impl import PADDING, padded
from robench.testing.domain import DOMAIN_CHECKS

# Of series; the checks exchange the two in the middle.
LENGTHS = (6, 4, 4, 1)
GENERATOR = torch.Generator().manual_seed(1)
# Clean examples of each domain.
EXAMPLES = {
    "images": torch.rand(4, 3, 5, 5, generator=torch.Generator().manual_seed(0)),
    "texts": encoded_batch(["we the", "people", "of the", "union"]),
    "series": padded([torch.randn(length, 2, generator=GENERATOR) for length in LENGTHS], 6),
    "episodes": torch.rand(4, 1, 6, generator=torch.Generator().manual_seed(0)),
    "tokens": torch.tensor([[3, 1, 2, 0], [2, 0, 0, 0], [4, 4, 1, 1], [1, 2, 3, 0]]),
}
# Any: nothing here asks for the model.
NO_MODEL: Any = None


@pytest.mark.parametrize("check", DOMAIN_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", DOMAINS)
def test_it_keeps_what_every_domain_promises(name: str, check: Any) -> None:
    assert name in EXAMPLES, f"domain {name!r} has no examples: add {name!r}: tensor, to EXAMPLES of this file"
    check(DOMAINS[name], EXAMPLES[name])


@pytest.mark.parametrize(
    ("name", "value", "noun", "unit"),
    [
        ("texts", code_points.PADDING, "a text", None),
        ("series", PADDING, "a series", "step"),
        ("tokens", 0, "a sequence", "token"),
    ],
)
def test_padding_is_after_the_end_of_a_sequence_alone(name: str, value: float, noun: str, unit: str | None) -> None:
    rules, broken = DOMAINS[name].rules, EXAMPLES[name].clone()
    for place in (0, 1):
        broken[1] = broken[0]
        broken[1, place] = value
        with pytest.raises(ContractError, match=f" padding within {noun} in row 1 of a batch, wanted it after its end"):
            rules.check_clean(broken, "d")
    broken[1] = value
    if unit is None:
        rules.check_clean(broken, "d")
    else:
        with pytest.raises(ContractError, match=f" {noun} without {unit}s in row 1 of a batch, wanted at least one"):
            rules.check_clean(broken, "d")


def test_pairs_of_several_lengths_are_padded_on_both_sides() -> None:
    short, long = torch.tensor([[3, 1], [2, 0]]), torch.tensor([[1, 2, 3], [4, 0, 0]])
    found = DOMAINS["tokens"].rules.collate([short, long])
    assert found.tolist() == [[[3, 1, 0], [2, 0, 0]], [[1, 2, 3], [4, 0, 0]]]
    assert found.is_contiguous()


def domain_of_pairs(limits: tuple[float, float] | None, **fields: Any) -> Domain:
    fields = {"axes": ("channels",), "is_real_valued": True} | fields
    implementation = "robench.domains.real_valued:RealValued"
    return Domain(name="pairs", title="Pairs", implementation=implementation, limits=limits, **fields)


RULES, FREE = domain_of_pairs(limits=(-2.0, 3.0)).rules, domain_of_pairs(limits=None).rules
PAIRS = torch.tensor([[-2.0, 3.0], [0.0, 0.5]])


def declared(message: str, limits: tuple[float, float] | None = None, **fields: Any) -> Refusal:
    return Refusal(lambda _: domain_of_pairs(limits, **fields), FieldsError, message)


def given(message: str, inputs: torch.Tensor, rules: Any = RULES) -> Refusal:
    return Refusal(lambda _: rules.check_clean(inputs, "d"), ContractError, message)


def with_value(inputs: torch.Tensor, value: float, *place: int) -> torch.Tensor:
    broken = inputs.clone()
    broken[place] = value
    return broken


AUDITED = "audit_epsilon must be above 0, of real-valued inputs, got"
OUTSIDE = r"dataset 'd' gave inputs from .* to .*, wanted \[-2, 3\]"
INFINITE = "dataset 'd' gave inputs from .* wanted finite numbers"
BROKEN = with_value(EXAMPLES["series"], PADDING, 0, -1, 0)
REFUSALS = (
    declared("limits must be two ascending finite numbers", (1.0, 1.0)),
    declared("limits must be two ascending finite numbers", (0.0, math.inf)),
    declared("axes must have different names, got time, time", axes=("time", "time")),
    declared(AUDITED, audit_epsilon=Fraction(0)),
    declared(AUDITED, audit_epsilon=Fraction(1), is_real_valued=False),
    given("gave series with padding in some channels of a step", BROKEN, DOMAINS["series"].rules),
    given(r"gave inputs of shape \(2, 2, 1\), wanted pairs \(batch, channels\)", PAIRS[..., None]),
    *(given(OUTSIDE, with_value(PAIRS, value, 1, 1)) for value in (-2.001, 3.001, math.inf, math.nan)),
    *(given(INFINITE, PAIRS + value, FREE) for value in (math.inf, -math.inf, math.nan)),
    Refusal(
        lambda _: RULES.collate([torch.zeros(3), torch.zeros(2)]),
        *(ContractError, r"one shape, got \(2,\) and \(3,\)"),
    ),
)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.message)
def test_what_breaks_the_rules_is_refused(refusal: Refusal, tmp_path: Path) -> None:
    check(refusal, tmp_path)


def test_valid_values_are_the_interval_with_its_bounds_or_all_finite_numbers() -> None:
    RULES.check_clean(PAIRS, "d")
    FREE.check_clean(1e6 * PAIRS, "d")


class TestDeclaration:
    @pytest.mark.parametrize(
        ("axes", "shape"),
        [(("channels", "height", "width"), (-1, 1, 1)), (("time", "channels"), (-1,)), (("time",), ()), ((), ())],
    )
    def test_values_per_channel_stand_at_its_axis(self, axes: tuple[str, ...], shape: tuple[int, ...]) -> None:
        assert domain_of_pairs(None, axes=axes).channel_shape == shape

    def test_a_budget_is_bounded_by_the_range_in_linf_alone(self) -> None:
        bounded, free = domain_of_pairs((-1.0, 1.0)), domain_of_pairs(None)
        assert bounded.budget_problem("linf", Fraction(2)) == ""
        assert bounded.budget_problem("linf", Fraction(3)) == "must be at most 2 for pairs in [-1, 1], got 3"
        assert bounded.budget_problem("l2", Fraction(3)) == free.budget_problem("linf", Fraction(30)) == ""
        assert DOMAINS["images"].budget_problem("linf", Fraction(8)).endswith("got 8; such as 8/255")


class TestRealValued:
    def test_a_budget_is_held_to_whatever_the_interval(self) -> None:
        fgsm = Fgsm(epsilon=Fraction(1, 4))
        moved = PAIRS + torch.tensor([[0.25, -0.25], [0.25, 0.25]])
        assert RULES.check_perturbed(moved, PAIRS, fgsm, NO_MODEL)["linf"].tolist() == [0.25, 0.25]
        with pytest.raises(BudgetExceededError, match=r"moved an input by 0\.25 in linf, more than its budget 0\.2"):
            RULES.check_perturbed(moved, PAIRS, replace(fgsm, epsilon=Fraction(1, 5)), NO_MODEL)

    def test_half_of_the_range_is_that_of_the_limits_or_of_the_values_rounded_up(self) -> None:
        assert RULES.half_range(PAIRS) == Fraction(5, 2)
        found = [str(spelling_of(FREE.half_range(scale * PAIRS))) for scale in (2.0**-10, 1.01, 100, 1e9)]
        assert found == ["0.0025", "2.6", "250", "500000"]
        ends = torch.tensor([[[-1.0], [4.02]], [[0.0], [PADDING]]])
        assert DOMAINS["series"].rules.half_range(ends) == Fraction("2.6")


class TestPreprocessing:
    def test_every_kind_names_the_domain_of_its_inputs(self) -> None:
        image = PREPROCESSINGS["image"](mean=(0.5,) * 3, std=(0.5,) * 3)
        assert image.domain in DOMAINS
        assert NoPreprocessing(inputs="plane").domain == "plane"

    def test_without_any_inputs_are_left_as_they_are(self) -> None:
        assert NoPreprocessing(inputs="plane").normalisation == ((0.0,), (1.0,))
