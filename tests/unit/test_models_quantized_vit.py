"""The reference of masked gradients: right about the same images as the model behind it, and without a gradient."""

from dataclasses import fields

import pytest
import torch

import robench
from robench.declarations.base import FieldsError
from robench.declare import read_registries
from robench.models.build import build
from robench.models.vit import QuantizedVit, Vit

SIZES = {"image_size": 8, "patch_size": 4, "num_classes": 5, "depth": 1, "dim": 12, "num_heads": 3}


def built(step: float) -> torch.nn.Module:
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
        assert torch.equal(built(step)(images), plain()(torch.round(images / step) * step))
        assert not torch.equal(built(step)(images), plain()(images))


def test_weights_are_those_of_the_plain_model() -> None:
    ours, theirs = built(0.1).state_dict(), plain().state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_the_gradient_is_zero_where_the_plain_models_is_not(images: torch.Tensor) -> None:
    slopes = []
    for model in (built(0.1), plain()):
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
