"""Attacks that see labels alone: courses against plain loops, estimates and distances against closed forms, queries."""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, inf, sqrt

import numpy as np
import pytest
import torch
from attack_examples import (
    SIZE,
    ConstantVictim,
    CurvedVictim,
    FunctionVictim,
    LinearVictim,
    around_the_middle,
    attacked,
    distances,
    least_distances,
    rows_of,
)
from presence import present
from torch import Tensor

from robench.attacks.attack import problem_of
from robench.attacks.hop_skip_jump import HopSkipJump
from robench.attacks.hop_skip_jump_impl import MOST_STARTS, Search
from robench.attacks.label_problem import LabelProblem
from robench.attacks.rays import Rays
from robench.core.protocols import Batch
from robench.declarations.base import FieldsError
from robench.perturbations.draws import ExampleDraws

NUM_QUERIES = 90


class CountedVictim(CurvedVictim):
    """Counts the rows of all passes but those of predictions, which alone are made without inference mode."""

    num_queries = 0

    def outputs(self, inputs: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        self.num_queries += len(inputs) * torch.is_inference_mode_enabled()
        return super().outputs(inputs, seeds)


def rays_by_loop(victim: CurvedVictim, clean: np.ndarray, label: int, num_queries: int) -> float:
    """Return the nearest distance that RayS finds for one example, in float64; infinite for none."""
    signs, best, nearest, level, block, left = np.ones(SIZE), inf, inf, 0, 0, num_queries

    def fools(trial: np.ndarray, radius: float) -> bool:
        nonlocal left, nearest
        left -= 1
        point = np.clip(clean + min(radius, 1.0) * trial, 0, 1)
        found = int(victim.outputs(torch.tensor(point, dtype=torch.float32).view(1, 3, 4, 4)).argmax()) != label
        nearest = min(nearest, float(np.abs(point - clean).max())) if found else nearest
        return found

    while left:
        size = ceil(SIZE / 2**level)
        end = min(SIZE, (block + 1) * size)
        trial = signs.copy()
        trial[block * size : end] *= -1
        if fools(trial, best):
            low, high = 0.0, min(best, 1.0)
            while left:
                middle = (low + high) / 2
                low, high = (low, middle) if fools(trial, middle) else (middle, high)
                if high - low <= 1e-3 / sqrt(SIZE):
                    break
            if high < best:
                best, signs = high, trial
        level, block = (level + 1, 0) if block + 1 == 2**level or end == SIZE else (level, block + 1)
    return nearest


@pytest.mark.parametrize("num_queries", [5, NUM_QUERIES, 300])
def test_rays_finds_what_a_plain_loop_over_examples_finds(num_queries: int) -> None:
    victim = CurvedVictim()
    batch = around_the_middle(victim, 4)
    result = attacked(Rays(num_queries=num_queries), batch, victim)
    wanted = [
        rays_by_loop(victim, batch.inputs[row].double().numpy().ravel(), int(batch.targets[row]), num_queries)
        for row in range(4)
    ]
    found = distances(result, batch, "linf")
    assert present(result.found).tolist() == [each < inf for each in wanted]
    np.testing.assert_allclose(found[present(result.found)], [each for each in wanted if each < inf], atol=2e-6)


ATTACKS = [
    Rays(num_queries=NUM_QUERIES),
    *(HopSkipJump(norm=norm, num_queries=NUM_QUERIES, initial_evaluations=20) for norm in ("l2", "linf")),
]


@pytest.mark.parametrize("declared", ATTACKS, ids=lambda each: f"{each.kind}-{each.search_norm}")
@pytest.mark.parametrize("num_queries", [1, 37, NUM_QUERIES])
def test_no_example_takes_more_queries_than_declared(declared: Rays | HopSkipJump, num_queries: int) -> None:
    batch = around_the_middle(CurvedVictim(), 2)
    for row in range(2):
        victim = CountedVictim()
        attacked(replace(declared, num_queries=num_queries), rows_of(batch, [row]), victim, [row])
        # A step of HopSkipJump that would take more than are left is not begun.
        assert num_queries * (declared.kind == "rays" or num_queries == 1) <= victim.num_queries <= num_queries
        assert victim.num_queries > 0.3 * num_queries


def test_an_attack_that_sees_labels_gets_nothing_else() -> None:
    victim = LinearVictim()
    problem = LabelProblem(problem_of(ATTACKS[0], around_the_middle(victim, 2), victim, ExampleDraws(range(2)), 2))
    hidden = {
        "evaluate",
        "differentiate",
        "differentiate_each",
        "sample",
        "look",
        "predict",
        "victim",
        "loss",
        "labels",
    }
    for each in (problem, problem.at(search=0, step=1), problem.take(torch.tensor([0]))):
        assert type(each) is LabelProblem
        assert not hidden & set(dir(each))


def boundary_problem(declared: HopSkipJump) -> tuple[LabelProblem, Batch, LinearVictim]:
    """Return points on a hyperplane between two classes, far from all limits."""
    victim = LinearVictim(num_classes=2)
    batch = around_the_middle(victim, 6, spread=0.1)
    normal = (victim.weight[1] - victim.weight[0]).double()
    inputs = batch.inputs.double().flatten(1)
    gaps = (inputs - 0.5) @ normal
    on = inputs - (gaps / normal.square().sum())[:, None] * normal
    batch = replace(batch, inputs=on.float().view_as(batch.inputs))
    return LabelProblem(problem_of(declared, batch, victim, ExampleDraws(range(6)), 6)), batch, victim


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_the_estimated_direction_is_that_of_the_boundary(norm: str) -> None:
    declared = HopSkipJump(norm=norm, num_queries=10_000)
    problem, batch, victim = boundary_problem(declared)
    rows = torch.arange(6)
    search = Search(declared, problem, problem.begun(norm), rows, 0)
    search.step = 1
    few, many = (search.estimated(rows, batch.inputs, torch.full((6,), 0.05), count) for count in (50, 1000))
    normal = victim.weight[1] - victim.weight[0]
    toward = torch.where(batch.targets == 0, 1.0, -1.0)[:, None] * normal / normal.norm()
    # Of n samples in D dimensions, with the mean c of |u . n| of unit vectors: 1 / sqrt(1 + (1 / c^2 - 1) / n).
    cosines = [(each.flatten(1) * toward).sum(1) for each in (few, many)]
    for cosine, count in zip(cosines, (50, 1000), strict=True):
        expected = 1 / sqrt(1 + (SIZE * torch.pi / 2 - 1) / count)
        assert cosine.mean() == pytest.approx(expected, abs=0.06)
        assert cosine.min() > expected - 0.2
    assert search.left.tolist() == [10_000 - 1050] * 6


def test_away_from_the_boundary_the_mean_of_the_classes_is_the_baseline() -> None:
    declared = HopSkipJump(num_queries=10_000)
    problem, batch, victim = boundary_problem(declared)
    search = Search(declared, problem, problem.begun("l2"), torch.arange(6), 0)
    normal = victim.weight[1] - victim.weight[0]
    toward = (torch.where(batch.targets == 0, 1.0, -1.0)[:, None] * normal / normal.norm()).view_as(batch.inputs)

    def estimated(moved: float) -> Tensor:
        search.step = 1
        return search.estimated(torch.arange(6), batch.inputs + moved * toward, torch.full((6,), 0.05), 200)

    # 92 % of the samples fool, 1.4 deviations of them beyond: a cosine of 0.75, and 0.53 without a baseline.
    assert float((estimated(0.01) * toward).flatten(1).sum(1).mean()) == pytest.approx(0.75, abs=0.1)
    # Where all or none do, the same samples point away from each other's side.
    torch.testing.assert_close(estimated(0.06), -estimated(-0.06), atol=1e-4, rtol=0)


@pytest.mark.parametrize(("norm", "most"), [("l2", 1.06), ("linf", 1.15)])
def test_distances_on_a_linear_model_are_nearly_the_least(norm: str, most: float) -> None:
    victim = LinearVictim()
    batch = around_the_middle(victim, 5, spread=0.1)
    ratios = {}
    for num_queries in (300, 1500):
        result = attacked(HopSkipJump(norm=norm, num_queries=num_queries), batch, victim)
        assert bool(present(result.found).all())
        ratios[num_queries] = distances(result, batch, norm) / least_distances(victim, batch, norm)
    assert float(ratios[1500].min()) >= 1 - 1e-4
    assert float(ratios[1500].median()) < most < float(ratios[300].median())


def test_darker_noise_begins_a_search_where_all_uniform_noise_has_the_examples_class() -> None:
    def by_brightness(inputs: Tensor) -> Tensor:
        mean = inputs.flatten(1).mean(1)
        return torch.stack([mean, torch.full_like(mean, 0.2)], 1)

    batch = Batch(ids=("a", "b"), inputs=torch.full((2, 3, 4, 4), 0.5), targets=torch.zeros(2, dtype=torch.int64))
    result = attacked(HopSkipJump(num_queries=600), batch, FunctionVictim(by_brightness))
    assert present(result.found).tolist() == [True, True]
    # To the mean of 0.2: 0.3 in each of the values.
    assert distances(result, batch).tolist() == pytest.approx([0.3 * sqrt(SIZE)] * 2, rel=0.05)


def test_without_a_first_point_a_search_ends() -> None:
    batch = Batch(ids=("a",), inputs=torch.full((1, 3, 4, 4), 0.5), targets=torch.zeros(1, dtype=torch.int64))
    result = attacked(HopSkipJump(num_queries=500), batch, ConstantVictim())
    # Two predictions beside.
    assert present(result.num_queries).tolist() == [MOST_STARTS + 2]


def test_limits_must_exist() -> None:
    with pytest.raises(FieldsError, match=r"clip.*must be box or unit for rays, which needs limits, got none"):
        Rays(num_queries=9, clip="none")
