"""Gradients of models: drop path, batch norms, solvers, and the reference of masked gradients."""

from __future__ import annotations

from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import pytest
import torch
from timm.layers import DropPath
from torch import Tensor, nn
from training_examples import ARCHITECTURE

import robench
from robench.attacks.pgd import Pgd
from robench.attention.mom import Mom
from robench.attention.rpc import Rpc
from robench.core.errors import DeclarationError, UnknownNameError
from robench.declarations.base import FieldsError
from robench.declare import read_registries
from robench.models.build import build, guard_batch_norms
from robench.models.foreign import Python, Timm
from robench.models.transformer import Boost, FeatScale
from robench.models.vit import Fan, QuantizedVit, Vit
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws

FAN = Fan(image_size=32, patch_size=8, num_classes=10, depth=4, dim=16, num_heads=2)
TIMM = Timm(name="vit_tiny_patch16_224", arguments={"img_size": 32, "depth": 4, "embed_dim": 24})
FOUR = replace(ARCHITECTURE, depth=4)
EVERY: dict[str, Any] = {
    "softmax": FOUR,
    "rpc": replace(FOUR, attention=Rpc()),
    "mom": replace(FOUR, attention=Mom()),
    "boost": replace(FOUR, residual=Boost()),
    "featscale": replace(FOUR, residual=FeatScale()),
    "fan": FAN,
    "timm": TIMM,
}


def built(architecture: Any, *rate: float) -> nn.Module:
    torch.manual_seed(0)
    return build(architecture, *rate)


def output(model: nn.Module, seed: int = 1) -> Tensor:
    images = torch.randn(6, 3, 32, 32, generator=torch.Generator().manual_seed(9))
    torch.manual_seed(seed)
    with torch.no_grad():
        found: Tensor = model(images)
    return found


def rates(model: nn.Module) -> list[float]:
    return [float(module.drop_prob or 0) for module in model.modules() if isinstance(module, DropPath)]


@pytest.mark.parametrize("architecture", EVERY.values(), ids=EVERY)
class TestEveryBackbone:
    def test_a_rate_of_zero_is_the_model_without_one_bit_for_bit(self, architecture: Any) -> None:
        plain, zero = built(architecture), built(architecture, 0.0)
        after = float(torch.rand(()))
        assert rates(zero) == []
        assert [(name, value.tolist()) for name, value in plain.state_dict().items()] == [
            (name, value.tolist()) for name, value in zero.state_dict().items()
        ]
        assert torch.equal(output(plain.train()), output(zero.train()))
        built(architecture)
        assert float(torch.rand(())) == after

    def test_a_rate_changes_neither_weights_nor_evaluation(self, architecture: Any) -> None:
        plain, dropping = built(architecture), built(architecture, 0.5)
        assert list(plain.state_dict()) == list(dropping.state_dict())
        assert all(torch.equal(value, dropping.state_dict()[name]) for name, value in plain.state_dict().items())
        assert torch.equal(output(plain.eval()), output(dropping.eval()))

    def test_in_training_branches_are_dropped_anew_each_time(self, architecture: Any) -> None:
        model = built(architecture, 0.5).train()
        assert torch.equal(output(model, 1), output(model, 1))
        assert not torch.equal(output(model, 1), output(model, 2))


def test_the_rate_rises_linearly_with_depth_as_in_timm() -> None:
    assert rates(built(FOUR, 0.3)) == pytest.approx([rate for rate in (0.1, 0.2, 0.3) for _ in range(2)])
    assert rates(built(FOUR, 0.3)) == rates(built(TIMM, 0.3))


def test_what_an_entry_says_of_a_timm_model_counts_more() -> None:
    own = replace(TIMM, arguments={**TIMM.arguments, "drop_path_rate": 0.6})
    assert (
        rates(built(own, 0.3))
        == rates(built(own))
        == pytest.approx([rate for rate in (0.2, 0.4, 0.6) for _ in range(2)])
    )


def test_a_model_of_the_users_own_takes_none() -> None:
    with pytest.raises(DeclarationError, match=r"takes no drop path, got drop_path_rate 0\.1"):
        build(Python(target="package.module:function"), 0.1)


def test_a_declaration_of_no_backbone_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown backbone 'rpc'"):
        build(Rpc(), 0.1)


@pytest.mark.parametrize(
    "raised",
    [
        RuntimeError("[enforce fail] not enough memory\nframe 1"),
        MemoryError(),
        OverflowError("too large"),
        ValueError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_of_building_name_the_declared_sizes(raised: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(architecture: object) -> nn.Module:
        raise raised

    monkeypatch.setattr("robench.models.vit_impl.build_vit", fail)
    with pytest.raises(DeclarationError) as caught:
        build(FOUR)
    message = str(caught.value)
    assert message.startswith("backbone 'vit' cannot be built with depth 4, dim 12, num_heads 2, image_size 32")
    assert type(raised).__name__ in message
    assert message.isprintable()
    assert caught.value.exit_code == 2


class Tokens(nn.Module):
    """A batch norm below the usual way from the output of a convolution, (B, C, H, W), to tokens, (B, H W, C)."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x).flatten(2).transpose(1, 2)


def scattered(model: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, value in model.double().eval().state_dict().items():
            if value.is_floating_point():
                drawn = torch.rand(value.shape, generator=generator, dtype=value.dtype)
                value.copy_(0.5 + drawn if "var" in name else drawn - 0.5)
    return model.requires_grad_(False)


def drawn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def gradient(model: nn.Module, x: Tensor, weights: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(model(x), x, weights)[0]


@pytest.mark.parametrize("batch_size", [1, 2])
def test_the_gradient_is_that_of_an_affine_function(batch_size: int) -> None:
    model = scattered(Tokens())
    guard_batch_norms(model)
    norm = model.norm
    assert isinstance(norm, nn.BatchNorm2d)
    weights = drawn(batch_size, 4, 8, seed=2)
    slope = norm.weight / (norm.get_buffer("running_var") + norm.eps).sqrt()
    wanted = (weights * slope).transpose(1, 2).reshape(batch_size, 8, 2, 2)
    found = gradient(model, drawn(batch_size, 8, 2, 2), weights)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-14)


def test_outputs_are_bit_equal_with_the_guard() -> None:
    plain, guarded = scattered(Tokens()), scattered(Tokens())
    guard_batch_norms(guarded)
    assert torch.equal(plain(drawn(1, 8, 2, 2)), guarded(drawn(1, 8, 2, 2)))


def test_models_are_built_with_the_guard() -> None:
    """A single image's gradient is that which it has in a batch of two."""
    model = scattered(build(Fan(image_size=16, patch_size=8, num_classes=3, depth=1, dim=8, num_heads=2)))
    images, weights = drawn(2, 3, 16, 16), drawn(2, 3, seed=2)
    both = gradient(model, images, weights)
    alone = gradient(model, images[:1], weights[:1])
    torch.testing.assert_close(alone, both[:1], rtol=1e-9, atol=1e-12)


DIGITS = robench.load_dataset("digits")
BATCH = DIGITS.batch(0, 8)
NAIVE = Pgd(epsilon=Fraction(8, 255), relative_step=Fraction(1, 4), num_steps=3)
THROUGH = Pgd(epsilon=Fraction(8, 255), relative_step=Fraction(1, 4), num_steps=3, gradients="through_solvers")


@pytest.fixture(scope="module")
def released() -> robench.models.victim.LoadedModel:
    return robench.load_checkpoint("digits-spkde-released-vit")


def scores_and_slope(victim: robench.models.victim.LoadedModel) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = BATCH.inputs.clone().requires_grad_(True)
    logits = victim.outputs(inputs)
    (slope,) = torch.autograd.grad(logits.logsumexp(1).sum(), inputs)
    return logits.detach(), slope


def test_scores_are_the_same_and_gradients_are_not(released) -> None:
    own, through = scores_and_slope(released), scores_and_slope(released.with_gradients("through_solvers"))
    assert torch.equal(own[0], through[0])
    assert (own[1] - through[1]).abs().max() > 1e-3 * own[1].abs().max()


def test_the_gradient_is_that_of_central_differences(released) -> None:
    victim, inputs = released.with_gradients("through_solvers"), BATCH.inputs[:2]
    _, slope = scores_and_slope(victim)
    direction = torch.sign(slope[:2])
    step = 2e-3
    ahead, behind = (
        victim.outputs(inputs + sign * step * direction).logsumexp(1).sum().double() for sign in (1.0, -1.0)
    )
    wanted = float((ahead - behind) / (2 * step))
    met = float((slope[:2] * direction).sum())
    _, own = scores_and_slope(released)
    cut = float((own[:2] * direction).sum())
    assert abs(met - wanted) < 0.1 * abs(wanted)
    assert abs(met - wanted) < abs(cut - wanted)


def test_the_victim_itself_keeps_its_own_gradients(released) -> None:
    before = scores_and_slope(released)[1]
    scores_and_slope(released.with_gradients("through_solvers"))
    assert torch.equal(scores_and_slope(released)[1], before)


def test_so_it_does_where_a_pass_fails(released) -> None:
    before = scores_and_slope(released)[1]
    with pytest.raises(robench.core.errors.ContractError):
        released.with_gradients("through_solvers").outputs(BATCH.inputs[:, :1])
    assert torch.equal(scores_and_slope(released)[1], before)


def test_a_model_that_solves_nothing_has_the_same_gradients() -> None:
    victim = robench.load_checkpoint("digits-vit")
    assert torch.equal(scores_and_slope(victim)[1], scores_and_slope(victim.with_gradients("through_solvers"))[1])


def test_an_attack_follows_the_gradients_that_it_is_declared_to(released) -> None:
    draws = ExampleDraws(range(len(BATCH.ids)))
    naive, through = (perturb(attack, BATCH, released, draws).inputs for attack in (NAIVE, THROUGH))
    assert not torch.equal(naive, through)
    plain = robench.load_checkpoint("digits-vit")
    assert torch.equal(*(perturb(attack, BATCH, plain, draws).inputs for attack in (NAIVE, THROUGH)))


SIZES = {"image_size": 8, "patch_size": 4, "num_classes": 5, "depth": 1, "dim": 12, "num_heads": 3}


def quantized(step: float) -> torch.nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return build(QuantizedVit(**SIZES, step=step)).eval()  # type: ignore[arg-type]  # sizes are whole numbers


def plain() -> torch.nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return build(Vit(**SIZES)).eval()  # type: ignore[arg-type]  # likewise


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("step", [0.1, 0.5])
def test_logits_are_those_of_the_plain_model_on_rounded_images(images: torch.Tensor, step: float) -> None:
    with torch.no_grad():
        assert torch.equal(quantized(step)(images), plain()(torch.round(images / step) * step))
        assert not torch.equal(quantized(step)(images), plain()(images))


def test_weights_are_those_of_the_plain_model() -> None:
    ours, theirs = quantized(0.1).state_dict(), plain().state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_the_gradient_is_zero_where_the_plain_models_is_not(images: torch.Tensor) -> None:
    slopes = []
    for model in (quantized(0.1), plain()):
        at = images.clone().requires_grad_()
        (slope,) = torch.autograd.grad(model(at).logsumexp(1).sum(), at)
        slopes.append(float(slope.abs().max()))
    assert slopes[0] == 0
    assert slopes[1] > 0


@pytest.mark.parametrize("step", [0, -0.1, 101, float("nan")])
def test_a_step_that_is_none_is_refused(step: float) -> None:
    with pytest.raises(FieldsError, match="step must be"):
        QuantizedVit(**SIZES, step=step)  # type: ignore[arg-type]  # likewise


class TestPublished:
    def test_it_is_digits_vit_behind_rounding(self) -> None:
        entries = read_registries()
        broken, sound = entries["digits-quantized-vit"], entries["digits-vit"]
        assert broken.weights == sound.weights
        assert isinstance(broken.architecture, QuantizedVit)
        shared = [field.name for field in fields(Vit)]
        assert [getattr(broken.architecture, name) for name in shared] == [
            getattr(sound.architecture, name) for name in shared
        ]

    def test_it_has_its_published_clean_accuracy_and_stands_under_the_noise_of_an_attack(self) -> None:
        digits = robench.load_dataset("digits")
        everything, model = digits.batch(0, len(digits)), robench.load_checkpoint("digits-quantized-vit")
        noise = 2 * torch.rand(everything.inputs.shape, generator=torch.Generator().manual_seed(0)) - 1
        accuracies = []
        for inputs in (everything.inputs, (everything.inputs + 8 / 255 * noise).clamp(0, 1)):
            with torch.no_grad():
                accuracies.append(float((model.outputs(inputs).argmax(1) == everything.targets).double().mean()))
        expected = read_registries()["digits-quantized-vit"].expected["top1_accuracy"]
        assert accuracies[0] == pytest.approx(expected, abs=5e-5)
        assert accuracies[1] > 0.95
