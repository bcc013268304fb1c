"""Projections of changes onto balls: nearest, exact, and blind to other rows."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize  # type: ignore[import-untyped]  # scipy has no types

from robench.attacks.regions import onto_l1_ball, shortened


def halved(change: torch.Tensor, epsilon: float, lower: torch.Tensor, upper: torch.Tensor) -> torch.Tensor:
    """The nearest change of one example (D,), by halving the interval of the threshold, in float64."""
    exact, below, above = change.double(), lower.double(), upper.double()

    def cut(threshold: float) -> torch.Tensor:
        return torch.clamp(exact.sign() * (exact.abs() - threshold).clamp(min=0), below, above)

    low, high = 0.0, float(exact.abs().max())
    if float(cut(0.0).abs().sum()) <= epsilon:
        return cut(0.0)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if float(cut(middle).abs().sum()) <= epsilon else (middle, high)
    return cut(high)


def cases(num_rows: int, size: int, seed: int, room: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Changes with bounds around zero, some of which leave no room at all."""
    generator = torch.Generator().manual_seed(seed)
    change = torch.randn(num_rows, size, generator=generator)
    lower, upper = (room * torch.rand(2, num_rows, size, generator=generator)).unbind()
    lower[:, ::5], upper[:, 1::5] = 0, 0
    return change, -lower, upper


@pytest.mark.parametrize("room", [0.05, 0.5, 5.0])
@pytest.mark.parametrize("epsilon", [1e-3, 0.3, 2.0, 50.0])
def test_it_equals_a_slow_search_for_the_threshold(epsilon: float, room: float) -> None:
    change, lower, upper = cases(20, 40, seed=1, room=room)
    projected = onto_l1_ball(change, epsilon, lower, upper)
    for row in range(20):
        expected = halved(change[row], epsilon, lower[row], upper[row])
        torch.testing.assert_close(projected[row].double(), expected, atol=1e-6, rtol=0)


@given(
    values=st.lists(st.sampled_from([-2.0, -1.0, -0.5, 0.0, 1e-6, 0.5, 1.0, 3.0]), min_size=1, max_size=12),
    epsilon=st.sampled_from([1e-4, 0.25, 1.0, 2.5]),
    room=st.sampled_from([0.0, 0.1, 1.0, torch.inf]),
)
@settings(max_examples=150)
def test_it_equals_a_slow_search_where_coordinates_are_equal(values: list[float], epsilon: float, room: float) -> None:
    change, bound = torch.tensor([values]), torch.full((1, len(values)), room)
    projected = onto_l1_ball(change, epsilon, -bound, bound)[0]
    expected = halved(change[0], epsilon, -bound[0], bound[0])
    torch.testing.assert_close(projected.double(), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("seed", range(8))
def test_it_is_the_nearest_that_scipy_finds(seed: int) -> None:
    change, lower, upper = (tensor[0].double().numpy() for tensor in cases(1, 5, seed, room=0.8))
    # Positive and negative parts make the sum of absolute values linear.
    bounds = [*zip(np.zeros(5), upper, strict=True), *zip(np.zeros(5), -lower, strict=True)]
    found = minimize(
        lambda parts: ((parts[:5] - parts[5:] - change) ** 2).sum(),
        np.zeros(10),
        method="SLSQP",
        bounds=bounds,
        constraints={"type": "ineq", "fun": lambda parts: 0.6 - parts.sum()},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    projected = onto_l1_ball(torch.tensor(change[None]), 0.6, torch.tensor(lower[None]), torch.tensor(upper[None]))
    np.testing.assert_allclose(projected[0].numpy(), found.x[:5] - found.x[5:], atol=1e-5)


def test_rows_do_not_see_each_other() -> None:
    change, lower, upper = cases(12, 300, seed=5, room=0.4)
    change[3] *= 100
    change[4] = 0
    whole = onto_l1_ball(change, 2.0, lower, upper)
    for row in range(12):
        alone = onto_l1_ball(change[[row]], 2.0, lower[[row]], upper[[row]])
        assert torch.equal(alone[0], whole[row])


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 3.0])
def test_nothing_is_longer_than_the_budget_in_float64(order: int, epsilon: float) -> None:
    generator = torch.Generator().manual_seed(7)
    clean = torch.rand(200, 3, 8, 8, generator=generator)
    change = torch.randn(200, 3, 8, 8, generator=generator).flatten(1)
    # Of the very length of the budget, which rounding makes a little more or less.
    points = clean + (epsilon * change / change.norm(p=order, dim=1, keepdim=True)).view_as(clean)
    fitted = shortened(points, clean, epsilon, order)
    lengths = (fitted.double() - clean.double()).flatten(1).norm(p=order, dim=1)
    assert float(lengths.max()) <= epsilon
    assert float(lengths.min()) >= epsilon * (1 - 1e-4)
    if epsilon:
        assert bool(((points.double() - clean.double()).flatten(1).norm(p=order, dim=1) > epsilon).any())


@pytest.mark.parametrize("order", [1, 2])
def test_a_budget_of_a_few_units_in_the_last_place_is_kept_too(order: int) -> None:
    generator = torch.Generator().manual_seed(10)
    clean, change = torch.rand(200, 60, generator=generator), torch.randn(200, 60, generator=generator)
    for epsilon in (1e-9, 3e-8, 5e-7, 1e-6):
        fitted = shortened(clean + change, clean, epsilon, order)
        assert float((fitted.double() - clean.double()).norm(p=order, dim=1).max()) <= epsilon


def test_rows_that_are_short_enough_keep_their_bytes() -> None:
    generator = torch.Generator().manual_seed(9)
    clean, change = torch.rand(2, 6, 60, generator=generator).unbind()
    points = clean + torch.tensor([0.01, 9.0, 0.02, 9.0, 0.0, 9.0])[:, None] * change
    before = points.clone()
    fitted = shortened(points, clean, 1.0, 2)
    assert torch.equal(fitted[::2], points[::2])
    assert not torch.equal(fitted[1::2], points[1::2])
    assert torch.equal(points, before)


@pytest.mark.parametrize(("epsilon", "order"), [(1e-3, 1), (1e-4, 2), (3e-4, 2)])
def test_rows_that_resist_correction_change_no_other_row(epsilon: float, order: int) -> None:
    generator = torch.Generator().manual_seed(11)
    clean, change = torch.rand(320, 3072, generator=generator), torch.randn(320, 3072, generator=generator)
    excess = 1 + 1e-3 * torch.rand(320, 1, generator=generator)
    points = clean + epsilon * excess * change / change.norm(p=order, dim=1, keepdim=True)
    whole = shortened(points, clean, epsilon, order)
    for row in range(320):
        alone = shortened(points[[row]], clean[[row]], epsilon, order)
        assert torch.equal(alone[0], whole[row])
