"""What attacks make larger: values by hand, what does not change them, and what they cannot be had of."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from robench.core.errors import DeclarationError
from robench.tasks.classification_impl import (
    LOSSES,
    cross_entropy_loss,
    dlr_loss,
    largest_other,
    lead_loss,
    margin_loss,
    predicted,
    targeted_dlr_loss,
)

LOGITS = torch.tensor([[1.0, 5.0, 3.0, 2.0], [4.0, -1.0, 0.0, 2.0]], dtype=torch.float64)
LABELS = torch.tensor([1, 3])


def by_hand(name: str, z: list[float], y: int) -> float:
    ordered = sorted(z, reverse=True)
    other = max(value for i, value in enumerate(z) if i != y)
    match name:
        case "ce":
            return math.log(sum(math.exp(value) for value in z)) - z[y]
        case "margin":
            return other - z[y]
        case _:
            return (other - z[y]) / (ordered[0] - ordered[2])


@pytest.mark.parametrize("name", LOSSES)
def test_values_are_those_of_the_equations(name: str) -> None:
    wanted = [by_hand(name, z, y) for z, y in zip(LOGITS.tolist(), LABELS.tolist(), strict=True)]
    np.testing.assert_allclose(LOSSES[name](LOGITS, LABELS), wanted, rtol=1e-9)


def test_the_targeted_ratio_is_that_of_the_equation() -> None:
    found = targeted_dlr_loss(LOGITS, LABELS, torch.tensor([0, 1]))
    np.testing.assert_allclose(found, [(1 - 5) / (5 - (2 + 1) / 2), (-1 - 2) / (4 - (0 - 1) / 2)], rtol=1e-9)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("constant", [-20.0, 1e4])
def test_a_constant_added_to_all_logits_changes_nothing(name: str, constant: float) -> None:
    torch.testing.assert_close(LOSSES[name](LOGITS + constant, LABELS), LOSSES[name](LOGITS, LABELS))


def test_the_ratio_does_not_depend_on_the_scale_of_the_logits_either() -> None:
    torch.testing.assert_close(dlr_loss(1e-6 * LOGITS, LABELS), dlr_loss(LOGITS, LABELS), rtol=1e-5, atol=0)
    torch.testing.assert_close(dlr_loss(1e6 * LOGITS, LABELS), dlr_loss(LOGITS, LABELS))


@pytest.mark.parametrize("name", ["margin", "dlr"])
def test_a_fooled_victim_has_a_positive_value_and_no_other_does(name: str) -> None:
    logits = torch.randn(200, 6, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(200) % 6
    assert torch.equal(LOSSES[name](logits, labels) > 0, predicted(logits) != labels)


def test_a_tie_is_the_lower_classes_as_outcomes_are_judged() -> None:
    assert predicted(torch.tensor([[1.0, 2.0, 2.0], [0.0, 0.0, 0.0]])).tolist() == [1, 0]


@pytest.mark.parametrize(("loss", "num_classes", "beside"), [(dlr_loss, 2, []), (targeted_dlr_loss, 3, [1])])
def test_too_few_classes_are_named(loss: Any, num_classes: int, beside: list[int]) -> None:
    message = f"needs at least {num_classes + 1} classes, the model has {num_classes}"
    with pytest.raises(DeclarationError, match=message):
        loss(torch.zeros(1, num_classes), torch.tensor([0]), *(torch.tensor([number]) for number in beside))


def test_a_class_leads_by_the_difference_of_two_logits() -> None:
    assert lead_loss(LOGITS, LABELS, torch.tensor([0, 0])).tolist() == [-4.0, 2.0]


def test_the_label_is_no_other_class_and_has_no_part_in_the_gradient_of_the_others() -> None:
    logits = LOGITS.clone().requires_grad_(True)
    others = largest_other(logits, torch.tensor([1, 0]))
    assert others.tolist() == [3.0, 2.0]
    others.sum().backward()
    assert logits.grad is not None
    assert logits.grad.tolist() == [[0, 0, 1, 0], [0, 0, 0, 1]]


def test_equal_logits_give_no_nan() -> None:
    for loss in (cross_entropy_loss, margin_loss, dlr_loss):
        logits = torch.zeros(1, 4, requires_grad=True)
        value = loss(logits, torch.tensor([0])).sum()
        value.backward()
        assert logits.grad is not None
        assert bool(logits.grad.isfinite().all())


def led_by(leads: torch.Tensor) -> torch.Tensor:
    """Return float32 logits (B, 4) of label 2, over which the other classes have these leads in float64."""
    others = torch.randn(len(leads), 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    logits = torch.cat([others, (others.logsumexp(1) - leads)[:, None]], dim=1)[:, [0, 1, 3, 2]]
    return logits.float().requires_grad_(True)


def differentiated(loss: Any, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    values = loss(logits, torch.full((len(logits),), 2))
    return values.detach(), torch.autograd.grad(values.sum(), logits)[0]


def plain(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return cross_entropy(logits, labels, reduction="none")


class TestSaturatedCrossEntropy:
    def test_above_rounding_it_has_the_bits_of_torchs_also_beside_saturated_rows(self) -> None:
        logits = led_by(torch.cat([torch.linspace(-14, 20, 200), torch.full((3,), -200.0)]))
        values, gradient = differentiated(cross_entropy_loss, logits)
        former_values, former_gradient = differentiated(plain, logits)
        assert torch.equal(values[:200], former_values[:200])
        assert torch.equal(gradient[:200], former_gradient[:200])
        assert bool((values[200:] < 0).all())
        assert not bool(former_gradient[200:].any())

    def test_below_it_the_gradient_has_the_direction_of_the_exact_one_however_far(self) -> None:
        logits = led_by(-torch.logspace(1.24, 3.7, 50, dtype=torch.float64))
        _, gradient = differentiated(cross_entropy_loss, logits)
        exact = logits.detach().double()
        exact[:, 2] = -torch.inf
        wanted = exact.softmax(1)
        wanted[:, 2] = -1.0
        torch.testing.assert_close(gradient.double() * 2**24, wanted, rtol=1e-4, atol=1e-7)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_it_rises_with_the_exact_one(self, dtype: torch.dtype) -> None:
        leads = torch.linspace(-900, 30, 2000)
        logits = torch.stack([leads, torch.zeros(2000)], dim=1).to(dtype)
        values = cross_entropy_loss(logits, torch.ones(2000, dtype=torch.int64))
        assert bool((values.diff() >= 0).all())
        assert bool((values[leads < math.log(torch.finfo(dtype).eps / 4)].diff() > 0).all())

    def test_a_single_class_has_no_loss(self) -> None:
        logits = torch.ones(3, 1, requires_grad=True)
        values = cross_entropy_loss(logits, torch.zeros(3, dtype=torch.int64))
        assert values.tolist() == [0, 0, 0]
        assert not bool(torch.autograd.grad(values.sum(), logits)[0].any())
