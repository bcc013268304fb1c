"""The example distribution runs where it is installed, and no file of robench changes."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from conftest import ROOT

EXAMPLE = ROOT / "examples" / "robench-example-plugin"
PACKAGE = "robench_example_plugin"
MODEL = "digits-cosine-vit"
COLUMNS = {
    "clean/balanced_accuracy",
    "mirrored/balanced_accuracy",
    "sign-walk/balanced_accuracy",
    "vignette-1/balanced_accuracy",
    "vignette-5/balanced_accuracy",
}


def executed(command: Sequence[str], path: Sequence[Path], folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*path, ROOT))), "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def measured(
    path: Path, folder: Path, suite: Path, registry: Path, model: str = MODEL, *how: str
) -> Mapping[str, float]:
    """Return the cells of a run of an example's model by column; none is missing an example."""
    options = ("--suite", str(suite), "--registry", str(registry), "--model", model, "--limit", "40", "--json")
    command = (sys.executable, "-m", "robench", "run", *options, *(how or ("--executor", "serial")))
    (row,) = json.loads(executed(command, [path], folder))["rows"]
    assert all(cell["missing"] == 0 for cell in row["cells"].values())
    return {name: cell["value"] for name, cell in row["cells"].items()}


def digests(*roots: Path) -> dict[str, str]:
    """Return the SHA-256 of each file below some folders, but for compiled ones."""
    files = [file for root in roots for file in sorted(root.rglob("*")) if file.is_file()]
    return {
        str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files if "__pycache__" not in file.parts
    }


@pytest.fixture(scope="module", autouse=True)
def _no_file_is_touched() -> object:
    before = digests(ROOT / "robench", ROOT / "suites", ROOT / "checkpoints", EXAMPLE)
    yield
    assert digests(ROOT / "robench", ROOT / "suites", ROOT / "checkpoints", EXAMPLE) == before


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the example as its wheel, which ``tests/slow`` builds, installs it."""
    folder: Path = tmp_path_factory.mktemp("example")
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    shutil.copytree(EXAMPLE / PACKAGE, folder / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    info = folder / f"{PACKAGE}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = [f"{name} = {value}" for name, value in project["entry-points"]["robench.plugins"].items()]
    (info / "entry_points.txt").write_text("\n".join(["[robench.plugins]", *lines, ""]))
    return folder


@pytest.fixture(scope="module")
def installed_values(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, float]:
    """Return the cells of the example's suite, found by its entry points."""
    folder: Path = tmp_path_factory.mktemp("installed")
    return measured(site, folder, site / PACKAGE / "suite.yaml", site / PACKAGE / "registry.yaml")


def test_a_suite_and_a_registry_name_its_kinds(installed_values: Mapping[str, float]) -> None:
    values = installed_values
    assert values.keys() >= COLUMNS
    assert 0.8 < values["clean/top1_accuracy"] <= 1
    assert values["sign-walk/top1_accuracy"] < values["clean/top1_accuracy"]
    assert values["vignette-5/top1_accuracy"] <= values["vignette-1/top1_accuracy"]


@pytest.mark.slow
def test_they_are_listed_with_their_distribution(site: Path, tmp_path: Path) -> None:
    for family, kind in (("attacks", "sign-walk"), ("metrics", "balanced_accuracy")):
        listed = executed((sys.executable, "-m", "robench", "list", family), [site], tmp_path)
        assert kind in listed
        assert "robench-example-plugin" in listed
