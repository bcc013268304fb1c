"""Models that misbehave in each command; tests/integration has a run, and test_misbehaving_models.py each model."""

import json
from pathlib import Path

import pytest
from conftest import Robench
from test_misbehaving_runs import ENTRY, command, folder

import robench as package
from robench.store import FolderStore

__all__ = ["folder"]


def test_a_function_that_builds_a_model_cannot_end_the_run_either(robench: Robench, folder: Path) -> None:
    ended = robench(*command("built"), "--executor", "serial")
    assert (ended.code, ended.stdout) == (2, "")
    assert "'misbehaving_models:build_badly'" in ended.stderr
    assert "raised SystemExit: 0" in ended.stderr


def test_a_module_that_ends_the_process_on_import_ends_that_of_its_preflight_check(
    robench: Robench, folder: Path
) -> None:
    Path("leaving.py").write_text("import os\n\nos._exit(5)\n")
    text = Path("registry.yaml").read_text()
    Path("registry.yaml").write_text(text.replace("misbehaving_models:build_badly", "leaving:build"))
    ended = robench(*command("built"), "--executor", "processes", "--workers", 1)
    assert (ended.code, ended.stdout) == (2, "")
    assert "ended itself with exit code 5" in ended.stderr


def test_transfer_prints_its_matrix_alone(robench: Robench, folder: Path) -> None:
    options = ["--condition", "fgsm", "--executor", "serial"]
    ended = robench(*["transfer" if each == "run" else each for each in command("honest", "print")], *options)
    assert ended.code == 0
    assert len(json.loads(ended.stdout)["rows"]) == 2
    assert "printed by the model" in ended.stderr


def test_a_checkpoint_is_loaded_without_a_word_on_stdout(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Path("registry.yaml").write_text(
        "checkpoints:\n" + ENTRY.replace("NAME", "built").replace("KIND", "print").replace(":build'", ":build_badly'")
    )
    package.load_checkpoint("built", registry=["registry.yaml"])
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "printed by the model" in captured.err


def test_workers_survive_what_a_serial_run_cannot(robench: Robench, folder: Path) -> None:
    # What hangs waits for three timeouts, and is left to tests/slow.
    ended = robench(*command("honest", "os-exit-3", "print"), "--executor", "processes", "--workers", 1)
    assert ended.code == 1
    assert len(json.loads(ended.stdout)["rows"]) == 3
    errors = {failure.shard.checkpoint: failure.error for failure in FolderStore(folder / "r").failures()}
    assert set(errors) == {"os-exit-3"}
    assert "ended itself with exit code 3, 3 times" in errors["os-exit-3"]
    records = {each.shard.checkpoint: each.outcomes for each in FolderStore(folder / "r").records(lambda shard: True)}
    assert records["print"] == records["honest"]
