"""A model in memory keeps its key in every process; any change of what it does changes the key, or asks for one."""

import functools
import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MethodType
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from robench.core.errors import UsageError
from robench.models.in_memory_impl import identity_of

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
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            cwd=folder,
            env={"PYTHONPATH": ":".join([str(folder), *sys.path]), "PYTHONHASHSEED": seed},
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert found == {identity_of("mine", made())}
