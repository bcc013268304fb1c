"""What starts fast stays fast: heavy libraries are imported by what needs them alone."""

from __future__ import annotations

import subprocess
import sys

import pytest


def loaded_after(code: str, suspects: tuple[str, ...]) -> list[str]:
    """Run ``code`` in a fresh interpreter and return which suspects it imported."""
    probe = f"{code}\nimport sys\nprint(*[name for name in {suspects!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    return result.stdout.splitlines()[-1].split()


@pytest.mark.parametrize(
    "layer",
    ["core", "declarations", "declare", "metrics", "store", "reports", "comparison", "papers", "exports", "figures"],
)
def test_layer_imports_without_torch(layer: str) -> None:
    code = (
        "import pkgutil, importlib\n"
        f"package = importlib.import_module('robench.{layer}')\n"
        "[importlib.import_module(m.name) for m in pkgutil.walk_packages(package.__path__, package.__name__ + '.')]"
    )
    assert loaded_after(code, ("torch", "timm")) == []


@pytest.mark.parametrize(
    "family",
    ["attacks", "corruptions", "perturbations", "attention", "models", "datasets", "training"],
)
def test_what_a_family_declares_imports_without_torch_and_numpy(family: str) -> None:
    code = (
        "import pkgutil, importlib\n"
        f"package = importlib.import_module('robench.{family}')\n"
        "found = {m.name for m in pkgutil.iter_modules(package.__path__)}\n"
        "beside = [name for name in found if f'{name}_impl' in found]\n"
        "assert beside\n"
        f"[importlib.import_module(f'robench.{family}.{{name}}') for name in beside]"
    )
    assert loaded_after(code, ("torch", "numpy", "timm")) == []


def test_metrics_import_numpy_when_they_compute() -> None:
    code = (
        "from importlib import import_module\n"
        "from robench.metrics import METRICS\n"
        "[import_module(each.implementation.partition(':')[0]) for each in METRICS.builtin.values()]"
    )
    assert loaded_after(code, ("torch", "numpy", "scipy")) == []


def test_core_needs_the_standard_library_and_numpy_alone() -> None:
    code = (
        "import sys, pkgutil, importlib, importlib.metadata\n"
        "importlib.import_module('robench')\n"
        "before = set(sys.modules)\n"
        "package = importlib.import_module('robench.core')\n"
        "[importlib.import_module(m.name) for m in pkgutil.walk_packages(package.__path__, 'robench.core.')]\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "sys.modules['strangers'] = None if new - set(sys.stdlib_module_names) - {'robench', 'numpy'} else sys\n"
        "assert not new - set(sys.stdlib_module_names) - {'robench', 'numpy'}, new"
    )
    assert loaded_after(code, ()) == []


def test_figures_import_matplotlib_when_they_draw() -> None:
    code = "import robench.figures, robench.figures.render, robench.cli.figure_command"
    assert loaded_after(code, ("matplotlib", "torch", "timm")) == []


def test_drawing_imports_no_windows() -> None:
    """Neither pyplot, which keeps figures and chooses a backend for a display, nor any toolkit."""
    code = (
        "from robench.figures import Plot, rendered\n"
        "from robench.figures.plots import SeedPanel, SeedRow\n"
        "panel = SeedPanel(title='t', x_label='x', rows=(SeedRow(model='m', seeds=(1.0,)),))\n"
        "[rendered(Plot(panels=(panel,), models=('m',), labels=('m',)), name) for name in ('svg', 'pdf', 'png')]"
    )
    assert loaded_after(code, ("matplotlib", "matplotlib.pyplot", "tkinter", "torch")) == ["matplotlib"]


def test_import_robench_is_light() -> None:
    assert loaded_after("import robench", ("torch", "numpy", "pandas", "pyarrow", "pydantic", "click", "yaml")) == []


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['robench', '--help']\n"
        "from robench.cli.main import main\ntry:\n    main()\nexcept SystemExit:\n    pass"
    )
    heavy = ("torch", "pandas", "pyarrow", "numpy", "pydantic", "rich", "sklearn", "scipy", "timm")
    assert loaded_after(code, heavy) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["list", "models"],
        ["list", "attacks"],
        ["list", "suites"],
        ["list", "datasets"],
        ["show", "pgd"],
        ["validate", "suites/digits-adv.yaml"],
        ["schema", "suite"],
        ["table", "rpc:1", "--results", "/nonexistent"],
        ["export", "--suite", "digits-adv", "--results", "/nonexistent", "--output", "/dev/shm/robench-no-results"],
        ["export", "images", "--help"],
        ["figure", "--help"],
        ["figure", "seeds", "--help"],
        ["run", "--help"],
        ["train", "--help"],
        ["cost", "--help"],
        ["transfer", "--help"],
        ["submit", "--help"],
        ["rescore", "--help"],
    ],
    ids=" ".join,
)
def test_commands_that_measure_nothing_start_without_torch(arguments: list[str]) -> None:
    check_no_torch(arguments, code_expected=0)


@pytest.mark.parametrize(
    "arguments",
    [["report", "--suite", "digits-adv"], ["status"], ["explain", "digits-vit", "--suite", "digits-adv"]],
    ids=" ".join,
)
def test_commands_that_find_no_results_start_without_torch(arguments: list[str]) -> None:
    check_no_torch([*arguments, "--results", "/nonexistent", "--json"], code_expected=1)


def test_a_model_card_needs_no_torch() -> None:
    check_no_torch(["card", "digits-vit", "--results", "/nonexistent"], code_expected=2)


def check_no_torch(arguments: list[str], code_expected: int) -> None:
    code = (
        f"import sys; sys.argv = ['robench', *{arguments!r}]\n"
        "from robench.cli.main import main\ntry:\n    main()\n"
        f"except SystemExit as end:\n    assert (end.code or 0) == {code_expected}, end.code"
    )
    assert loaded_after(code, ("torch", "timm", "torchvision")) == []
