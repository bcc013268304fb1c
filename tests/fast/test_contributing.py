"""The guides of CONTRIBUTING.md show the example's own files, and what they write in YAML can be declared."""

import ast
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from importlib import import_module
from typing import Any

import contributing_page
import pytest
import yaml
from conftest import ROOT

from robench.metrics import Metric

GUIDES = (ROOT / "CONTRIBUTING.md").read_text()
EXAMPLE = ROOT / "examples" / "robench-example-plugin"
MODULES = [path.stem for path in sorted((EXAMPLE / "robench_example_plugin").glob("*.py")) if path.stem != "__init__"]
# What the example's domain and task need beside their own guide: a dataset, a metric and a model, which have guides.
BESIDE = {"hill", "hill_impl", "absolute_error", "network_impl"}
# A domain may take rules that robench has, a model is declared in a registry, and a metric is one module.
ALONE = {"plane", "network_impl", "absolute_error", "balanced_accuracy"}
FAMILIES = ("an attack", "an attention mechanism", "a corruption", "a dataset", "a metric", "a domain or a task")


def targets(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield each mapping of ``kind: python`` below a value."""
    if isinstance(value, dict):
        if value.get("kind") == "python":
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from targets(each)


def test_a_changed_block_is_seen() -> None:
    changed = GUIDES.replace("class SignWalkSearch:", "class SignRunSearch:")
    assert changed != GUIDES
    assert contributing_page.page(changed) == GUIDES


def test_every_file_of_the_example_is_shown_once() -> None:
    shown = [module for module in MODULES if module not in BESIDE]
    assert len(shown) == len(MODULES) - len(BESIDE)
    wanted = {"pyproject.toml", *(f"robench_example_plugin/{module}.py" for module in shown)}
    assert sorted(contributing_page.files(GUIDES)) == sorted(wanted)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_a_guide_for_both_places(family: str) -> None:
    (guide,) = re.findall(rf"## Adding {family}\n(.*?)\n## ", GUIDES, re.DOTALL)
    assert "nside robench" in guide
    assert "Without packaging" in guide or "entry point" in guide


@pytest.mark.parametrize("module", [name for name in MODULES if name not in ALONE])
def test_a_module_that_computes_lies_beside_one_that_declares(module: str) -> None:
    assert (module.removesuffix("_impl") if module.endswith("_impl") else f"{module}_impl") in MODULES


@pytest.mark.parametrize("module", [name for name in MODULES if not name.endswith("_impl")])
def test_what_declares_imports_neither_torch_nor_numpy(module: str) -> None:
    tree = ast.parse((EXAMPLE / "robench_example_plugin" / f"{module}.py").read_text())
    paths = [node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)]
    paths += [name.name for node in tree.body if isinstance(node, ast.Import) for name in node.names]
    imported = {path.split(".")[0] for path in paths}
    assert imported <= {"__future__", "annotated_types", "dataclasses", "robench", "robench_example_plugin", "typing"}


def test_what_is_written_in_yaml_can_be_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLE)
    modules = [import_module(f"robench_example_plugin.{name}") for name in MODULES if not name.endswith("_impl")]
    declared = {name: value for module in modules for name, value in vars(module).items()}
    found = [
        each for text in re.findall(r"```yaml\n(.*?)```", GUIDES, re.DOTALL) for each in targets(yaml.safe_load(text))
    ]
    assert len(found) == 4
    for each in found:
        plugin = declared[each["target"].partition(":")[2]]
        fields = {name: value for name, value in each.items() if name not in ("kind", "target")}
        if not isinstance(plugin, Metric):
            assert plugin(**{name: Fraction(value) if name == "epsilon" else value for name, value in fields.items()})
