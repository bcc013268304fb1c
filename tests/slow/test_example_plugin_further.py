"""The example distribution is built and installed: its own tests, its domain and task, its code without packaging."""

import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from test_example_plugin import (
    EXAMPLE,
    PACKAGE,
    _no_file_is_touched,
    executed,
    installed_values,
    measured,
    test_a_suite_and_a_registry_name_its_kinds,
    test_they_are_listed_with_their_distribution,
)

__all__ = [
    "_no_file_is_touched",
    "installed_values",
    "test_a_suite_and_a_registry_name_its_kinds",
    "test_they_are_listed_with_their_distribution",
]

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an empty folder into which the example's wheel was installed."""
    folder: Path = tmp_path_factory.mktemp("example")
    source = folder / "source"
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    build = ("wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder), str(source))
    executed((*PIP, *build), [], folder)
    (wheel,) = folder.glob("robench_example_plugin-*.whl")
    install = ("install", "--no-deps", "--no-index", "--target", str(folder / "site"), str(wheel))
    executed((*PIP, *install), [], folder)
    return folder / "site"


def test_its_own_tests_pass_where_it_is_installed(site: Path, tmp_path: Path) -> None:
    # The tests read the project file beside them.
    shutil.copytree(EXAMPLE / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(EXAMPLE / "pyproject.toml", tmp_path)
    executed((sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"), [site], tmp_path)


def test_a_domain_and_a_task_of_its_own_reach_a_table(site: Path, tmp_path: Path) -> None:
    """Points of the plane and their heights: robench has neither, and its own attacks make the errors larger."""
    files = site / PACKAGE / "hill.yaml", site / PACKAGE / "hill_registry.yaml", "hill-network"
    values = measured(site, tmp_path / "run", *files, "--executor", "processes", "--workers", "1")
    error = {name.removesuffix("/mean_absolute_error"): value for name, value in values.items()}
    assert error.keys() == {"clean", "noise", "fgsm", "pgd@1/25", "pgd@1/10"}
    assert 2 * error["clean"] < error["noise"] < error["pgd@1/10"] / 2
    assert error["pgd@1/25"] < error["pgd@1/10"]


def test_without_packaging_the_same_code_gives_the_same_numbers(
    site: Path, tmp_path: Path, installed_values: Mapping[str, float]
) -> None:
    """A copy of the package without metadata, named by ``kind: python``, on the Python path."""
    folder = tmp_path / "path"
    shutil.copytree(site / PACKAGE, folder / PACKAGE)
    suite, registry = (folder / PACKAGE / name for name in ("suite.yaml", "registry.yaml"))
    by_path = {
        "kind: sign-walk,": f"kind: python, target: {PACKAGE}.sign_walk:SignWalk,",
        "kind: vignette,": f"kind: python, target: {PACKAGE}.vignette:Vignette,",
        "kind: cosine}": f"kind: python, target: {PACKAGE}.cosine:Cosine}}",
        " balanced_accuracy]": f" {{kind: python, target: {PACKAGE}.balanced_accuracy:BALANCED_ACCURACY}}]",
    }
    for file in (suite, registry):
        # Datasets have a name and no fields: they need a distribution.
        file.write_text(re.sub(r".*digits-mirrored.*\n", "", renamed(file.read_text(), by_path)))
    # A metric that has no name is named by its target; budgets of one dataset alone are not named by it.
    targets = {f"{PACKAGE}.balanced_accuracy:BALANCED_ACCURACY": "balanced_accuracy"}
    values = {renamed(name, targets): value for name, value in measured(folder, tmp_path, suite, registry).items()}
    kept = {name: value for name, value in installed_values.items() if not name.startswith("mirrored/")}
    assert values == {name.removeprefix("digits/"): value for name, value in kept.items()}


def renamed(text: str, names: Mapping[str, str]) -> str:
    for old, new in names.items():
        text = text.replace(old, new)
    return text
