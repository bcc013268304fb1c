"""What starts fast stays fast: heavy libraries are imported by what needs them alone."""

import subprocess
import sys
from collections.abc import Mapping


def loaded_after(code: str, suspects: tuple[str, ...]) -> list[str]:
    """Run ``code`` in a fresh interpreter and return which suspects it imported."""
    probe = f"{code}\nimport sys\nprint(*[name for name in {suspects!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    return result.stdout.splitlines()[-1].split()


def first_to_load(steps: Mapping[str, str], suspects: tuple[str, ...]) -> str:
    """Run steps one after another in one fresh interpreter; return the first after which a suspect is imported."""
    probe = f"if found := [name for name in {suspects!r} if name in sys.modules]:"
    code = "import sys\n" + "".join(
        f"{step}\n{probe}\n    print('\\n' + {name!r}, 'imports', *found)\n    raise SystemExit\n"
        for name, step in steps.items()
    )
    result = subprocess.run(
        [sys.executable, "-c", f"{code}print('\\nnone')"], capture_output=True, text=True, check=True
    )
    return result.stdout.splitlines()[-1]


def test_layers_import_without_torch() -> None:
    layers = (
        *("core", "declarations", "declare", "metrics", "store", "reports", "comparison", "papers", "exports"),
        "figures",
    )
    step = (
        "import pkgutil, importlib\n"
        "package = importlib.import_module('robench.LAYER')\n"
        "[importlib.import_module(m.name) for m in pkgutil.walk_packages(package.__path__, package.__name__ + '.')]"
    )
    assert first_to_load({each: step.replace("LAYER", each) for each in layers}, ("torch", "timm")) == "none"


def test_what_families_declare_imports_without_torch_and_numpy() -> None:
    families = ("attacks", "corruptions", "perturbations", "attention", "models", "datasets", "training")
    step = (
        "import pkgutil, importlib\n"
        "package = importlib.import_module('robench.FAMILY')\n"
        "found = {m.name for m in pkgutil.iter_modules(package.__path__)}\n"
        "beside = [name for name in found if f'{name}_impl' in found]\n"
        "assert beside\n"
        "[importlib.import_module(f'robench.FAMILY.{name}') for name in beside]"
    )
    steps = {each: step.replace("FAMILY", each) for each in families}
    assert first_to_load(steps, ("torch", "numpy", "timm")) == "none"


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


def test_environments_are_declared_without_their_libraries() -> None:
    assert loaded_after("import robench.environments.base", ("torch", "numpy", "gymnasium", "mujoco")) == []


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


def test_commands_that_measure_nothing_start_without_torch() -> None:
    """Nor do those that find no results, which end with 1, and a model card without a suite, which ends with 2."""
    no_results = "--results /nonexistent"
    commands = {
        **dict.fromkeys(("list models", "list attacks", "list suites", "list datasets", "show pgd"), 0),
        **dict.fromkeys(("validate suites/digits-adv.yaml", "schema suite", f"table rpc:1 {no_results}"), 0),
        f"export --suite digits-adv {no_results} --output /dev/shm/robench-no-results": 0,
        **dict.fromkeys(("export images --help", "figure --help", "figure seeds --help", "run --help"), 0),
        **dict.fromkeys(("train --help", "cost --help", "transfer --help", "submit --help", "rescore --help"), 0),
        f"report --suite digits-adv {no_results} --json": 1,
        f"status {no_results} --json": 1,
        f"explain digits-vit --suite digits-adv {no_results} --json": 1,
        f"card digits-vit {no_results}": 2,
    }
    step = (
        "from robench.cli.main import main\nsys.argv = ['robench', *'COMMAND'.split()]\ntry:\n    main()\n"
        "except SystemExit as end:\n    assert (end.code or 0) == CODE, (sys.argv, end.code)"
    )
    steps = {each: step.replace("COMMAND", each).replace("CODE", str(code)) for each, code in commands.items()}
    assert first_to_load(steps, ("torch", "timm", "torchvision")) == "none"


def test_a_planted_import_is_found() -> None:
    steps = {"a": "import json", "b": "sys.modules['torch'] = sys", "c": "import ast"}
    assert first_to_load(steps, ("torch", "numpy")) == "b imports torch"
