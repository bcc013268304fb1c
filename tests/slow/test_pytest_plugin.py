"""Tests of readers with robench's fixture."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from conftest import ROOT
from test_compare_and_check import BASELINE, FAST, _no_step_summary, copy_with, installed_plugins, kept, wrong

if TYPE_CHECKING:
    from pathlib import Path


__all__ = ["_no_step_summary", "kept"]


class TestPytestPlugin:
    def run(self, folder: Path, test: str, *options: str) -> subprocess.CompletedProcess[str]:
        (folder / "test_it.py").write_text(test)
        plugins = [] if "robench" in installed_plugins() else ["-p", "robench.pytest_plugin"]
        command = [sys.executable, "-m", "pytest", *plugins, "-p", "no:cacheprovider", "-c", "pytest.ini", *options]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)

    @pytest.fixture
    def project(self, tmp_path: Path, kept: Path) -> Path:
        (tmp_path / "pytest.ini").write_text("[pytest]\nrobench_baseline = digits.parquet\n")
        for source, name in ((BASELINE, "digits.parquet"), (FAST, "fast.yaml")):
            shutil.copy(source, tmp_path / name)
        (tmp_path / "results").symlink_to(kept)
        return tmp_path

    def test_a_good_model_passes_and_measures_what_is_missing(self, project: Path) -> None:
        (project / "results").unlink()
        test = (
            "def test_published(robench):\n"
            '    check = robench.check("./fast.yaml", model="digits-vit", baseline="digits.parquet")\n'
            "    assert len(check.cells) == 3\n"
        )
        ended = self.run(project, test)
        assert ended.returncode == 0, ended.stdout
        assert (project / "results" / "records").is_dir()

    def test_a_worse_model_fails_with_the_table_alone(self, project: Path, kept: Path) -> None:
        copy_with(kept, project / "worse", wrong)
        test = 'def test_it(robench):\n    robench.check("./fast.yaml", results="worse", run=False)\n'
        ended = self.run(project, test)
        assert ended.returncode == 1
        assert "failed: 2 worse, of 6 cells" in ended.stdout
        assert "pytest_plugin.py" not in ended.stdout
