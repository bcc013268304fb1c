"""The digest of a module in memory: what computes something else has another, what computes the same has the same.

Models are written to files and imported, as a user's own are; the key is the digest, so that each pair here is a pair
of runs of which the second may, or must not, find the first one's results.
"""

import copy
import enum
import importlib
import itertools
import sys
import threading
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MethodType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import timm
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from robench.models.build import guard_batch_norms
from robench.models.module_digest import UndigestibleError, digest_of_module

Write = Callable[..., ModuleType]
Change = Callable[[nn.Module], object]

SOURCE = """
import math
import torch
from torch import nn
import torch.nn.functional as F

SCALE = 2.0
TABLE = {"power": 2}

def scaled(x):
    return x * SCALE

def power(x, exponent=1):
    return x ** exponent

class Base(nn.Module):
    offset = 0

    def shift(self, x):
        return x + self.offset

class Net(Base):
    def __init__(self, width=3):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(4, width), nn.ReLU())
        self.register_buffer("kept", torch.ones(2))
        self.register_buffer("lost", torch.ones(2), persistent=False)
        self.rate = 0.5

    def forward(self, x):
        return power(scaled(self.shift(self.layers(x)))) * self.kept.sum() * self.lost.sum() * self.rate
"""


class Plain(nn.Module):
    """Holds one attribute of any kind."""

    def __init__(self, held: object = None) -> None:
        super().__init__()
        self.held = held


class Acting(nn.Module):
    """Applies a function."""

    def __init__(self, act: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.act = act

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(x)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass
class Settings:
    width: int
    names: tuple[str, ...] = ()


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write a module of the user's own, with text replaced, and import it anew."""
    monkeypatch.syspath_prepend(tmp_path)
    # Files of one second and one size would be taken for each other's compiled code.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    written: list[str] = []

    def import_written(source: str = SOURCE, name: str = "my_digested_model", **replaced: str) -> ModuleType:
        for old, new in replaced.items():
            assert old in source
            source = source.replace(old, new)
        (tmp_path / f"{name}.py").write_text(source)
        sys.modules.pop(name, None)
        importlib.invalidate_caches()
        written.append(name)
        return importlib.import_module(name)

    yield import_written
    for name in written:
        sys.modules.pop(name, None)


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make()


def refusal(module: nn.Module) -> str:
    with pytest.raises(UndigestibleError) as caught:
        digest_of_module(module)
    return str(caught.value)


def nudge(model: nn.Module) -> None:
    with torch.no_grad():
        parameter = next(model.parameters())
        parameter.view(-1)[0] += 1e-7 * max(1.0, float(parameter.view(-1)[0].abs()))


CHANGES: dict[str, Change] = {
    "a parameter by 1e-7": nudge,
    "a buffer": lambda model: model.kept.add_(1),
    "a buffer that is not persistent": lambda model: model.lost.add_(1),
    "numbers of half precision": lambda model: model.half(),
    "an attribute": lambda model: setattr(model, "rate", 0.25),
    "an attribute of another type": lambda model: setattr(model, "rate", np.float64(0.5)),
    "a new attribute": lambda model: setattr(model, "other", None),
    "an attribute of a submodule of torch's": lambda model: setattr(model.layers[2], "inplace", True),
    "the order of submodules": lambda model: setattr(model, "layers", nn.Sequential(*reversed(model.layers))),
    "a class of torch's": lambda model: model.layers.__setitem__(2, nn.GELU()),
    "a submodule left out": lambda model: model.layers.__delitem__(2),
    "a submodule of None": lambda model: setattr(model, "layers", None),
    "the shape of a parameter": lambda model: setattr(
        model.layers[1], "weight", nn.Parameter(model.layers[1].weight.detach().reshape(4, 3))
    ),
    "a function": lambda model: setattr(model, "act", torch.relu),
    "another function": lambda model: setattr(model, "act", functional.gelu),
    "a function of a factory of torch's": lambda model: setattr(model, "act", functional.max_pool2d),
    "another function of that factory": lambda model: setattr(model, "act", functional.adaptive_max_pool2d),
    "a module in a list": lambda model: setattr(model, "act", [nn.ReLU()]),
    "a module in a list in evaluation mode": lambda model: setattr(model, "act", [nn.ReLU().eval()]),
    "one submodule twice": lambda model: setattr(model, "act", model.layers[2]),
    "another of the same class": lambda model: setattr(model, "act", nn.ReLU()),
}


def test_every_change_of_an_instance_has_a_digest_of_its_own(write: Write) -> None:
    model = seeded(write().Net)
    digests = {"none": digest_of_module(model)}
    for name, change in CHANGES.items():
        changed = copy.deepcopy(model)
        change(changed)
        digests[name] = digest_of_module(changed)
    same = [pair for pair in itertools.combinations(digests, 2) if digests[pair[0]] == digests[pair[1]]]
    assert same == []


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.eval(),
        lambda model: model.train(),
        lambda model: model.requires_grad_(False),
        lambda model: model.layers(torch.rand(2, 4)).sum().backward(),
        lambda model: model.to("meta").to_empty(device="cpu").load_state_dict(STATE),
        lambda model: model.register_state_dict_post_hook(lambda *_: None),
        guard_batch_norms,
        lambda model: setattr(model.layers[1], "weight", nn.Parameter(model.layers[1].weight.detach().t().clone().t())),
    ],
    ids=["eval", "train", "frozen", "gradients", "reloaded", "state-dict-hook", "guarded", "strides"],
)
def test_what_does_not_matter_in_evaluation_changes_nothing(write: Write, change: Change) -> None:
    model = seeded(write().Net)
    model.lost.zero_()
    STATE.update(copy.deepcopy(model.state_dict()))
    before = digest_of_module(model)
    change(model)
    model.lost.zero_()
    assert digest_of_module(model) == before


STATE: dict[str, Any] = {}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_module_on_a_gpu_has_the_same_digest(write: Write) -> None:
    model = seeded(write().Net)
    assert digest_of_module(copy.deepcopy(model).cuda()) == digest_of_module(model)


def test_the_digest_is_the_same_for_a_copy_and_in_a_fresh_import(write: Write) -> None:
    first = seeded(write().Net)
    digest = digest_of_module(first)
    assert digest_of_module(copy.deepcopy(first)) == digest
    assert digest_of_module(seeded(write().Net)) == digest
    assert len(digest) == 64


SOURCE_CHANGES = {
    "forward": {"* self.kept.sum()": "+ self.kept.sum()"},
    "a base class": {"x + self.offset": "x - self.offset"},
    "an attribute of a base class": {"offset = 0": "offset = 1"},
    "a global number": {"SCALE = 2.0": "SCALE = 3.0"},
    "a function that it calls": {"x * SCALE": "x / SCALE"},
    "a metaclass": {"class Base(nn.Module):": "class Meta(type):\n    pass\n\nclass Base(nn.Module, metaclass=Meta):"},
    "a default of a function": {"exponent=1": "exponent=2"},
    "a decorator": {"    def shift": "    @torch.no_grad()\n    def shift"},
    "another decorator": {"    def shift": "    @torch.enable_grad()\n    def shift"},
    "an argument of a decorator": {"    def shift": "    @torch.set_grad_enabled(True)\n    def shift"},
    "the order of two lines that say the same": {"import math\nimport torch\n": "import torch\nimport math\n"},
}


def test_every_change_of_the_source_has_a_digest_of_its_own(write: Write) -> None:
    digests = [digest_of_module(seeded(write().Net))]
    digests += [digest_of_module(seeded(write(**replaced).Net)) for replaced in SOURCE_CHANGES.values()]
    assert len(set(digests)) == len(digests)


def test_what_was_changed_at_run_time_counts_without_a_change_of_the_source(write: Write) -> None:
    """Such as a number that a script takes from its arguments, and puts into a module of its own."""
    module = write()
    model = seeded(module.Net)
    digests = [digest_of_module(model)]
    module.SCALE = 5.0
    digests.append(digest_of_module(model))
    module.Base.offset = 7
    digests.append(digest_of_module(model))
    module.power.__defaults__ = (3,)
    digests.append(digest_of_module(model))
    assert len(set(digests)) == 4


def test_what_is_imported_from_another_module_of_the_user_counts(write: Write) -> None:
    source = "import my_layers\nfrom torch import nn\n\nclass Net(nn.Module):\n    def forward(self, x):\n        "
    layers = "from numbers import Number\nWIDTH = 1\n\ndef halve(x):\n    return x / 2\n"
    digests = []
    for called, replaced in [
        ("my_layers.halve(x)", {}),
        ("my_layers.halve(x)", {"x / 2": "x / 3"}),
        ("x * my_layers.WIDTH", {}),
        ("x * my_layers.WIDTH", {"WIDTH = 1": "WIDTH = 2"}),
    ]:
        write(layers, "my_layers", **replaced)
        digests.append(digest_of_module(write(f"{source}return {called}\n").Net()))
    sys.modules["my_layers"].WIDTH = 3  # type: ignore[attr-defined]  # that of the file is 2
    digests.append(digest_of_module(sys.modules["my_digested_model"].Net()))
    assert len(set(digests)) == 5


VALUES: list[Any] = [
    None, True, 1, 1.0, "1", b"1", 1j, (), [], {}, set(), (1,), [1], {1: 1}, {1}, {1: 2}, {2: 1}, frozenset({1}),
    ("a", "b"), ("ab",), ["a", ["b"]], [["a"], "b"], {"a": {"b": 1}}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, ..., range(3),
    slice(1, 2), float("nan"), float("inf"), -0.0, 0.0, "", torch.float32, torch.float16, torch.device("cpu"),
    torch.Size([1]), torch.ones(1), torch.ones(1, 1), torch.ones(1, dtype=torch.int64), torch.zeros(0),
    torch.ones(1, dtype=torch.bfloat16), nn.Parameter(torch.ones(1)), np.ones(1), np.ones(1, dtype=np.float32),
    np.float32(1), Colour.RED, Colour.BLUE, Settings(1), Settings(1, ("a",)), SimpleNamespace(a=1),
    SimpleNamespace(a=2),
    nn.ReLU, nn.GELU, Plain, functional.relu, torch.relu, torch.Tensor.relu, len, seeded, partial(seeded, make=None),
    partial(functional.relu, inplace=True), partial(nn.LayerNorm, eps=1e-6), partial(nn.LayerNorm, eps=1e-5), torch.nn,
    functional,
    deque([1]), deque([2]), OrderedDict(a=1), OrderedDict(a=2), defaultdict(int, a=1), defaultdict(int, a=2),
    defaultdict(float, a=1), lambda x: x, lambda x: 2 * x,
]  # fmt: skip


def test_values_that_differ_have_digests_that_differ() -> None:
    # A tensor and a parameter of the same numbers compute the same.
    digests = [digest_of_module(Plain(value)) for value in VALUES if not isinstance(value, nn.Parameter)]
    same = [
        (VALUES[i], VALUES[j]) for i, j in itertools.combinations(range(len(digests)), 2) if digests[i] == digests[j]
    ]
    assert same == []


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=8,
    )
)
def test_a_plain_value_has_the_digest_of_its_copy(value: Any) -> None:
    assert digest_of_module(Plain(value)) == digest_of_module(Plain(copy.deepcopy(value)))
    assert digest_of_module(Plain([value])) != digest_of_module(Plain(value))


def test_what_a_function_closes_over_counts() -> None:
    def power(exponent: int) -> Callable[[int], int]:
        return lambda x: x**exponent

    assert digest_of_module(Plain(power(2))) == digest_of_module(Plain(power(2)))
    assert digest_of_module(Plain(power(2))) != digest_of_module(Plain(power(3)))


def test_a_method_of_the_module_itself_counts_by_its_function() -> None:
    model = Plain()
    model.held = model.modules
    other = Plain()
    other.held = other.children
    assert digest_of_module(model) != digest_of_module(other)


class Slotted(nn.Module):
    """Keeps a number out of its dictionary."""

    __slots__ = ("scale",)

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale


class Pair(NamedTuple):
    first: object
    second: object


class Other(NamedTuple):
    first: object
    second: object


def marked(tensor: torch.Tensor, mark: int) -> torch.Tensor:
    tensor.mark = mark  # type: ignore[attr-defined]  # an attribute that forward could read
    return tensor


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Slotted(1.0), Slotted(2.0)),
        (Plain(marked(torch.ones(1), 1)), Plain(marked(torch.ones(1), 2))),
        (Plain(Pair(1, 2)), Plain(Pair(2, 1))),
        (Plain(Pair(1, 2)), Plain(Other(1, 2))),
        (Plain(Pair(1, 2)), Plain((1, 2))),
        (Plain(np.zeros(2, dtype="i4,f4")), Plain(np.zeros(2, dtype="f4,i4"))),
        (Plain(np.array(1.0)), Plain(np.float64(1.0))),
        (nn.Sequential(nn.ReLU(), nn.Identity()), nn.Sequential(nn.Sequential(nn.ReLU()), nn.Identity())),
        (nn.ModuleDict({"a": nn.ReLU()}), nn.ModuleDict({"b": nn.ReLU()})),
        (nn.Dropout(0.1), nn.Dropout(0.2)),
    ],
    ids=range(10),
)
def test_models_that_differ_in_one_place_have_digests_that_differ(first: nn.Module, second: nn.Module) -> None:
    assert digest_of_module(first) != digest_of_module(second)
    # Torch copies no slots.
    assert isinstance(first, Slotted) or digest_of_module(first) == digest_of_module(copy.deepcopy(first))


class Twice(partial):  # type: ignore[type-arg]
    """A partial function that is called twice: the functions that it holds do not say so."""


class Names(list):  # type: ignore[type-arg]
    """A list of its own class."""


def from_text(text: str, name: str = "Net") -> Any:
    namespace: dict[str, Any] = {"nn": nn, "__name__": __name__}
    exec(text, namespace)
    return namespace[name]


def in_a_notebook(text: str) -> Any:
    """Return what a cell defines, in a module without a file."""
    module = ModuleType("a_notebook")
    sys.modules["a_notebook"] = module
    namespace = vars(module)
    namespace["nn"] = nn
    exec(text, namespace)
    return namespace["Net"]


def imports_late(x: object) -> object:
    import no_such_module  # type: ignore[import-not-found]

    return no_such_module.act(x)


class Named(property):
    """A property of its own class."""


def with_hook(register: str) -> nn.Module:
    model = nn.Sequential(nn.ReLU())
    getattr(model[0], register)(lambda *arguments: None)
    return model


def with_forward(model: nn.Module) -> nn.Module:
    model.forward = MethodType(lambda self, x: x, model)  # type: ignore[method-assign]
    return model


def with_own_class(scale: float) -> nn.Module:
    class Local(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * scale

    return Local()


class Helper:
    """An object of the user's own that holds a module."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module


class Hiding:
    """An object whose pickle does not hold all that decides what it does."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __getstate__(self) -> dict[str, object]:
        return {}


def closing_over(module: nn.Module) -> nn.Module:
    return Plain(lambda x: module(x))


KEPT = nn.ReLU()
UNDIGESTIBLE: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "class of a notebook": (lambda: in_a_notebook("class Net(nn.Module): pass")(), "Net is defined in no file"),
    "function of a notebook": (
        lambda: Plain(in_a_notebook("def Net(x): return x")),
        "held of its class Plain is a function (Net) whose code is in no module's file",
    ),
    "an import in a function": (lambda: Plain(imports_late), "imports no_such_module when it is called"),
    "forward hook": (lambda: with_hook("register_forward_hook"), "submodule 0 (ReLU) has a hook (forward_hooks)"),
    "forward pre-hook": (lambda: with_hook("register_forward_pre_hook"), "has a hook (forward_pre_hooks)"),
    "backward hook": (lambda: with_hook("register_full_backward_hook"), "has a hook (backward_hooks)"),
    "forward of the instance": (lambda: with_forward(Plain()), "Plain has a forward that is assigned on the instance"),
    "object": (lambda: Plain(object()), "held of its class Plain is an object of type builtins.object"),
    "object in a list": (lambda: Plain([{"a": object()}]), "object of type builtins.object"),
    "lock": (lambda: Plain(threading.Lock()), "object of type _thread.lock"),
    "array of objects": (lambda: Plain(np.array([object()])), "object of type builtins.object"),
    "object that hides its state": (lambda: Plain(Hiding(1.0)), "object of type test_models_module_digest.Hiding"),
    "property of another class": (lambda: Plain(Named(len)), "object of type test_models_module_digest.Named"),
    "set of tuples": (lambda: Plain({(1, 2)}), "a set of items other than text and numbers"),
    "sparse tensor": (lambda: Plain(torch.eye(2).to_sparse()), "a tensor without plain values"),
    "meta tensor": (lambda: nn.Linear(1, 1, device="meta"), "weight of its class Linear is a tensor without plain"),
    "lazy parameter": (lambda: nn.Sequential(nn.LazyLinear(3)), "submodule 0 (LazyLinear)"),
    "compiled, with another forward": (lambda: with_forward(torch.compile(nn.ReLU())), "OptimizedModule has a forward"),
    "parametrized": (
        lambda: nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)),
        "is a module, which a copy of the model would share",
    ),
    "proxy": (lambda: Plain(weakref.proxy(KEPT)), "that represents another object"),
    "module in a closure": (lambda: closing_over(nn.ReLU()), "is a module, which a copy of the model would share"),
}


@pytest.mark.parametrize("name", UNDIGESTIBLE)
def test_what_cannot_be_digested_is_refused_by_name(name: str) -> None:
    make, message = UNDIGESTIBLE[name]
    assert message in refusal(make())


def test_a_script_of_torch_is_refused() -> None:
    with pytest.warns(FutureWarning):
        model = torch.jit.script(nn.ReLU())
    assert "is compiled by torch.jit" in refusal(model)


def traced(act: Callable[[torch.Tensor], torch.Tensor]) -> nn.Module:
    return torch.fx.symbolic_trace(Acting(act))


MADE_AT_RUN_TIME: dict[str, tuple[Callable[[Any], nn.Module], object, object]] = {
    "by exec": (lambda body: from_text(f"class Net(nn.Module):\n def forward(self, x): return {body}")(), "x", "-x"),
    "class in a function": (with_own_class, 1.0, 2.0),
    "lambda by eval": (lambda body: Plain(eval(f"lambda x: {body}")), "x", "-x"),
    "names of a function by eval": (lambda body: Plain(eval(f"lambda x: x.{body}()")), "sin", "cos"),
    "traced": (traced, torch.relu, torch.sigmoid),
    "generator": (lambda seed: Plain(torch.Generator().manual_seed(seed)), 0, 1),
    "partial of another class": (lambda cls: Plain(cls(len)), partial, Twice),
    "list of another class": (lambda cls: Plain(cls("ab")), list, Names),
    "masked array": (lambda mask: Plain(np.ma.array([1], mask=[mask])), True, False),
    "object with a module": (lambda act: Plain(Helper(act)), nn.ReLU(), nn.GELU()),
}


@pytest.mark.parametrize("name", MADE_AT_RUN_TIME)
def test_what_is_made_at_run_time_counts(name: str) -> None:
    make, first, second = MADE_AT_RUN_TIME[name]
    assert digest_of_module(make(first)) == digest_of_module(make(first)) != digest_of_module(make(second))


def test_what_runs_counts_and_not_the_file_alone(write: Write, tmp_path: Path) -> None:
    module = write()
    changed = SOURCE.replace("* self.rate", "/ self.rate")
    (tmp_path / "my_digested_model.py").write_text(changed)
    before = digest_of_module(seeded(module.Net))
    assert before != digest_of_module(seeded(write(changed).Net))


def test_a_method_that_was_replaced_at_run_time_counts(write: Write) -> None:
    module = write()
    forwards = [module.Net.forward, Plain.forward, from_text("def forward(self, x): return x", "forward")]
    digests = set()
    for module.Net.forward in forwards:
        digests.add(digest_of_module(seeded(module.Net)))
    assert len(digests) == 3


def test_a_method_of_torch_that_was_replaced_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest_of_module(nn.Sequential(nn.ReLU()))
    monkeypatch.setattr(nn.ReLU, "forward", nn.GELU.forward)
    assert digest_of_module(nn.Sequential(nn.ReLU())) == before  # by name: releases are provenance
    monkeypatch.setattr(nn.ReLU, "forward", Plain.__init__)
    assert digest_of_module(nn.Sequential(nn.ReLU())) != before


@pytest.mark.parametrize("name", ["resnet18", "vit_tiny_patch16_224", "convnext_atto"])
def test_models_of_timm_have_digests(name: str) -> None:
    model = seeded(lambda: timm.create_model(name, num_classes=10))
    digest = digest_of_module(model)
    assert digest_of_module(copy.deepcopy(model).eval()) == digest
    nudge(model)
    assert digest_of_module(model) != digest


def recurrent(cls: type[nn.RNNBase], **options: Any) -> nn.Module:
    return seeded(lambda: nn.Sequential(nn.Embedding(5, 3), cls(3, 4, batch_first=True, **options)))


RECURRENT = (nn.RNN, nn.GRU, nn.LSTM)


@pytest.mark.parametrize("cls", RECURRENT)
def test_recurrent_modules_have_digests(cls: type[nn.RNNBase]) -> None:
    model = recurrent(cls, num_layers=2, bidirectional=True)
    digest = digest_of_module(model)
    model(torch.zeros(1, 2, dtype=torch.long))
    same = {digest_of_module(each) for each in (model, copy.deepcopy(model).eval(), copy.deepcopy(model).float())}
    assert same == {digest}
    replaced = copy.deepcopy(model)
    replaced[1].weight_hh_l1 = nn.Parameter(model[1].weight_hh_l1 + 1e-7)  # type: ignore[index]
    nudged = copy.deepcopy(model)
    nudge(nudged[1])  # type: ignore[index]
    others = (replaced, nudged, recurrent(cls, num_layers=2), recurrent(cls, num_layers=2, bias=False))
    assert len({digest, *map(digest_of_module, others)}) == 5


def halved(graph: Any, example: Any) -> Any:
    return lambda *inputs: [each / 2 for each in graph(*inputs)]


def test_compiled_modules_have_digests_of_module_and_options() -> None:
    model = seeded(lambda: nn.Linear(2, 2))
    digest = digest_of_module(model)
    options: list[dict[str, Any]] = [
        *({}, {"mode": "max-autotune"}, {"options": {"shape_padding": False}}, {"dynamic": True}, {"fullgraph": True}),
        *({"backend": "eager"}, {"backend": "aot_eager"}, {"backend": halved}),
    ]
    digests = [digest_of_module(torch.compile(copy.deepcopy(model), **each)) for each in options]
    assert [digest_of_module(torch.compile(model, **each)) for each in options] == digests
    assert len({digest, *digests}) == len(options) + 1
    compiled = torch.compile(model, backend="eager")
    compiled(torch.ones(1, 2))
    assert digest_of_module(copy.deepcopy(compiled).eval()) == digest_of_module(compiled) == digests[5]
    assert digest_of_module(model) == digest
    nudge(model)
    assert digest_of_module(compiled) != digests[5]
