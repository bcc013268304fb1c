"""The shortest way onto a hyperplane within a box: against linear programs, halving, and pyautoattack's projections."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyautoattack.fab_projections import projection_l1, projection_l2, projection_linf
from scipy.optimize import brentq, linprog

from robench.attacks.fab_impl import onto_hyperplane
from robench.attacks.rows import length_of

NORMS = ("linf", "l2", "l1")
LIBRARY = {"linf": projection_linf, "l2": projection_l2, "l1": projection_l1}
Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def drawn(num_rows: int = 12, size: int = 9, seed: int = 0) -> tuple[torch.Tensor, ...]:
    """Points of the unit cube, some at its corners, normals with zeros, and gaps that the cube reaches (float64)."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.rand(num_rows, size, generator=generator, dtype=torch.float64)
    points[:, 0], points[:, 1] = 0.0, 1.0
    normal = torch.randn(num_rows, size, generator=generator, dtype=torch.float64)
    normal[:, 2] = 0.0
    end = torch.rand(num_rows, size, generator=generator, dtype=torch.float64)
    return points, normal, (normal * (end - points)).sum(1)


def change(points: torch.Tensor, normal: torch.Tensor, gap: torch.Tensor, norm: str) -> torch.Tensor:
    return onto_hyperplane(gap, normal, -points, 1 - points, norm)


def shortest_linf(w: Array, gap: float, lower: Array, upper: Array) -> float:
    size = len(w)
    each = np.eye(size)
    bounds = [*zip(lower, upper, strict=True), (0, None)]
    within = np.block([[each, -np.ones((size, 1))], [-each, -np.ones((size, 1))]])
    limits = {"A_ub": within, "b_ub": np.zeros(2 * size), "A_eq": [[*w, 0]], "b_eq": [gap], "bounds": bounds}
    return float(linprog(np.append(np.zeros(size), 1), **limits).fun)


def shortest_l1(w: Array, gap: float, lower: Array, upper: Array) -> float:
    size = len(w)
    bounds = [*[(0, high) for high in upper], *[(0, -low) for low in lower]]
    return float(linprog(np.ones(2 * size), A_eq=[[*w, *-w]], b_eq=[gap], bounds=bounds).fun)


def shortest_l2(w: Array, gap: float, lower: Array, upper: Array) -> float:
    # By the conditions of Karush, Kuhn and Tucker d = clip(t w): one unknown.
    def excess(t: float) -> float:
        return float(w @ np.clip(t * w, lower, upper)) - gap

    t = brentq(excess, -1e6, 1e6, xtol=1e-14)
    return float(np.linalg.norm(np.clip(t * w, lower, upper)))


SHORTEST = {"linf": shortest_linf, "l2": shortest_l2, "l1": shortest_l1}


@pytest.mark.parametrize("norm", NORMS)
def test_the_change_is_the_shortest_that_there_is(norm: str) -> None:
    points, normal, gap = drawn()
    lengths = length_of(change(points, normal, gap, norm), norm)
    for row in range(len(points)):
        x, w = points[row].numpy(), normal[row].numpy()
        expected = SHORTEST[norm](w, float(gap[row]), -x, 1 - x)
        assert float(lengths[row]) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("norm", NORMS)
@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), size=st.integers(3, 40))
def test_the_change_meets_the_hyperplane_and_stays_in_the_box(norm: str, seed: int, size: int) -> None:
    points, normal, gap = drawn(4, size, seed)
    changed = change(points, normal, gap, norm)
    torch.testing.assert_close((changed * normal).sum(1), gap, atol=1e-9, rtol=1e-9)
    assert float((points + changed).min()) >= -1e-12
    assert float((points + changed).max()) <= 1 + 1e-12
    assert not bool(changed[normal == 0].any())


@pytest.mark.parametrize("norm", NORMS)
def test_a_box_that_ends_before_the_hyperplane_gives_its_nearest_corner(norm: str) -> None:
    points, normal, _ = drawn()
    changed = change(points, normal, torch.full((12,), 1e3, dtype=torch.float64), norm)
    corner = torch.where(normal > 0, 1.0, torch.where(normal < 0, 0.0, points))
    torch.testing.assert_close(points + changed, corner)
    back = change(points, normal, torch.full((12,), -1e3, dtype=torch.float64), norm)
    torch.testing.assert_close(points + back, torch.where(normal == 0, points, 1.0 - corner))


@pytest.mark.parametrize("norm", NORMS)
def test_agrees_with_the_library_in_float32(norm: str) -> None:
    points, normal, gap = (tensor.float() for tensor in drawn(64, 100, seed=3))
    normal = torch.where(normal == 0, 0.5, normal)
    reached = change(points, normal, gap, norm)
    library = LIBRARY[norm](points, normal.clone(), gap + (normal * points).sum(1))
    torch.testing.assert_close(length_of(reached, norm), length_of(library, norm), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("norm", NORMS)
def test_a_flat_victim_moves_nothing_and_makes_no_nan(norm: str) -> None:
    points, normal, gap = (tensor.float() for tensor in drawn())
    assert not bool(change(points, 0 * normal, gap, norm).any())
    infinite = torch.full_like(normal, torch.inf)
    assert not bool(onto_hyperplane(gap, 0 * normal, -infinite, infinite, norm).any())


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e12, 1e25])
def test_the_scale_of_the_equation_does_not_matter(norm: str, scale: float) -> None:
    points, normal, gap = (tensor.float() for tensor in drawn())
    scaled = change(points, normal * scale, gap * scale, norm)
    torch.testing.assert_close(scaled, change(points, normal, gap, norm), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("norm", NORMS)
def test_rows_do_not_see_each_other(norm: str) -> None:
    points, normal, gap = drawn()
    whole = change(points, normal, gap, norm)
    for row in range(len(points)):
        one = slice(row, row + 1)
        torch.testing.assert_close(change(points[one], normal[one], gap[one], norm), whole[one], atol=1e-12, rtol=0)
