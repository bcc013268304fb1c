"""A module of the caller's own: normalised, copied, of one key in all processes, which each change of it changes."""

from __future__ import annotations

import copy
import functools
import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import MethodType
from typing import Any

import pytest
import timm
import torch
from torch import nn
from torch.nn import functional

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
        with pytest.raises(UsageError, match=r"'mine' cannot be identified.*lock of its class Small.*key=\{'mine'"):
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


MODULES = {
    "their_settings": """
        SCALE = 2.0
        TABLE = {"power": 2}

        class Config:
            rate = 1.0
            def __init__(self):
                self.width = 3

        CONFIG = Config()
    """,
    "their_layers": """
        import their_settings

        def halve(x):
            return x / 2

        def shift(x, by=1.0):
            return x + by * their_settings.CONFIG.rate

        def by_name(x):
            return x * 3

        def late(x):
            return x * 4
    """,
    "their_model": """
        import functools
        import torch
        from torch import nn
        import torch.nn.functional as F
        import their_layers
        from their_layers import shift
        from their_settings import SCALE, TABLE, CONFIG

        OFFSET = 1.0

        def helper(x):
            return x + OFFSET

        def power(exponent):
            def act(x):
                return x ** exponent
            return act

        class Base(nn.Module):
            gain = 1.0

            def scaled(self, x):
                return x * SCALE * self.gain

        class Net(Base):
            bias = 0.5

            def __init__(self):
                super().__init__()
                self.layers = nn.Sequential(nn.Linear(4, CONFIG.width), nn.ReLU())
                self.register_buffer("kept", torch.ones(2))
                self.register_buffer("lost", torch.ones(2), persistent=False)
                self.act = power(2)
                self.double = lambda x: 2 * x
                self.norm = functools.partial(F.layer_norm, normalized_shape=(3,), eps=1e-5)
                self.rate = 0.5
                self.kind = "by_name"

            def forward(self, x):
                from their_layers import late
                x = self.norm(self.scaled(self.act(self.double(self.layers(x)))))
                x = F.relu(helper(their_layers.halve(shift(x)))) ** TABLE["power"] * self.rate + self.bias
                return late(getattr(their_layers, self.kind)(x)) * self.kept.sum() * self.lost.sum()
    """,
}


def written(name: str, folder: Path, *replaced: str) -> None:
    lines = [line[8:] for line in MODULES[name].splitlines()]
    text = "\n".join(lines) + "\n"
    if replaced:
        assert text.count(replaced[0]) == 1
        text = text.replace(*replaced)
    (folder / f"{name}.py").write_text(text)


def forget() -> None:
    for name in MODULES:
        sys.modules.pop(name, None)


def made() -> nn.Module:
    """Import the modules anew, and make the model of the first seed."""
    forget()
    importlib.invalidate_caches()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model: nn.Module = importlib.import_module("their_model").Net()
    return model


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    # Files of one second and one size would be taken for each other's compiled code.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in MODULES:
        written(name, tmp_path)
    yield tmp_path
    forget()


IN_A_FILE: dict[str, tuple[str, str, str]] = {
    "the body of a class": ("their_model", "* self.kept.sum()", "+ self.kept.sum()"),
    "a base class": ("their_model", "x * SCALE * self.gain", "x * SCALE - self.gain"),
    "a class attribute": ("their_model", "bias = 0.5", "bias = 0.25"),
    "a helper of the same module": ("their_model", "return x + OFFSET", "return x - OFFSET"),
    "a constant": ("their_model", "OFFSET = 1.0", "OFFSET = 2.0"),
    "the code of a closure": ("their_model", "return x ** exponent", "return exponent ** x"),
    "the code of a lambda": ("their_model", "lambda x: 2 * x", "lambda x: 3 * x"),
    "a helper of another module": ("their_layers", "return x / 2", "return x / 3"),
    "a default in another module": ("their_layers", "by=1.0", "by=2.0"),
    "a helper found by a computed name": ("their_layers", "return x * 3", "return x / 3"),
    "a helper imported in a function": ("their_layers", "return x * 4", "return x / 4"),
    "a constant of another module": ("their_settings", "SCALE = 2.0", "SCALE = 3.0"),
    "a table of another module": ("their_settings", '"power": 2', '"power": 3'),
    "a setting of another module": ("their_settings", "rate = 1.0", "rate = 2.0"),
}


@pytest.mark.parametrize("name", IN_A_FILE)
def test_a_change_of_a_file_changes_the_key(folder: Path, name: str) -> None:
    module, *replaced = IN_A_FILE[name]
    before = identity_of("mine", made())
    written(module, folder, *replaced)
    assert identity_of("mine", made()) != before
    written(module, folder)
    assert identity_of("mine", made()) == before


def module(name: str) -> Any:
    return sys.modules[name]


def nudged(model: Any) -> None:
    with torch.no_grad():
        model.layers[0].weight[0, 0] += 1e-6


AT_RUN_TIME: dict[str, Callable[[Any], object]] = {
    "a weight": nudged,
    "a buffer": lambda model: model.kept.add_(1),
    "a buffer of no state dict": lambda model: model.lost.add_(1),
    "a setting of the instance": lambda model: setattr(model, "rate", 0.25),
    "a submodule": lambda model: model.layers.__setitem__(1, nn.GELU()),
    "a setting of a submodule": lambda model: setattr(model.layers[1], "inplace", True),
    "the variable of a closure": lambda model: setattr(model, "act", module("their_model").power(3)),
    "a lambda": lambda model: setattr(model, "double", lambda x: 3 * x),
    "an argument of a partial": lambda model: setattr(model, "norm", functools.partial(model.norm, eps=1e-6)),
    "the function of a partial": lambda model: setattr(
        model, "norm", functools.partial(functional.rms_norm, **model.norm.keywords)
    ),
    "a class attribute": lambda model: setattr(type(model), "bias", 0.25),
    "an attribute of a base class": lambda model: setattr(type(model).__base__, "gain", 2.0),
    "a constant": lambda model: setattr(module("their_model"), "OFFSET", 2.0),
    "a constant from another module": lambda model: setattr(module("their_model"), "SCALE", 3.0),
    "a table of another module": lambda model: module("their_settings").TABLE.update(power=3),
    "a setting of an object in another module": lambda model: setattr(module("their_settings").CONFIG, "rate", 2.0),
    "a setting of a class in another module": lambda model: setattr(module("their_settings").Config, "rate", 2.0),
    "a helper of another module": lambda model: setattr(module("their_layers"), "halve", lambda x: x / 3),
    "the defaults of a helper": lambda model: setattr(module("their_layers").shift, "__defaults__", (2.0,)),
    "a forward hook": lambda model: model.register_forward_hook(lambda *_: None),
    "a hook of a submodule": lambda model: model.layers[0].register_forward_pre_hook(lambda *_: None),
    "the forward of the class": lambda model: setattr(type(model), "forward", lambda self, x: x),
    "the forward of the instance": lambda model: setattr(model, "forward", MethodType(lambda self, x: x, model)),
    "another class": lambda model: setattr(model, "__class__", type("Other", (type(model),), {"bias": 0.25})),
}


REFUSED = {"a forward hook", "a hook of a submodule", "the forward of the instance"}


@pytest.mark.parametrize("name", AT_RUN_TIME)
def test_a_change_at_run_time_changes_the_key_or_is_refused(folder: Path, name: str) -> None:
    model = made()
    before = identity_of("mine", model)
    assert identity_of("mine", model) == before
    AT_RUN_TIME[name](model)
    if name not in REFUSED:
        assert identity_of("mine", model) != before
    else:
        with pytest.raises(UsageError, match=r"Give it a key of your own, key=\{'mine': '...'\}"):
            identity_of("mine", model)


def test_a_function_of_torch_that_was_replaced_changes_the_key(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = identity_of("mine", made())
    monkeypatch.setattr(functional, "relu", lambda x: x)
    assert identity_of("mine", made()) != before


def test_a_model_has_the_same_key_in_another_process(folder: Path) -> None:
    program = (
        "import sys, torch; from robench.models.in_memory_impl import identity_of; torch.manual_seed(0)\n"
        "import their_model; print(identity_of('mine', their_model.Net()))"
    )
    environment = {"PYTHONPATH": ":".join([str(folder), *sys.path]), "PYTHONHASHSEED": "1"}
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder, env=environment)
    assert ended.stdout.strip() == identity_of("mine", made())
