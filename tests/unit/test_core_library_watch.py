"""Functions of libraries that other code replaces are found, whatever the way, and additions are not."""

import builtins
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import robench.evaluation.evaluate as module_of_robench
from robench.core import user_code
from robench.core.containment import Contained
from robench.core.library_watch import LibraryWatch, replaced_by_imports, replacement_problem


def mine(*arguments: object) -> None:
    pass


REPLACEMENTS: dict[str, tuple[object, str]] = {
    "torch.relu": (torch, "relu"),
    "torch.nn.functional.softmax": (nn.functional, "softmax"),
    "torch.nn.GELU.forward": (nn.GELU, "forward"),
    "torch.nn.Module.__call__": (nn.Module, "__call__"),
    # Inherited: the new function hides it.
    "torch.nn.GELU.train": (nn.GELU, "train"),
    "torch.Tensor.sign": (torch.Tensor, "sign"),
    "torch.Tensor.backward": (torch.Tensor, "backward"),
    "numpy.sort": (np, "sort"),
    "robench.evaluation.evaluate.provenance": (module_of_robench, "provenance"),
}


@pytest.mark.parametrize("name", REPLACEMENTS)
def test_a_function_that_is_replaced_is_named_with_whose_code_did_it(monkeypatch: Any, name: str) -> None:
    watch = LibraryWatch()
    monkeypatch.setattr(*REPLACEMENTS[name], mine, raising=False)
    watch.look("model 'theirs'")
    assert watch.replaced == {name: "model 'theirs'"}
    monkeypatch.undo()
    watch.look("model 'another'")
    assert watch.replaced == {name: "model 'theirs'"}


def test_hooks_of_all_modules_and_modes_of_functions_are_found() -> None:
    watch = LibraryWatch()
    handle = nn.modules.module.register_module_forward_hook(lambda module, inputs, output: None)
    watch.look("a")
    handle.remove()
    with TorchFunctionMode():
        watch.look("b")
    assert watch.replaced == {"torch.nn's hooks of all modules": "a", "torch's modes of functions": "b"}


def test_what_is_added_or_compiled_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = LibraryWatch()
    monkeypatch.setattr(torch, "their_function", mine, raising=False)
    monkeypatch.setattr(nn.GELU, "their_method", mine, raising=False)
    torch.compile(nn.Linear(2, 2), backend="eager")(torch.zeros(1, 2))
    watch.look("anyone")
    assert watch.replaced == {}


def test_what_was_replaced_before_the_start_is_found_by_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nn.GELU, "forward", mine)
    assert LibraryWatch().replaced == {"torch.nn.GELU.forward": "code that ran before"}


@pytest.mark.parametrize("is_before", [True, False])
def test_what_consoles_replace_counts_for_nothing_unlike_other_builtins(monkeypatch: Any, is_before: bool) -> None:
    watch = LibraryWatch()
    for name in ("input", "print", "execfile", "runfile", "sorted"):
        monkeypatch.setattr(builtins, name, mine, raising=False)
    if is_before:
        watch = LibraryWatch()
    watch.look("a")
    assert watch.replaced == {"builtins.sorted": "code that ran before" if is_before else "a"}


def test_an_import_that_replaces_a_function_is_kept_in_mind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_imports: dict[str, str] = {}
    monkeypatch.setattr("robench.core.library_watch._BY_IMPORTS", by_imports)
    monkeypatch.syspath_prepend(tmp_path)
    # Set back after the test.
    monkeypatch.setattr(nn.GELU, "forward", nn.GELU.forward)
    (tmp_path / "theirs_that_patches.py").write_text("from torch import nn\nnn.GELU.forward = lambda self, x: x\n")
    user_code.contained_import("theirs_that_patches")
    assert replaced_by_imports() == {"torch.nn.GELU.forward": "module 'theirs_that_patches'"}


def test_only_libraries_may_be_replaced_and_only_with_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robench.core.library_watch._BY_IMPORTS", {})
    assert not replacement_problem({}, patches=False)
    assert not replacement_problem({"torch.relu": "a"}, patches=True)
    assert replacement_problem({"torch.relu": "a"}, patches=False)
    assert replacement_problem({"robench.attacks.pgd_impl.attack": "a"}, patches=True)
    many = {f"torch.f{number}": f"model {number % 2}" for number in range(5)}
    named = "model 0, model 1 replaced torch.f0, torch.f1, torch.f2 and 2 more"
    assert replacement_problem(many, patches=False).startswith(named)


@pytest.mark.parametrize(
    ("change", "value"),
    [
        (lambda: torch.set_float32_matmul_precision("medium"), torch.get_float32_matmul_precision),
        (lambda: torch.set_flush_denormal(True), lambda: float(torch.full((), 1e-40) * 1.0)),
        (lambda: torch._C._set_mkldnn_enabled(False), torch._C._get_mkldnn_enabled),
    ],
)
def test_settings_of_arithmetic_are_set_back(change: Callable[[], object], value: Callable[[], Any]) -> None:
    before = value()
    with Contained():
        change()
        assert value() != before
    assert value() == before
