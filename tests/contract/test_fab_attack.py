"""The fast adaptive boundary attack: nearest points of linear models in closed form, mechanisms, laws, the library."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import torch
from attack_examples import (
    NUM_CLASSES,
    STD,
    CurvedVictim,
    LinearVictim,
    Module,
    around_the_middle,
    attacked,
    check_returned_clean_where_wrong,
    class_distances,
    distances,
    least_distances,
    nearest_seen,
)
from presence import present
from pyautoattack.fab_pt import FABAttack_PT

import robench
from robench.attacks import fab_impl as fab_module
from robench.attacks.attack import problem_of
from robench.attacks.base import Norm
from robench.attacks.fab import Fab
from robench.attacks.fab_impl import fab
from robench.attacks.rows import length_of
from robench.core.errors import DeclarationError
from robench.core.protocols import Batch, Perturbed
from robench.perturbations.draws import ExampleDraws

NORMS: tuple[Norm, ...] = ("linf", "l2", "l1")


def batch_of(victim: LinearVictim, num_examples: int = 16, seed: int = 1, spread: float = 0.05) -> Batch:
    return around_the_middle(victim, num_examples, seed, spread)


def is_fooled(victim: LinearVictim, result: Perturbed, batch: Batch) -> torch.Tensor:
    return victim.outputs(result.inputs).detach().argmax(1) != batch.targets


@pytest.mark.parametrize("num_targets", [None, NUM_CLASSES - 1])
@pytest.mark.parametrize("num_final_steps", [0, 3])
@pytest.mark.parametrize("norm", NORMS)
class TestLinearModel:
    def test_the_least_distance_is_reached(self, norm: Any, num_final_steps: int, num_targets: int | None) -> None:
        victim = LinearVictim()
        batch = batch_of(victim)
        declared = Fab(norm=norm, num_steps=20, num_targets=num_targets, num_final_steps=num_final_steps)
        result = attacked(declared, batch, victim)
        assert bool(present(result.found).all())
        assert bool(is_fooled(victim, result, batch).all())
        ratio = distances(result, batch, norm) / least_distances(victim, batch, norm)
        assert float(ratio.min()) > 1 - 1e-4
        assert float(ratio.max()) < (1.0005 if num_final_steps else 1.01)


def test_a_box_that_binds_makes_the_way_longer_and_never_left() -> None:
    victim = LinearVictim()
    batch = batch_of(victim, 32)
    cornered = replace(batch, inputs=(0.5 + 20 * (batch.inputs - 0.5)).clamp(0, 1))
    cornered = replace(cornered, targets=victim.outputs(cornered.inputs).argmax(1))
    for norm in NORMS:
        boxed = attacked(Fab(norm=norm, num_steps=10), cornered, victim)
        free = attacked(Fab(norm=norm, num_steps=10, clip="none"), cornered, victim)
        assert bool((boxed.inputs >= 0).all() and (boxed.inputs <= 1).all())
        assert not bool((free.inputs >= 0).all() and (free.inputs <= 1).all())
        assert bool(is_fooled(victim, boxed, cornered).all())
        longer = distances(boxed, cornered, norm) / distances(free, cornered, norm)
        assert float(longer.min()) > 0.999
        assert float(longer.max()) > 1.01


@pytest.mark.parametrize("norm", NORMS)
def test_the_search_onto_one_class_reaches_that_class(norm: Any) -> None:
    victim = LinearVictim()
    batch = batch_of(victim)
    second = victim.outputs(batch.inputs).argsort(dim=1, descending=True)[:, 1]
    one = attacked(Fab(norm=norm, num_steps=20, num_targets=1, num_final_steps=0), batch, victim)
    expected = class_distances(victim, batch, norm).gather(1, second[:, None])[:, 0]
    reached = victim.outputs(one.inputs).argmax(1) == second
    torch.testing.assert_close(distances(one, batch, norm)[reached], expected[reached], atol=0, rtol=0.011)
    assert bool((distances(one, batch, norm) <= 1.011 * expected).all())


def test_more_targets_never_end_farther() -> None:
    victim = CurvedVictim()
    batch = batch_of(victim, spread=0.5)
    results = [
        attacked(Fab(num_steps=10, num_targets=n, num_final_steps=0), batch, victim) for n in (1, NUM_CLASSES - 1)
    ]
    few, many = (distances(result, batch, "linf") for result in results)
    assert bool((many <= few)[results[0].found].all())
    assert bool((many < few)[results[0].found].any())


class TestMechanisms:
    """Each is switched off, or replaced, and must be missed."""

    def final_distance(self, **fields: Any) -> float:
        victim = CurvedVictim(seed=2)
        batch = batch_of(victim, 24, spread=0.5)
        declared = Fab(norm="l2", **{"num_steps": 12, "num_final_steps": 0, **fields})
        result = attacked(declared, batch, victim)
        return float(distances(result, batch, "l2")[present(result.found)].mean() + 10 * (~present(result.found)).sum())

    def test_without_overshooting_the_boundary_is_met_and_not_crossed(self) -> None:
        victim = LinearVictim()
        batch = batch_of(victim)
        result = attacked(Fab(norm="l2", num_steps=1, eta=1.0, num_final_steps=0), batch, victim)
        assert not bool(result.found.all())  # type: ignore[union-attr]  # a search for the nearest says what it found
        overshot = attacked(Fab(norm="l2", num_steps=1, num_final_steps=0), batch, victim)
        assert bool(overshot.found.all())  # type: ignore[union-attr]  # as above
        ratio = distances(overshot, batch, "l2") / least_distances(victim, batch, "l2")
        torch.testing.assert_close(ratio, torch.full_like(ratio, 1.05), atol=1e-4, rtol=0)

    def test_the_backward_step_brings_points_nearer(self) -> None:
        assert self.final_distance() < 0.99 * self.final_distance(beta=0.9999)

    def test_the_pull_toward_the_clean_input_brings_points_nearer(self) -> None:
        assert self.final_distance() < 0.999 * self.final_distance(alpha_max=1e-6)

    def test_the_final_search_brings_points_onto_the_boundary(self) -> None:
        assert self.final_distance(num_final_steps=3) < 0.999 * self.final_distance()

    def test_more_steps_never_end_farther(self) -> None:
        assert self.final_distance(num_steps=24) <= self.final_distance(num_steps=12) < self.final_distance(num_steps=2)

    def test_restarts_never_end_farther_and_somewhere_nearer(self) -> None:
        restarts = {"epsilon": Fraction(1), "num_steps": 8}
        assert self.final_distance(**restarts, num_restarts=4) < self.final_distance(**restarts)

    def test_restarts_begin_within_half_of_epsilon_or_of_the_distance_found(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        victim = LinearVictim()
        batch = batch_of(victim)
        least = least_distances(victim, batch, "l2")
        radius = float(least.median())
        begun = []
        stepped = fab_module._stepped  # the points that a search begins at are seen where it steps from them

        def watched(declaration: Fab, problem: Any, points: torch.Tensor, target: Any) -> torch.Tensor:
            begun.append(length_of(points - problem.inputs, "l2"))
            return stepped(declaration, problem, points, target)

        monkeypatch.setattr(fab_module, "_stepped", watched)
        epsilon = Fraction(radius)
        attacked(Fab(norm="l2", num_steps=1, num_restarts=2, epsilon=epsilon, num_final_steps=0), batch, victim)
        assert not bool(begun[0].any())
        expected = (1.05 * least).clamp(max=radius) / 2
        torch.testing.assert_close(begun[1].double(), expected, atol=0, rtol=1e-3)

    @pytest.mark.parametrize("norm", NORMS)
    def test_the_nearest_point_ever_seen_is_returned(self, norm: Any) -> None:
        victim = CurvedVictim(seed=3)
        nearest_seen(Fab(norm=norm, num_steps=15, num_targets=2), batch_of(victim, spread=0.5), victim, norm)


class TestStopAtSuccess:
    def declared(self, epsilon: float, **fields: Any) -> Fab:
        return Fab(num_steps=10, num_targets=3, epsilon=Fraction(epsilon), num_final_steps=0, **fields)

    def test_who_is_fooled_within_epsilon_is_asked_no_further(self) -> None:
        victim = LinearVictim()
        batch = batch_of(victim, 40)
        epsilon = float(least_distances(victim, batch, "linf").median()) * 1.02
        result = attacked(self.declared(epsilon, stop="at_success"), batch, victim)
        within = distances(result, batch, "linf") <= epsilon
        assert int(present(result.num_gradients)[within].max()) < 30
        assert int(present(result.num_gradients)[~within].min()) == 30


class TestLaws:
    def test_a_victim_that_draws_is_asked_anew_for_the_boundary_of_each_class(self) -> None:
        class Drawing(LinearVictim):
            def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
                asked.append(tuple(present(seeds)))
                return super().outputs(inputs)

        asked: list[tuple[int, ...]] = []
        batch = batch_of(LinearVictim(), 8)
        result = attacked(Fab(num_steps=4, num_final_steps=0), batch, Drawing())
        assert set(present(result.num_queries).tolist()) == {1 + 4 * NUM_CLASSES + 1}
        # All predictions have one set of seeds, and every other pass has its own.
        assert len(set(asked)) == 4 * (NUM_CLASSES - 1) + 1
        assert torch.equal(result.inputs, attacked(Fab(num_steps=4, num_final_steps=0), batch, LinearVictim()).inputs)

    def test_what_is_wrong_already_is_returned_clean_and_found_unasked(self) -> None:
        victim = LinearVictim()
        check_returned_clean_where_wrong(Fab(num_steps=5), victim, batch_of(victim, 8))


class TestNormalisedSpace:
    @pytest.mark.parametrize("clip", ["box", "none"])
    @pytest.mark.parametrize("norm", NORMS)
    def test_the_least_distance_is_meant_there(self, norm: Any, clip: Any) -> None:
        victim = LinearVictim()
        batch = batch_of(victim)
        result = attacked(
            Fab(norm=norm, num_steps=15, space="normalised", clip=clip, labels="predicted"), batch, victim
        )
        there = length_of((result.inputs.double() - batch.inputs.double()) / STD, norm)
        assert bool(is_fooled(victim, result, batch).all())
        # Coordinates are larger where the deviation is small.
        torch.testing.assert_close(there, least_distances(victim, batch, norm, scale=STD), atol=0, rtol=2e-3)


class TestRefusals:
    def test_too_few_classes_are_named(self) -> None:
        victim = LinearVictim(num_classes=2)
        batch = batch_of(victim)
        assert attacked(Fab(num_steps=3, num_targets=1), batch, victim).found is not None
        with pytest.raises(DeclarationError, match="fab with num_targets 9 needs at least 10 classes, the model has 2"):
            attacked(Fab(num_steps=3, num_targets=9), batch, victim)
        with pytest.raises(DeclarationError, match="fab needs at least 2 classes, the model has 1"):
            attacked(Fab(num_steps=3), batch_of(LinearVictim(num_classes=1)), LinearVictim(num_classes=1))


@pytest.mark.parametrize("checkpoint", ["digits-vit", pytest.param("digits-rpc-symvit", marks=pytest.mark.slow)])
def test_agrees_with_the_library_on_a_published_checkpoint(checkpoint: str) -> None:
    victim: Any = robench.load_checkpoint(checkpoint)
    batch = robench.load_dataset("digits").batch(0, 20)
    is_right = victim.outputs(batch.inputs).detach().argmax(1) == batch.targets
    library = FABAttack_PT(Module(victim), norm="Linf", n_iter=10, device="cpu", targeted=True)
    library.target_class = 2
    theirs = library.attack_single_run(batch.inputs, batch.targets, is_targeted=True)
    declared = Fab(num_steps=10, num_targets=1, num_final_steps=0)
    ours = fab(declared, problem_of(declared, batch, victim, ExampleDraws(range(20)), 20))
    lengths = [length_of(points.double() - batch.inputs.double(), "linf")[is_right] for points in (ours.points, theirs)]
    found = victim.outputs(theirs).detach().argmax(1) != batch.targets
    assert torch.equal(present(ours.found), found)
    assert float((lengths[0] / lengths[1]).median()) < 1.001
    stated = float(lengths[1].median())
    assert float(((lengths[0] > stated) != (lengths[1] > stated)).double().mean()) <= 0.05
