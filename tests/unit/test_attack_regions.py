"""What an attack may search: the nearest points, exact budgets, and where searches begin."""

import itertools
import math

import numpy as np
import pytest
import torch

from robench.attacks.regions import Region, along_largest, random_start, region_of, sparse_steepest, steepest
from robench.core.seeds import Stream
from robench.perturbations.draws import ExampleDraws

NORMS = ("linf", "l2", "l1")
ORDERS = {"linf": math.inf, "l2": 2.0, "l1": 1.0}
EPSILONS = {"linf": 8 / 255, "l2": 0.5, "l1": 2.0}
START = Stream(purpose="start")


def images(num_examples: int = 32, size: int = 48, seed: int = 0) -> torch.Tensor:
    inputs = torch.rand(num_examples, size, generator=torch.Generator().manual_seed(seed))
    inputs[0, :4] = torch.tensor([0.0, 1.0, 1e-8, 1 - 2**-24])
    inputs[1], inputs[2] = 0.0, 1.0
    return inputs


def boxed(norm: str, clean: torch.Tensor, epsilon: float) -> Region:
    return region_of(norm, clean, epsilon, clean.new_zeros(()), clean.new_ones(()))


def open_to_all_sides(norm: str, clean: torch.Tensor, epsilon: float) -> Region:
    return region_of(norm, clean, epsilon, clean.new_full((), -torch.inf), clean.new_full((), torch.inf))


def lengths(points: torch.Tensor, clean: torch.Tensor, norm: str) -> torch.Tensor:
    norms: torch.Tensor = (points.double() - clean.double()).flatten(1).norm(p=ORDERS[norm], dim=1)
    return norms


@pytest.mark.parametrize("norm", NORMS)
class TestProjection:
    @pytest.mark.parametrize("share", [0.0, 1e-6, 1.0, 3.0])
    def test_the_exact_budget_and_the_box_are_kept(self, norm: str, share: float) -> None:
        clean, epsilon = images(), share * EPSILONS[norm]
        moved = clean + torch.randn(clean.shape, generator=torch.Generator().manual_seed(1))
        points = boxed(norm, clean, epsilon).project(moved)
        assert float(lengths(points, clean, norm).max()) <= epsilon
        assert float(points.min()) >= 0
        assert float(points.max()) <= 1

    def test_without_a_box_the_exact_budget_is_kept_and_used_up(self, norm: str) -> None:
        clean, epsilon = images(), EPSILONS[norm]
        moved = clean + 100 * torch.randn(clean.shape, generator=torch.Generator().manual_seed(2))
        reached = lengths(open_to_all_sides(norm, clean, epsilon).project(moved), clean, norm)
        assert float(reached.max()) <= epsilon
        assert float(reached.min()) >= epsilon * (1 - 1e-5)

    def test_some_rows_have_the_projection_that_they_have_among_all(self, norm: str) -> None:
        clean, rows = images(), torch.tensor([5, 0, 2])
        region = boxed(norm, clean, EPSILONS[norm])
        moved = clean + torch.randn(clean.shape, generator=torch.Generator().manual_seed(4))
        assert torch.equal(region.take(rows).project(moved[rows]), region.project(moved)[rows])
        assert region.take(rows).epsilon == region.epsilon
        assert region.take(rows).norm == norm


@pytest.mark.parametrize("norm", ["linf", "l1"])
@pytest.mark.parametrize("clean", [(0.5, 0.5, 0.5), (0.0, 1.0, 0.9), (0.02, 0.5, 1.0)])
def test_no_point_of_a_fine_grid_is_nearer(norm: str, clean: tuple[float, ...]) -> None:
    inputs, epsilon = torch.tensor([clean]), 0.25
    region = boxed(norm, inputs, epsilon)
    grid = torch.tensor(list(itertools.product(np.linspace(-0.25, 0.25, 41), repeat=3))).float() + inputs
    grid = grid[(lengths(grid, inputs, norm) <= epsilon + 1e-6) & ((grid >= 0) & (grid <= 1)).all(1)]
    for moved in torch.randn(20, 3, generator=torch.Generator().manual_seed(5)):
        nearest = region.project(inputs + moved)
        assert float((nearest - inputs - moved).norm()) <= float((grid - inputs - moved).norm(dim=1).min()) + 1e-6


def test_in_l2_a_change_keeps_its_direction_where_the_box_is_far() -> None:
    clean = 0.4 + 0.2 * images()
    moved = torch.randn(clean.shape, generator=torch.Generator().manual_seed(6))
    change = boxed("l2", clean, 0.1).project(clean + moved) - clean
    torch.testing.assert_close(change, 0.1 * moved / moved.norm(dim=1, keepdim=True), atol=1e-6, rtol=0)


def test_linf_bounds_lie_at_most_a_rounding_inside_the_budget() -> None:
    clean, epsilon = images(256), EPSILONS["linf"]
    region = open_to_all_sides("linf", clean, epsilon)
    for bound in (region.upper, region.lower):
        reached = (bound.double() - clean.double()).abs()
        assert float(reached.max()) <= epsilon
        assert float(reached.min()) >= epsilon - 2e-7


@pytest.mark.parametrize("norm", NORMS)
class TestSteepest:
    def test_a_step_has_length_one(self, norm: str) -> None:
        gradient = torch.randn(8, 3, 4, 4, generator=torch.Generator().manual_seed(7))
        step = steepest(gradient, norm).flatten(1).norm(p=ORDERS[norm], dim=1)
        torch.testing.assert_close(step, torch.ones(8), atol=1e-6, rtol=0)

    def test_no_direction_of_length_one_rises_faster(self, norm: str) -> None:
        generator = torch.Generator().manual_seed(8)
        gradient, others = torch.randn(1, 6, generator=generator), torch.randn(2000, 6, generator=generator)
        others = others / others.norm(p=ORDERS[norm], dim=1, keepdim=True)
        assert float((steepest(gradient, norm) * gradient).sum()) >= float((others * gradient).sum(1).max())


def test_equal_largest_gradients_share_an_l1_step_and_so_do_all_as_large_as_the_last() -> None:
    direction = steepest(torch.tensor([[3.0, -3.0, 1.0, 0.0]]), "l1")
    assert torch.equal(direction, torch.tensor([[0.5, -0.5, 0.0, 0.0]]))
    found = along_largest(torch.tensor([[1.0, 2.0, -2.0, 2.0, 1.0]]), torch.tensor([2]))
    torch.testing.assert_close(found, torch.tensor([[0.0, 1 / 3, -1 / 3, 1 / 3, 0.0]]))


def test_a_sparse_step_goes_along_the_stated_share_of_what_has_room() -> None:
    gradient = torch.tensor([[5.0, -4.0, 3.0, -2.0, 1.0, 0.5, 0.25, 0.1]]).repeat(2, 1)
    has_room = torch.ones_like(gradient, dtype=torch.bool)
    has_room[:, 0] = False
    direction = torch.stack([sparse_steepest(gradient, share, has_room)[0] for share in (0.25, 0.5)])
    expected = torch.zeros(2, 8)
    expected[0, 1:3] = torch.tensor([-0.5, 0.5])
    expected[1, 1:5] = torch.tensor([-0.25, 0.25, -0.25, 0.25])
    assert torch.equal(direction, expected)


def test_a_step_goes_equally_along_the_largest_gradients_of_each_row() -> None:
    gradient = torch.tensor([[3.0, -2.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    assert along_largest(gradient, torch.tensor([2.0, 2.0])).tolist() == [[0.5, -0.5, 0, 0], [0, 0, 0, 0]]
    assert along_largest(gradient, torch.tensor([0.0, 1.0])).tolist() == [[1, 0, 0, 0], [0, 0, 0, 0]]
    thirds = torch.tensor([1 / 3, -1 / 3, 1 / 3, 0])
    torch.testing.assert_close(along_largest(gradient, torch.tensor([9.0, 1.0]))[0], thirds)
    # At least the largest count is enough, whatever the number of coordinates.
    for most in (1, 2, 9):
        counts = torch.tensor([1.0, 0.0]) if most == 1 else torch.tensor([2.0, 1.0])
        assert torch.equal(along_largest(gradient, counts, most), along_largest(gradient, counts))


def test_of_equal_gradients_a_sparse_step_takes_the_first_and_no_more() -> None:
    gradient, everything = torch.tensor([[1.0, 2.0, -2.0, 2.0, 1.0]]), torch.ones(1, 5, dtype=torch.bool)
    direction = sparse_steepest(gradient, 0.4, everything)
    assert torch.equal(direction, torch.tensor([[0.0, 0.5, -0.5, 0.0, 0.0]]))
    assert not sparse_steepest(gradient, 0.4, ~everything).any()


@pytest.mark.parametrize("norm", NORMS)
class TestRandomStart:
    def test_it_is_a_draw_of_the_example(self, norm: str) -> None:
        clean = images(16)
        region, draws = boxed(norm, clean, EPSILONS[norm]), ExampleDraws(range(16))
        whole = random_start(region, clean, draws, START)
        rows = torch.tensor([7, 3])
        some = random_start(region.take(rows), clean[rows], draws.take([7, 3]), START)
        torch.testing.assert_close(some, whole[rows], atol=1e-7, rtol=0)
        other = random_start(region, clean, draws, Stream(purpose="start", restart=1))
        assert bool((other != whole).flatten(1).any(1).all())

    def test_a_uniform_point_of_the_ball_is_as_far_out_as_the_dimension_says(self, norm: str) -> None:
        size, num_examples = 5, 4000
        clean = torch.zeros(num_examples, size)
        region = open_to_all_sides(norm, clean, 2.0)
        points = random_start(region, clean, ExampleDraws(range(num_examples)), START)
        # Of uniform points of a ball, the share within a radius is the radius to the power of the dimension.
        shares = (lengths(points, clean, norm) / 2.0).sort().values ** size
        expected = (torch.arange(num_examples, dtype=torch.float64) + 0.5) / num_examples
        # Kolmogorov and Smirnov: 1.95 / sqrt(n) is exceeded once in a thousand times.
        assert float((shares - expected).abs().max()) < 1.95 / math.sqrt(num_examples)
        signs = points.sign().mean(0)
        assert float(signs.abs().max()) < 5 / math.sqrt(num_examples)
        # No coordinate is favoured.
        sizes = points.abs().mean(0)
        assert float(sizes.max() / sizes.min()) < 1.15
