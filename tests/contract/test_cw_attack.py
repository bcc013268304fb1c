"""Carlini and Wagner's attack: nearest points of linear models in closed form, mechanisms, laws, papers' calls."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torchattacks
from attack_examples import (
    MEAN,
    NUM_CLASSES,
    SHAPE,
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
    margins,
    nearest_seen,
)
from presence import present

import robench
from robench.attacks.cw import Cw
from robench.attacks.cw_impl import _Adam
from robench.core.errors import DeclarationError
from robench.core.protocols import Batch, Perturbed
from robench.perturbations.draws import ExampleDraws

QUICK = Cw(num_steps=40, num_search_steps=3, initial_c=0.1, learning_rate=0.01)
STRONG = Cw(num_steps=100, num_search_steps=6, initial_c=0.05, learning_rate=0.004, stops_early=False)


def found(result: Perturbed) -> torch.Tensor:
    return present(result.found)


def gradients(result: Perturbed) -> torch.Tensor:
    return present(result.num_gradients)


class TestLinearModel:
    @pytest.mark.parametrize("confidence", [0.0, 0.5])
    @pytest.mark.parametrize("clip", ["box", "none"])
    def test_the_least_distance_is_reached(self, clip: Any, confidence: float) -> None:
        victim = LinearVictim(num_classes=2)
        batch = around_the_middle(victim)
        # Without tanh a value moves by as much as its variable, in the middle of the box by half as much.
        declared = replace(STRONG, clip=clip, confidence=confidence, learning_rate=0.004 if clip == "box" else 0.002)
        result = attacked(declared, batch, victim)
        assert bool(found(result).all())
        assert bool((margins(result.inputs, batch, victim) > confidence - 1e-5).all())
        ratio = distances(result, batch) / least_distances(victim, batch, confidence=confidence)
        assert float(ratio.min()) > 1 - 1e-4
        assert float(ratio.max()) < 1.01

    def test_of_several_classes_the_way_to_the_one_reached_is_the_shortest(self) -> None:
        # The margin leads to the class of the next highest logit, of which the boundary need not be the nearest.
        victim = LinearVictim()
        batch = around_the_middle(victim)
        result = attacked(STRONG, batch, victim)
        reached = victim.outputs(result.inputs).argmax(1)
        ratio = distances(result, batch) / class_distances(victim, batch).gather(1, reached[:, None])[:, 0]
        assert float(ratio.max()) < 1.01
        assert float((distances(result, batch) / least_distances(victim, batch)).median()) < 1.002

    def test_normalised_space_has_its_own_distance(self) -> None:
        victim = LinearVictim(num_classes=2)
        batch = around_the_middle(victim)
        boxed = replace(STRONG, space="normalised", labels="predicted", num_steps=180)
        for declared in (boxed, replace(boxed, clip="none", learning_rate=0.005)):
            result = attacked(declared, batch, victim)
            there = ((result.inputs.double() - batch.inputs.double()) / STD).flatten(1).norm(dim=1)
            assert bool((margins(result.inputs, batch, victim) > 0).all())
            assert float((there / least_distances(victim, batch, scale=STD)).max()) < 1.01


class TestMechanisms:
    def test_a_search_multiplies_c_by_ten_until_one_succeeds(self) -> None:
        victim = LinearVictim()
        batch = around_the_middle(victim)
        declared = replace(QUICK, initial_c=1e-6, learning_rate=0.002, num_steps=80)
        few, many = (attacked(replace(declared, num_search_steps=n), batch, victim) for n in (3, 7))
        assert not bool(found(few).any())
        assert torch.equal(few.inputs, batch.inputs)
        assert bool(found(many).all())

    def test_a_search_halves_the_distance_to_what_failed_where_one_succeeds(self) -> None:
        victim = LinearVictim()
        batch = around_the_middle(victim)
        means = []
        for num_search_steps in (1, 9):
            declared = replace(QUICK, initial_c=50.0, num_search_steps=num_search_steps, stops_early=False)
            means.append(float(distances(attacked(declared, batch, victim), batch).mean()))
        assert means[1] < 0.97 * means[0]

    def test_the_c_of_each_example_is_its_own(self) -> None:
        victim = LinearVictim()
        near = around_the_middle(victim, 4, spread=0.05)
        far = around_the_middle(victim, 4, spread=0.5)
        both = Batch(
            ids=near.ids + tuple(f"far-{i}" for i in range(4)),
            inputs=torch.cat([near.inputs, far.inputs]),
            targets=torch.cat([near.targets, far.targets]),
        )
        together = attacked(QUICK, both, victim, batch_size=8)
        for part, rows in ((near, slice(0, 4)), (far, slice(4, 8))):
            alone = attacked(QUICK, part, victim, batch_size=8)
            torch.testing.assert_close(together.inputs[rows], alone.inputs, atol=1e-6, rtol=0)

    @pytest.mark.slow
    def test_an_early_stop_saves_passes_and_little_else(self) -> None:
        victim = LinearVictim()
        batch = around_the_middle(victim)
        long = replace(STRONG, num_steps=200, num_search_steps=2)
        stopped, whole = (attacked(replace(long, stops_early=stops), batch, victim) for stops in (True, False))
        assert set(gradients(whole).tolist()) == {400}
        assert int(gradients(stopped).max()) < 400
        assert len(set(gradients(stopped).tolist())) > 1
        assert float((distances(stopped, batch) / distances(whole, batch)).max()) < 1.1

    def test_confidence_is_a_lead_of_logits(self) -> None:
        victim = CurvedVictim()
        batch = around_the_middle(victim, spread=0.5)
        result = attacked(replace(STRONG, confidence=0.3), batch, victim)
        assert bool(found(result).any())
        assert bool((margins(result.inputs, batch, victim)[found(result)] > 0.3 - 1e-5).all())

    def test_a_continued_search_goes_on_from_where_the_last_ended(self) -> None:
        victim = LinearVictim()
        batch = around_the_middle(victim)
        slow = replace(QUICK, num_steps=10, initial_c=1.0, learning_rate=0.01, stops_early=False)
        slow = replace(slow, num_search_steps=6, learning_rate=0.002)
        anew, on = (attacked(replace(slow, continues=continues), batch, victim) for continues in (False, True))
        assert int(found(anew).sum()) < int(found(on).sum())

    def test_adam_steps_as_torch_does(self) -> None:
        generator = torch.Generator().manual_seed(5)
        drawn = torch.randn(7, 2, 9, generator=generator)
        ours = _Adam.at(drawn[0])
        theirs = drawn[0].clone().requires_grad_(True)
        optimiser = torch.optim.Adam([theirs], lr=0.03)
        for gradient in drawn[1:]:
            ours = ours.stepped(gradient, 0.03)
            theirs.grad = gradient.clone()
            optimiser.step()
        torch.testing.assert_close(ours.variables, theirs.detach(), atol=1e-6, rtol=1e-6)

    def test_the_nearest_point_ever_seen_is_returned(self) -> None:
        victim = CurvedVictim(seed=3)
        batch = around_the_middle(victim, spread=0.5)
        assert bool(nearest_seen(replace(QUICK, stops_early=False), batch, victim, "l2").any())

    def test_what_is_found_is_confirmed_by_the_final_prediction(self) -> None:
        class Wavering(LinearVictim):
            """Says something else with the draws of its final prediction."""

            def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
                logits = super().outputs(inputs)
                is_final = seeds is not None and tuple(seeds)[: len(final)] == final
                return logits + 100 * torch.nn.functional.one_hot(batch.targets, NUM_CLASSES) if is_final else logits

        victim = Wavering()
        final = ExampleDraws(range(16)).prediction_seeds
        batch = around_the_middle(LinearVictim())
        result = attacked(QUICK, batch, victim)
        assert not bool(found(result).any())
        assert torch.equal(result.inputs, batch.inputs)


class TestLaws:
    def test_torchattacks_stops_working_below_zero_where_this_does_not(self) -> None:
        victim = LinearVictim(constant=-20.0)
        batch = around_the_middle(victim)
        theirs = torchattacks.CW(Module(victim), c=1, steps=60, lr=0.02)(batch.inputs, batch.targets)
        ours = attacked(replace(QUICK, num_search_steps=1, initial_c=1.0), batch, victim)
        assert int((margins(theirs, batch, victim) > 0).sum()) < int(found(ours).sum()) == 16

    def test_what_is_wrong_already_is_returned_clean_and_found_unasked(self) -> None:
        victim = LinearVictim()
        check_returned_clean_where_wrong(QUICK, victim, around_the_middle(victim, 8))

    def test_images_of_zeros_and_ones_stay_images_of_numbers(self) -> None:
        victim = LinearVictim()
        inputs = torch.randint(0, 2, (16, *SHAPE), generator=torch.Generator().manual_seed(8)).float()
        batch = Batch(ids=tuple(map(str, range(16))), inputs=inputs, targets=victim.outputs(inputs).argmax(1))
        # A value of 0 or 1 is where tanh is flat, from which a small step does not lead away.
        result = attacked(replace(QUICK, learning_rate=0.5, initial_c=10.0), batch, victim)
        assert bool((result.inputs >= 0).all() and (result.inputs <= 1).all())
        assert int(found(result).sum()) > 8


def clever_hans(
    victim: LinearVictim, normalised: torch.Tensor, confidence: float, num_steps: int, *, own: bool
) -> torch.Tensor:
    """A reference for how papers call cleverhans: normalised images cut to [0, 1], Adam never reset, no early stop."""

    def logits_of(points: torch.Tensor) -> torch.Tensor:
        return victim.outputs(points * STD + MEAN)

    ended = []
    for image in normalised:
        label = int(logits_of(image[None]).argmax())
        cut = image.clamp(0, 1)
        start = torch.atanh((2 * cut - 1) * 0.999999)
        variables = torch.zeros_like(start, requires_grad=True)
        optimiser = torch.optim.Adam([variables], lr=0.1)
        best, nearest, low, high, c = np.inf, cut, 0.0, np.inf, 0.01
        for _ in range(5):
            hit = False
            for _ in range(num_steps):
                points = (torch.tanh(start + variables) + 1) / 2
                logits = logits_of(points[None])[0]
                others = torch.cat([logits[:label], logits[label + 1 :]]).max()
                behind = others - logits[label] if own else logits[label] - others
                distance = (points - cut).square().sum()
                optimiser.zero_grad()
                (c * (behind + confidence).clamp(min=0) + distance).backward()
                optimiser.step()
                if float(behind.detach()) < -confidence:
                    hit = True
                    if float(distance.detach()) < best:
                        best, nearest = float(distance.detach()), points.detach()
            high, low = (min(high, c), low) if hit else (high, max(low, c))
            c = 10 * c if np.isinf(high) else (low + high) / 2
        ended.append(nearest)
    return torch.stack(ended)


class TestAsPapersCallIt:
    declared = Cw(
        num_steps=10, num_search_steps=5, initial_c=0.01, learning_rate=0.1, stops_early=False, continues=True,
        space="normalised", clip="none", labels="predicted", clip_min=0.0, clip_max=1.0,
    )  # fmt: skip

    @pytest.mark.parametrize("target", ["other", "own"])
    @pytest.mark.parametrize("confidence", [0.0, 1.0])
    def test_it_is_cleverhans_on_normalised_images(self, target: Any, confidence: float) -> None:
        victim = LinearVictim(seed=4)
        batch = around_the_middle(victim, 12, spread=0.5)
        result = attacked(replace(self.declared, target=target, confidence=confidence), batch, victim)
        normalised = (batch.inputs - MEAN) / STD
        expected = clever_hans(victim, normalised, confidence, 10, own=target == "own")
        torch.testing.assert_close((result.inputs - MEAN) / STD, expected, atol=2e-5, rtol=0)

    def test_toward_its_own_class_a_model_is_not_attacked(self) -> None:
        victim = LinearVictim(seed=4)
        batch = around_the_middle(victim, 12, spread=0.5)
        own = attacked(replace(self.declared, target="own"), batch, victim)
        cut = ((batch.inputs - MEAN) / STD).clamp(0, 1) * STD + MEAN
        is_kept = victim.outputs(cut).argmax(1) == batch.targets
        assert 0 < int(is_kept.sum()) < 12
        torch.testing.assert_close(own.inputs[is_kept], cut[is_kept], atol=1e-5, rtol=0)
        assert bool((victim.outputs(own.inputs).argmax(1) == batch.targets)[found(own)].all())


class TestRefusals:
    def test_a_model_of_one_class_is_named(self) -> None:
        victim = LinearVictim(num_classes=1)
        with pytest.raises(DeclarationError, match="cw needs at least 2 classes, the model has 1"):
            attacked(QUICK, around_the_middle(victim), victim)


@pytest.mark.parametrize("checkpoint", ["digits-vit", pytest.param("digits-rpc-symvit", marks=pytest.mark.slow)])
def test_agrees_with_the_library_on_a_published_checkpoint(checkpoint: str) -> None:
    victim: Any = robench.load_checkpoint(checkpoint)
    batch = robench.load_dataset("digits").batch(0, 20)
    library = torchattacks.CW(Module(victim), c=5, steps=15, lr=0.06)(batch.inputs, batch.targets)
    declared = Cw(num_steps=15, num_search_steps=1, initial_c=5.0, learning_rate=0.06, stops_early=False)
    ours = attacked(declared, batch, victim)
    theirs = Perturbed(inputs=library)
    fooled = [margins(result.inputs, batch, victim) > 0 for result in (ours, theirs)]
    assert torch.equal(found(ours), fooled[0])
    assert bool((fooled[0] | ~fooled[1]).all())
    assert int(fooled[1].sum()) >= 10
    both = fooled[0] & fooled[1]
    ratio = (distances(ours, batch) + 1e-9) / (distances(theirs, batch) + 1e-9)
    assert float(ratio[both].median()) < 1.002
