"""Datasets of users in worker processes."""

from pathlib import Path

from conftest import Robench
from test_user_datasets import folder, outcomes_of

__all__ = ["folder"]


class TestRun:
    def test_a_worker_and_none_give_equal_outcomes(self, robench: Robench, folder: Path, tmp_path: Path) -> None:
        asked = ("run", "--suite", "smoke", "--dataset", "photos", "--registry", folder / "my.yaml", "--model", "cnn")
        serial = robench(*asked, "--executor", "serial", "--results", tmp_path / "a")
        assert (serial.code, serial.stderr.count("failed")) == (0, 0), serial.stderr
        workers = robench(*asked, "--executor", "processes", "--workers", 1, "--results", tmp_path / "b")
        assert workers.code == 0, workers.stderr
        assert workers.stdout == serial.stdout
        found = outcomes_of(tmp_path / "a")
        assert len(found) == 4
        assert outcomes_of(tmp_path / "b") == found
        assert "dataset photos" in serial.stdout
        again = robench(*asked, "--dry-run", "--results", tmp_path / "a")
        assert "4 shards, 4 kept, 0 to do" in again.stdout
