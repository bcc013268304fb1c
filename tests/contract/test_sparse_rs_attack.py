"""Sparse-RS: which pixels a trial exchanges, how many change, and what worst cases it is in."""

from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Any

import pytest
import torch
from attack_examples import SHAPE, SmoothVictim, around_the_middle, attacked

from robench.attacks.attack import problem_of
from robench.attacks.pgd import Pgd
from robench.attacks.sparse_rs import SparseRs
from robench.attacks.sparse_rs_impl import exchanged
from robench.core.errors import BudgetExceededError, ContractError
from robench.core.protocols import Batch
from robench.declarations.supports import L0
from robench.declare import parse_suite
from robench.domains.images import IMAGES
from robench.perturbations.draws import ExampleDraws

SPARSE = SparseRs(epsilon=Fraction(1), l0=L0(count=5), num_queries=30)
COUNT = 120


def changed_of(points: torch.Tensor, clean: torch.Tensor, unit: str) -> torch.Tensor:
    changed = points != clean
    return (changed.any(1) if unit == "pixels" else changed).flatten(1)


@pytest.mark.parametrize("unit", ["pixels", "values"])
@pytest.mark.parametrize("proportion", [0.3, 0.05, 1.0])
def test_a_trial_exchanges_a_proportion_of_the_places_for_others(unit: Any, proportion: float) -> None:
    """Black, white and grey images: a colour that is the clean one would leave its place unchanged."""
    l0, generator = L0(count=5, unit=unit), torch.Generator().manual_seed(3)
    clean = (torch.rand(COUNT, *SHAPE, generator=generator) * 3).floor() / 2
    batch = Batch(ids=tuple(map(str, range(COUNT))), inputs=clean, targets=torch.zeros(COUNT, dtype=torch.int64))
    problem = problem_of(replace(SPARSE, l0=l0), batch, SmoothVictim(), ExampleDraws(range(COUNT)), COUNT)
    num_places, channels = (16, 3) if unit == "pixels" else (48, 1)

    def drawn() -> torch.Tensor:
        return torch.rand(COUNT, num_places + 5 * channels, generator=generator)

    first = exchanged(problem, clean, 1.0, drawn(), l0=l0)
    before = changed_of(first, clean, unit)
    assert before.sum(1).tolist() == [5] * COUNT
    # All places are as likely.
    assert before.any(0).all()
    trial = exchanged(problem, first, proportion, drawn(), l0=l0)
    after = changed_of(trial, clean, unit)
    assert after.sum(1).tolist() == [5] * COUNT
    num_new = ceil(proportion * 5)
    assert (after & ~before).sum(1).tolist() == [num_new] * COUNT
    # What stays has its colour, and new colours are at the ends of the range.
    kept = (before & after).view(COUNT, *((1, *SHAPE[1:]) if unit == "pixels" else SHAPE)).expand_as(clean)
    assert torch.equal(trial[kept], first[kept])
    assert set(trial[trial != clean].unique().tolist()) <= {0.0, 1.0}


def test_it_changes_exactly_so_many_pixels_and_keeps_the_best() -> None:
    victim = SmoothVictim()
    batch = around_the_middle(victim, 12)
    few, many = (attacked(replace(SPARSE, num_queries=count), batch, victim).inputs for count in (1, 60))
    for made in (few, many):
        assert changed_of(made, batch.inputs, "pixels").sum(1).tolist() == [5] * 12
    margins = [victim.outputs(made).softmax(1).gather(1, batch.targets[:, None])[:, 0] for made in (few, many)]
    assert float(margins[1].mean()) < 0.8 * float(margins[0].mean())


def test_a_planted_violation_is_refused() -> None:
    clean = torch.full((1, 3, 6, 6), 0.5)
    changed = clean.clone()
    changed[0, 1, 0, :3] = 1.0
    with pytest.raises(BudgetExceededError, match="changed 3 pixels, more than 2"):
        IMAGES.rules.check_perturbed(changed, clean, replace(SPARSE, l0=L0(count=2)), SmoothVictim())
    batch = around_the_middle(SmoothVictim(), 2)
    with pytest.raises(ContractError, match="sparse-rs: l0 must be at most the 16 pixels of an input, got 17"):
        attacked(replace(SPARSE, l0=L0(count=17)), batch)


def test_worst_cases_take_it_together_with_gradients_on_as_many_pixels() -> None:
    l0 = {"count": 5}
    pgd = {"kind": "pgd", "epsilon": "1", "relative_step": "1/4", "num_steps": 4, "l0": l0}
    conditions = [
        {"name": "clean"},
        {"name": "pgd", "perturbation": pgd},
        *(
            {"name": f"rs-{count}", "perturbation": {"kind": "sparse-rs", "epsilon": "1", "num_queries": 9, "l0": each}}
            for count, each in ((5, l0), (6, {"count": 6}))
        ),
    ]
    suite = parse_suite(
        {"name": "few", "version": 1, "description": "Few pixels", "seed": 0, "dataset": "digits", "audit": False}
        | {"batch_size": 20, "batches_per_shard": 3, "metrics": ["robust_accuracy"], "conditions": conditions}
    )
    assert {column.conditions for column in suite.columns} == {("clean", "pgd", "rs-5"), ("clean", "rs-6")}
    assert (
        SPARSE.threat_model == Pgd(epsilon=Fraction(1), l0=L0(count=5), step_size=Fraction(1), num_steps=1).threat_model
    )
