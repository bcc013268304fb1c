"""The parts of DeiT's recipe, each held to its own equation."""

import random
from math import cos, pi

import numpy as np
import pytest
import torch
from torch import Tensor
from training_examples import ARCHITECTURE, recipe

from robench.models.build import build
from robench.models.foreign import Timm
from robench.models.vit import Fan
from robench.training.deit_impl import Mixing, optimizer_of, schedule_of
from robench.training.optimization import seed_for, seeded


def rates(**changes: object) -> list[float]:
    training = recipe(**changes)
    optimizer = torch.optim.AdamW([torch.zeros(1)], lr=training.learning_rate)
    schedule = schedule_of(optimizer, training)
    found = []
    for epoch in range(training.num_epochs):
        schedule.step(epoch)
        found.append(float(optimizer.param_groups[0]["lr"]))
    return found


class TestLearningRate:
    def test_it_rises_linearly_and_then_follows_a_cosine_that_began_with_it(self) -> None:
        found = rates(num_epochs=20, warmup_epochs=5, learning_rate=1e-3)
        rising = [1e-6 + (1e-3 - 1e-6) * epoch / 5 for epoch in range(5)]
        falling = [1e-5 + (1e-3 - 1e-5) * (1 + cos(pi * epoch / 20)) / 2 for epoch in range(5, 20)]
        assert found == pytest.approx(rising + falling, rel=1e-12)

    def test_without_warm_up_it_starts_at_the_peak(self) -> None:
        assert rates(warmup_epochs=0, learning_rate=0.5)[0] == 0.5

    @pytest.mark.parametrize(("batch_size", "peak"), [(512, 5e-4), (1024, 1e-3), (128, 1.25e-4)])
    def test_the_peak_is_proportional_to_the_batch(self, batch_size: int, peak: float) -> None:
        training = recipe(learning_rate=5e-4, batch_size=batch_size)
        groups = optimizer_of(torch.nn.Linear(2, 2), training).param_groups
        assert [group["lr"] for group in groups] == [pytest.approx(peak)] * 2


class TestWeightDecay:
    def names(self, model: torch.nn.Module) -> dict[float, set[str]]:
        groups = optimizer_of(model, recipe(weight_decay=0.3)).param_groups
        by_value = {id(value): name for name, value in model.named_parameters()}
        return {group["weight_decay"]: {by_value[id(value)] for value in group["params"]} for group in groups}

    def test_vectors_biases_positions_and_tokens_are_spared_and_every_parameter_is_in_one_group(self) -> None:
        model = build(ARCHITECTURE)
        found = self.names(model)
        assert found[0.0] | found[0.3] == {name for name, _ in model.named_parameters()}
        assert not found[0.0] & found[0.3]
        assert {"pos_embed", "cls_token", "norm.weight", "head.bias", "blocks.1.attn.qkv.bias"} <= found[0.0]
        assert {"head.weight", "patch_embed.proj.weight", "blocks.0.attn.qkv.weight"} <= found[0.3]
        assert all(model.get_parameter(name).ndim > 1 for name in found[0.3])

    def test_both_tokens_of_a_distilled_model_are_spared(self) -> None:
        distilled = build(Timm(name="deit_tiny_distilled_patch16_224", arguments={"depth": 1}))
        assert {"cls_token", "dist_token", "pos_embed"} <= self.names(distilled)[0.0]

    def test_a_model_that_names_no_such_parameters_itself_has_its_token_spared(self) -> None:
        fan = build(Fan(image_size=32, patch_size=8, num_classes=10, depth=1, dim=8, num_heads=2))
        assert "cls_token" in self.names(fan)[0.0]


def batch(size: int) -> tuple[Tensor, Tensor]:
    """Images whose pixels all are the number of the example, of classes that are the number too."""
    numbers = torch.arange(size)
    return numbers.float().reshape(-1, 1, 1, 1).expand(-1, 3, 8, 8).clone(), numbers


def mixed(seed: int, size: int = 4, **changes: object) -> tuple[Tensor, Tensor]:
    images, classes = batch(size)
    targets = Mixing(recipe(batch_size=size, **changes), num_classes=size)(images, classes, seed)
    return images, targets


class TestMixing:
    @pytest.mark.parametrize("seed", range(12))
    def test_an_answer_is_as_much_of_each_example_as_the_image_shows(self, seed: int) -> None:
        images, targets = mixed(seed, label_smoothing=0.0)
        numbers = torch.arange(4.0)
        shown = images.mean(dim=(1, 2, 3))
        assert torch.allclose(targets @ numbers, shown, atol=1e-5)
        assert torch.allclose(targets.sum(dim=1), torch.ones(4))
        # The first is mixed with the last, the second with the one before.
        assert all(set(row.nonzero().flatten().tolist()) <= {i, 3 - i} for i, row in enumerate(targets))

    def test_mixup_blends_every_pixel_alike_and_cutmix_takes_each_from_one_of_the_two(self) -> None:
        blended = [mixed(seed, cutmix=0.0)[0] for seed in range(8)]
        assert all(torch.equal(images, images[:, :1, :1, :1].expand_as(images)) for images in blended)
        cut = [mixed(seed, mixup=0.0)[0] for seed in range(8)]
        assert all(
            set(image.unique().tolist()) <= {float(i), 3.0 - i} for images in cut for i, image in enumerate(images)
        )
        assert any(len(images[0].unique()) == 2 for images in cut)

    def test_both_ways_occur_where_both_are_asked_for(self) -> None:
        ways = {len(mixed(seed)[0][0].unique()) for seed in range(30)}
        assert ways == {1, 2}

    def test_without_mixing_targets_are_smoothed_one_hots(self) -> None:
        images, targets = mixed(0, mixup=0.0, cutmix=0.0, label_smoothing=0.2)
        assert torch.equal(images, batch(4)[0])
        assert torch.allclose(targets, 0.8 * torch.eye(4) + 0.05)

    def test_examples_are_mixed_in_groups_of_256_by_default(self) -> None:
        size = 2 * 256
        _, targets = mixed(1, size, label_smoothing=0.0)
        partners = [set(row.nonzero().flatten().tolist()) for row in targets]
        assert partners[0] <= {0, 255}
        assert partners[256] <= {256, 511}
        assert targets[0].max() != targets[256].max()

    def test_it_is_a_function_of_the_seed_and_leaves_the_generators_alone(self) -> None:
        before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # type: ignore[index]  # a tuple by default
        first, again, other = mixed(3)[0], mixed(3)[0], mixed(4)[0]
        assert torch.equal(first, again)
        assert not torch.equal(first, other)
        assert before == (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())  # type: ignore[index]  # likewise


class TestSeeds:
    def test_every_purpose_epoch_and_position_has_its_own(self) -> None:
        places = [(purpose, epoch, at) for purpose in ("a", "b") for epoch in range(3) for at in range(3)]
        assert len({seed_for(0, *place) for place in places} | {seed_for(1, *place) for place in places}) == 36

    def test_within_a_seed_all_three_libraries_draw_the_same_and_after_it_as_before(self) -> None:
        def draws() -> tuple[float, float, float]:
            return random.random(), float(np.random.rand()), float(torch.rand(()))

        def around() -> tuple[object, object, object]:
            random.seed(1)
            np.random.seed(1)
            torch.manual_seed(1)
            before = draws()
            with seeded(2**63 + 5):
                within = draws()
            return before, within, draws()

        first = around()
        with seeded(2**63 + 5):
            assert draws() == first[1]
        assert around() == first
        random.seed(1)
        np.random.seed(1)
        torch.manual_seed(1)
        assert (draws(), draws()) == (first[0], first[2])

    def test_generators_are_restored_where_something_fails_within(self) -> None:
        torch.manual_seed(1)
        wanted = float(torch.rand(()))
        torch.manual_seed(1)
        with pytest.raises(ZeroDivisionError), seeded(2):
            raise ZeroDivisionError
        assert float(torch.rand(())) == wanted
