"""What ``robench new`` writes fulfils the contract of its family at once, and has types, for each family."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from conftest import ROOT

from robench.cli.new_command import FAMILIES, plugin_as_distribution

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("family", FAMILIES)
def test_a_new_plug_in_fulfils_its_contract(family: str, tmp_path: Path) -> None:
    plugin_as_distribution(family, "new-one", tmp_path).write()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_new_plug_ins_are_typed(tmp_path: Path) -> None:
    packages = []
    for family in FAMILIES:
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
