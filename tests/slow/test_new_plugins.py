"""What ``robench new`` writes passes all tests at once: in a distribution, and in a checkout of robench."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

from robench.cli.new_command import FAMILIES, plugin_as_distribution

PACKAGED = [family for family in FAMILIES if family != "format"]
# Folders that no step reads.
LEFT_OUT = shutil.ignore_patterns(".*", "checkpoints", "results", "build", "__pycache__", "*.tar.xz")


def run(folder: Path, *arguments: str, path: tuple[Path, ...] = ()) -> str:
    """Run Python in a folder, whose modules come first, and return what it prints."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (folder, *path))), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("family", PACKAGED)
def test_a_new_plug_in_fulfils_its_contract(family: str, tmp_path: Path) -> None:
    plugin_as_distribution(family, "new-one", tmp_path).write()
    run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", path=(ROOT,))


def test_new_plug_ins_are_typed(tmp_path: Path) -> None:
    packages = []
    for family in PACKAGED:
        plugin_as_distribution(family, f"new-{family}", tmp_path / family).write()
        packages.append(str(tmp_path / family / f"robench_new_{family}"))
    options = ["--strict", "--config-file", str(tmp_path / "attack" / "pyproject.toml")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "--cache-dir", str(tmp_path / "cache"), *packages],
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A checkout with a plug-in of each family and a corruption that draws nothing, after ``make generated``."""
    folder = tmp_path_factory.mktemp("checkout") / "robench"
    shutil.copytree(ROOT, folder, ignore=LEFT_OUT)
    (folder / "checkpoints").symlink_to(ROOT / "checkpoints")
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    wanted = {family: (family, f"new-{family}") for family in FAMILIES} | {"still": ("corruption", "new-still")}
    written = {}
    for label, (family, name) in wanted.items():
        options = ["--no-draws"] if label == "still" else []
        written[label] = json.loads(run(folder, "-m", "robench", "new", family, name, *options, "--json"))
        assert written[label]["by_hand"] == []
    subprocess.run(["git", "add", "--all"], cwd=folder, check=True)
    run(folder, "scripts/generated.py")
    return folder, written


@pytest.mark.parametrize("label", [*FAMILIES, "still"])
def test_the_printed_test_of_a_new_part_of_robench_passes(checkout: tuple[Path, dict[str, Any]], label: str) -> None:
    folder, written = checkout
    (step,) = (step for step in written[label]["next"] if step.startswith("test it: "))
    options = step.removeprefix("test it: python ").split()
    # pytest ends with 5 where no test has the name.
    run(folder, *options, "-q", "-p", "no:cacheprovider")


def test_the_architecture_holds_with_new_parts(checkout: tuple[Path, dict[str, Any]]) -> None:
    run(checkout[0], "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/architecture")
