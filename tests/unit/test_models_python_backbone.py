"""A researcher's own model: found, called, and each mistake told in one sentence with its cause."""

import os
import sys
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from torch import nn

from robench.core.errors import ContractError, DeclarationError
from robench.core.identity import key_of
from robench.declarations.preprocessing import ImagePreprocessing
from robench.models.build import build
from robench.models.foreign import Python
from robench.models.loaded import LoadedModel

SOURCE = """
from torch import nn

WIDTH = 3

class Model(nn.Linear):
    pass

def build_model(classes=2, bias=True):
    return nn.Linear(WIDTH, classes, bias=bias)

def build_nothing():
    return "a model"

def fail(classes):
    raise KeyError(f"no {classes}")

def leave():
    raise SystemExit(2)
"""

PLAIN = ImagePreprocessing(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
LOGITS = torch.arange(10.0).reshape(2, 5)
# As it was before `output` was declared.
KEY_BEFORE = "fe8c0a1c9b5bb848062494d8c1168d8d"


class Scored(NamedTuple):
    scores: torch.Tensor
    logits: torch.Tensor


class Returning(nn.Module):
    """A model that gives what it is told to."""

    def __init__(self, output: object) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.output = output

    def forward(self, x: torch.Tensor) -> object:
        return self.output(self, x) if callable(self.output) else self.output


RETURNED: list[object] = []


def returning() -> nn.Module:
    return Returning(RETURNED[-1])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with a package of the user's in it; modules and path are as before afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    package = tmp_path / "their_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "models.py").write_text(SOURCE)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("their_"):
            del sys.modules[name]


class TestTarget:
    def test_a_function_of_the_current_folder_is_called_with_the_arguments(self) -> None:
        module = build(Python(target="their_package.models:build_model", arguments={"classes": 5, "bias": False}))
        assert isinstance(module, nn.Linear)
        assert module.out_features == 5
        assert module.bias is None

    def test_the_python_path_comes_before_the_current_folder(self, folder: Path) -> None:
        (folder / "torch").mkdir()
        (folder / "colorsys.py").write_text("raise RuntimeError('the wrong one')")
        sys.modules.pop("colorsys", None)
        with pytest.raises(DeclarationError, match="returned"):
            build(Python(target="colorsys:rgb_to_hsv", arguments={"r": 1.0, "g": 0.5, "b": 0.0}))

    def test_the_current_folder_stays_on_the_path_for_models_that_import_later(self, folder: Path) -> None:
        build(Python(target="their_package.models:build_model"))
        assert sys.path.count(str(folder)) == 1
        build(Python(target="their_package.models:build_model"))
        assert sys.path.count(str(folder)) == 1

    def test_a_module_written_a_moment_ago_is_found(self, folder: Path) -> None:
        with pytest.raises(DeclarationError):
            build(Python(target="their_late:build_model"))
        seen = folder.stat().st_mtime_ns
        (folder / "their_late.py").write_text(SOURCE)
        os.utime(folder, ns=(seen, seen))  # within one tick of a coarse file system
        assert isinstance(build(Python(target="their_late:build_model")), nn.Linear)


class TestMistakes:
    @pytest.mark.parametrize(
        ("target", "missing"),
        [("their_pakage.models:build", "their_pakage"), ("their_package.model:build", "their_package.model")],
    )
    def test_a_missing_module_is_named_with_where_it_was_sought(self, folder: Path, target: str, missing: str) -> None:
        with pytest.raises(DeclarationError) as caught:
            build(Python(target=target))
        assert f"no module '{missing}' on the Python path or in the current folder {folder}" in str(caught.value)
        assert isinstance(caught.value.__cause__, ModuleNotFoundError)

    def test_a_dependency_that_the_module_lacks_is_not_taken_for_the_module(self, folder: Path) -> None:
        (folder / "their_needy.py").write_text("import no_such_dependency")
        with pytest.raises(DeclarationError, match=r"their_needy raised .*No module named 'no_such_dependency'"):
            build(Python(target="their_needy:build_model"))

    @pytest.mark.parametrize("source", ["def broken(:", "1 / 0", "import sys; sys.exit(1)"])
    def test_a_module_that_fails_on_import_is_told_with_its_cause(self, folder: Path, source: str) -> None:
        (folder / "their_broken.py").write_text(source)
        with pytest.raises(DeclarationError, match="importing their_broken raised") as caught:
            build(Python(target="their_broken:build_model"))
        assert isinstance(caught.value.__cause__, (SyntaxError, ZeroDivisionError, SystemExit))

    @pytest.mark.parametrize(
        ("function", "arguments", "told"),
        [
            ("fail", {"classes": 3}, "KeyError: 'no 3'"),
            ("fail", {}, "TypeError: .*missing 1 required positional argument"),
            ("build_model", {"clases": 3}, "TypeError: .*unexpected keyword argument 'clases'"),
            ("leave", {}, "SystemExit: 2"),
        ],
    )
    def test_an_exception_is_told_with_arguments(self, function: str, arguments: dict[str, int], told: str) -> None:
        with pytest.raises(DeclarationError, match=told) as caught:
            build(Python(target=f"their_package.models:{function}", arguments=arguments))
        assert f"called with {arguments}" in str(caught.value)
        assert caught.value.__cause__ is not None
        assert caught.value.exit_code == 2

    def test_anything_but_a_module_is_refused(self) -> None:
        with pytest.raises(DeclarationError, match=r"returned 'a model' of type str, wanted a torch\.nn\.Module"):
            build(Python(target="their_package.models:build_nothing"))


class TestOutput:
    """Models such as Primal-Attention's, which return (logits, scores of each layer, Lambda of each layer)."""

    def model(self, output: object, part: str | int | None) -> nn.Module:
        RETURNED.append(output)
        return build(Python(target=f"{__name__}:returning", output=part))

    @pytest.mark.parametrize(
        ("output", "part"),
        [
            ((LOGITS, [[torch.ones(3)]], [torch.ones(2)]), 0),
            ([torch.ones(1), LOGITS], 1),
            ((torch.ones(1), LOGITS), -1),
            ({"scores": torch.ones(3), "logits": LOGITS}, "logits"),
            (SimpleNamespace(scores=torch.ones(3), first=LOGITS), "first"),
            (Scored(torch.ones(3), LOGITS), "logits"),
            (OrderedDict(values=LOGITS), "values"),
        ],
    )
    def test_the_declared_part_of_what_the_model_returns_is_its_logits(self, output: object, part: str | int) -> None:
        victim = LoadedModel(self.model(output, part), PLAIN)
        assert torch.equal(victim.outputs(torch.zeros(2, 3, 4, 4)), LOGITS)

    def test_a_tuple_without_it_is_an_error_that_names_the_field(self) -> None:
        victim = LoadedModel(self.model((LOGITS, []), None), PLAIN)
        with pytest.raises(ContractError, match=r"returned a tuple, .*\(`output` of backbone python\), or wrap it"):
            victim.outputs(torch.zeros(2, 3, 4, 4))

    @pytest.mark.parametrize(
        ("output", "part", "met"),
        [
            ((LOGITS, []), 2, "a tuple of 2, which has no part 2"),
            ((LOGITS, []), -3, "a tuple of 2, which has no part -3"),
            ((LOGITS, []), "logits", "a tuple of 2, which has no part 'logits'"),
            ({"a": LOGITS, "b": LOGITS}, "logits", "a dict of a, b, which has no part 'logits'"),
            ({"a": LOGITS}, "values", "a dict of a, which has no part 'values'"),
            ({"a": LOGITS}, 0, "a dict of a, which has no part 0"),
            (SimpleNamespace(a=LOGITS), 0, "a SimpleNamespace, which has no part 0"),
            (SimpleNamespace(a=LOGITS), "logits", "a SimpleNamespace, which has no part 'logits'"),
            (LOGITS, 0, "a Tensor, which has no part 0"),
            (LOGITS, "T", "a Tensor, which has no part 'T'"),
        ],
    )
    def test_a_part_that_is_not_there_is_told_with_what_is(self, output: object, part: str | int, met: str) -> None:
        victim = LoadedModel(self.model(output, part), PLAIN)
        with pytest.raises(ContractError, match=f"{met}: correct `output` of its architecture"):
            victim.outputs(torch.zeros(2, 3, 4, 4))

    def test_names_of_parameters_gradients_and_training_are_as_without_it(self) -> None:
        plain = build(Python(target="their_package.models:build_model"))
        picked = self.model(lambda module, x: (module.linear(x), x), 0)
        assert list(picked.state_dict()) == ["linear.weight", "linear.bias"]
        assert type(picked) is Returning
        inputs = torch.ones(2, 3, requires_grad=True)
        picked.train()(inputs).sum().backward()
        assert inputs.grad is not None
        assert plain(inputs).shape == (2, 2)

    def test_it_is_part_of_a_shards_key_only_where_it_is_declared(self) -> None:
        assert key_of(Python(target="a:b", output=None)) == key_of(Python(target="a:b")) == KEY_BEFORE
        assert len({key_of(Python(target="a:b", output=part)) for part in (None, 0, 1, "logits")}) == 4


class TestCodeDigest:
    TARGET = Python(target="their_package.models:build_model")

    @pytest.mark.parametrize("changed", ["models.py", "__init__.py", "layers.py"])
    def test_changes_with_any_source_of_the_package(self, folder: Path, changed: str) -> None:
        before = self.TARGET.code_digest()
        with (folder / "their_package" / changed).open("a") as file:
            file.write("\n# changed\n")
        assert self.TARGET.code_digest() != before

    def test_none_of_the_code_is_run(self, folder: Path) -> None:
        (folder / "their_package" / "__init__.py").write_text("raise RuntimeError('it is run')")
        assert len(self.TARGET.code_digest()) == 64
        assert "their_package" not in sys.modules

    def test_of_a_single_module_only_its_own_source_counts(self, folder: Path) -> None:
        (folder / "their_module.py").write_text(SOURCE)
        single = Python(target="their_module:build_model")
        before = single.code_digest()
        (folder / "another.py").write_text("x = 1")
        assert single.code_digest() == before
        (folder / "their_module.py").write_text(SOURCE + "\n")
        assert single.code_digest() != before
