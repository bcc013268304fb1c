"""A module of the caller's own as the model that is measured: identified, normalised and copied."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from torch import nn

from robench.core.errors import ContractError, UsageError
from robench.core.outcomes import Outcome
from robench.declarations.preprocessing import ImagePreprocessing
from robench.models import BACKBONES
from robench.models.in_memory import InMemory, in_memory_checkpoint
from robench.models.in_memory_impl import identity_of, model_of, preprocessing_of
from robench.tasks import TASKS, Task

PLAIN = ImagePreprocessing(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
CHECKPOINT = in_memory_checkpoint("mine", "0" * 64, PLAIN, Path("/nowhere"))
PIXELS = torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))


class Small(nn.Module):
    """Batch norm, dropout and a fused switch, on four by four pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(16, 10))
        self.fused_attn = True

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.norm(self.conv(images)))
        return logits


class Doubled:
    """Rules of a task whose outputs are twice what the module returns, of any shape."""

    def outputs_of(self, output: torch.Tensor, num_rows: int) -> torch.Tensor:
        return 2 * output


DOUBLED = Doubled()


def test_a_modules_outputs_are_read_by_the_rules_of_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    builtin: Any = TASKS.builtin  # a dict
    doubling = Task(name="doubling", title="Twice", outcome=Outcome, implementation=f"{__name__}:DOUBLED")
    monkeypatch.setitem(builtin, doubling.name, doubling)
    module = nn.Conv2d(3, 2, 1)
    model = model_of(replace(CHECKPOINT, task=doubling.name), module)
    assert torch.equal(model.outputs(PIXELS), 2 * module(PIXELS))
    assert model.outputs(PIXELS).shape == (2, 2, 4, 4)


def everything(module: nn.Module) -> dict[str, Any]:
    """What a caller can see of a module."""
    return {
        "modes": [each.training for each in module.modules()],
        "hooks": [len(each._forward_hooks) for each in module.modules()],
        "state": {name: (tensor.clone(), tensor.dtype, tensor.device) for name, tensor in module.state_dict().items()},
        "gradients": [(each.requires_grad, each.grad) for each in module.parameters()],
        "tensors": [id(each) for each in (*module.parameters(), *module.buffers())],
        "fused": getattr(module, "fused_attn", None),
        "strides": [each.stride() for each in module.parameters()],
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_the_callers_module_stays_as_it_is(dtype: torch.dtype) -> None:
    module = Small().train().to(dtype=dtype, memory_format=torch.channels_last)
    module.conv.weight.requires_grad_(False)
    before = everything(module)
    victim = model_of(CHECKPOINT, module)
    inputs = PIXELS.clone().requires_grad_(True)
    victim.outputs(inputs).sum().backward()
    after = everything(module)
    states = before.pop("state"), after.pop("state")
    assert after == before
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name][0], tensor) for name, (tensor, _, _) in states[1].items())
    assert all(states[0][name][1:] == found[1:] for name, found in states[1].items())


def test_what_is_measured_is_the_module_in_evaluation_mode_on_pixels() -> None:
    module = Small()
    wanted = copy.deepcopy(module).eval()(PIXELS)
    victim = model_of(CHECKPOINT, module)
    assert torch.equal(victim.outputs(PIXELS), wanted)
    normalised = ImagePreprocessing(mean=(0.5, 0.4, 0.3), std=(0.2, 0.2, 0.2))
    seen = model_of(replace(CHECKPOINT, preprocessing=normalised), nn.Flatten()).outputs(PIXELS)
    mean = torch.tensor(normalised.mean).reshape(3, 1, 1)
    torch.testing.assert_close(seen, ((PIXELS - mean) / 0.2).flatten(1))


def test_the_copy_has_what_models_of_registries_have() -> None:
    module = Small()
    victim = model_of(CHECKPOINT, module)
    copied = victim._module
    assert not any(each.training for each in copied.modules())
    assert not any(each.requires_grad for each in copied.parameters())
    assert copied.fused_attn is False
    assert len(copied.norm._forward_hooks) == 1  # type: ignore[union-attr]
    assert all(each.is_contiguous() for each in copied.parameters())


class Stubborn(Small):
    def __deepcopy__(self, memo: object) -> Stubborn:
        return self


class Uncopyable(Small):
    def __deepcopy__(self, memo: object) -> Stubborn:
        raise TypeError("cannot pickle a lock")


class Leaving(Small):
    def __deepcopy__(self, memo: object) -> Stubborn:
        raise SystemExit(3)


def with_a_tensor_of_a_graph() -> nn.Module:
    module = Small()
    module.kept = module(PIXELS)  # type: ignore[assignment]
    return module


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (Stubborn, r"its copy shares modules or tensors with it"),
        (Uncopyable, r"TypeError: cannot pickle a lock"),
        (with_a_tensor_of_a_graph, r"RuntimeError: Only Tensors created explicitly by the user"),
    ],
)
def test_a_module_that_cannot_be_copied_is_refused(make: Callable[[], nn.Module], reason: str) -> None:
    with pytest.raises(UsageError, match=rf"model 'mine' cannot be copied \({reason}.*make copy.deepcopy\(module\)"):
        model_of(CHECKPOINT, make())


def test_copying_does_not_end_the_process() -> None:
    with pytest.raises(ContractError, match="SystemExit: 3"):
        model_of(CHECKPOINT, Leaving())


def test_without_preprocessing_a_module_gets_pixels_of_any_number_of_channels() -> None:
    as_they_are = ImagePreprocessing(mean=(), std=())
    assert preprocessing_of("mine", Small()) == as_they_are
    assert preprocessing_of("mine", nn.Sequential(timm.create_model("resnet10t"))) == as_they_are
    assert as_they_are.num_channels is None


@pytest.mark.parametrize("name", ["resnet10t", "vit_tiny_patch16_224"])
def test_models_of_timm_get_pixels_normalised_as_they_state(name: str) -> None:
    model = timm.create_model(name, num_classes=10)
    found = preprocessing_of("mine", model)
    assert (found.mean, found.std) == (tuple(model.pretrained_cfg["mean"]), tuple(model.pretrained_cfg["std"]))
    assert found != PLAIN
    assert (found.resize, found.crop) == (None, None)


def test_a_model_of_timm_of_one_channel_gets_grey_pixels() -> None:
    model = timm.create_model("resnet10t", num_classes=10)
    model.pretrained_cfg = {**model.pretrained_cfg, "mean": (0.5,), "std": (0.25,)}
    assert preprocessing_of("grey", model) == ImagePreprocessing(mean=(0.5,), std=(0.25,))
    model.pretrained_cfg = {**model.pretrained_cfg, "mean": (0.5,), "std": (0.25, 0.25)}
    with pytest.raises(UsageError, match=r"states the mean \(0.5,\).*expected as many channels of both"):
        preprocessing_of("grey", model)


class TestIdentity:
    def test_a_key_takes_the_place_of_the_whole_digest(self) -> None:
        found = {identity_of(name, module, "k") for name, module in [("a", Small()), ("b", nn.ReLU())]}
        assert len(found) == 1
        assert len({*found, identity_of("a", Small(), "l"), identity_of("a", Small())}) == 3
        assert all(len(each) == 64 for each in found)

    def test_without_a_key_what_cannot_be_digested_is_refused_with_the_remedy(self) -> None:
        module = Small()
        module.lock = object()  # type: ignore[assignment]
        with pytest.raises(
            UsageError, match=r"model 'mine' cannot be identified.*lock of its class Small.*key=\{'mine'"
        ):
            identity_of("mine", module)
        assert len(identity_of("mine", module, "k")) == 64

    def test_an_object_that_fails_when_it_is_asked_for_its_class_is_refused(self) -> None:
        class Odd:
            @property
            def __class__(self) -> type:
                raise KeyError("no class")

        module = Small()
        module.__dict__["odd"] = Odd()
        with pytest.raises(UsageError, match=r"cannot be identified by its state and source: KeyError: 'no class'"):
            identity_of("mine", module)


class TestDeclaration:
    def test_no_registry_can_name_it(self) -> None:
        assert InMemory.kind not in BACKBONES
