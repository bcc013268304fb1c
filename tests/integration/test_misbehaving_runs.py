"""Models that misbehave, by the whole program: a few of each kind; tests/slow has them all."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Robench
from misbehaving_models import BATCH_SIZE, Model
from safetensors.torch import save_file

import robench as package
from robench.store import FolderStore

SUITE = f"""\
name: small
version: 1
seed: 0
dataset: digits
batch_size: {BATCH_SIZE}
conditions: [{{name: fgsm, num_examples: {BATCH_SIZE}, perturbation: {{kind: fgsm, epsilon: 8/255}}}}]
metrics: [top1_accuracy]
audit: false
"""
ENTRY = """\
  NAME:
    architecture: {backbone: python, target: 'misbehaving_models:build', arguments: {kind: KIND}}
    weights: {uri: weights.safetensors, sha256: null}
    preprocessing: {kind: image, mean: [0.3, 0.3, 0.3], std: [0.4, 0.4, 0.4]}
"""
HARMLESS = ["print", "close-streams", "no-gradients", "default-dtype", "chdir"]
FAILING = {
    "exit-0": "SystemExit: 0",
    "raise-keyboard-interrupt": "KeyboardInterrupt: not the user's",
    "raise-generator-exit": "GeneratorExit: why not",
    "raise-group": "BaseExceptionGroup: several",
    "raise-without-text": "its message cannot be shown",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    # Worker processes look for the models there.
    tests = str(Path(__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([tests, *sys.path]))
    save_file(Model("honest", False).state_dict(), "weights.safetensors")
    names = ["honest", "os-exit-3", *HARMLESS, *FAILING]
    entries = [(name, name) for name in names] + [(f"{name}-at-once", f"{name}, at_once: true") for name in names]
    text = "".join(ENTRY.replace("NAME", name).replace("KIND", kind) for name, kind in entries)
    built = ENTRY.replace("NAME", "built").replace("KIND", "exit-0").replace(":build'", ":build_badly'")
    Path("registry.yaml").write_text(f"checkpoints:\n{text}{built}")
    Path("suite.yaml").write_text(SUITE)
    return tmp_path


def command(*names: str) -> list[str]:
    models = [each for name in names for each in ("--model", name)]
    return ["run", "--suite", "suite.yaml", "--registry", "registry.yaml", *models, "--results", "r", "--json"]


def test_errors_that_would_end_the_run_are_failures_and_prints_stay_out_of_json(robench: Robench, folder: Path) -> None:
    ended = robench(*command("honest", *FAILING, *HARMLESS), "--executor", "serial")
    assert ended.code == 1
    rows = {row["model"] for row in json.loads(ended.stdout)["rows"]}
    assert rows == {"honest", *FAILING, *HARMLESS}
    assert "printed by the model" in ended.stderr
    errors = {failure.shard.checkpoint: failure.error for failure in FolderStore(folder / "r").failures()}
    assert set(errors) == set(FAILING)
    for name, error in FAILING.items():
        assert error in errors[name]
    records = {each.shard.checkpoint: each.outcomes for each in FolderStore(folder / "r").records(lambda shard: True)}
    assert all(records[name] == records["honest"] for name in HARMLESS)


@pytest.mark.parametrize("name", ["exit-0", "raise-without-text"])
def test_the_preflight_check_refuses_by_name(robench: Robench, folder: Path, name: str) -> None:
    ended = robench(*command(f"{name}-at-once"), "--executor", "serial")
    assert (ended.code, ended.stdout) == (2, "")
    assert f"model '{name}-at-once' cannot take the examples" in ended.stderr
    assert FAILING[name] in ended.stderr


def test_the_audit_names_the_model(robench: Robench, folder: Path) -> None:
    arguments = ["--registry", "registry.yaml", "--model", "exit-0-at-once", "--dataset", "digits", "--json"]
    ended = robench("audit", *arguments, "--num-examples", 4)
    assert (ended.code, ended.stdout) == (1, "")
    assert "SystemExit: 0" in ended.stderr


def test_the_api_prints_nothing_but_what_the_program_does(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options: dict[str, Any] = {"registry": ["registry.yaml"], "results": "r"}
    report = package.run("suite.yaml", ["print"], **options, on_progress=lambda progress: print("progress"))  # noqa: T201
    assert report.is_complete
    captured = capfd.readouterr()
    assert set(captured.out.split()) == {"progress"}
    assert "printed by the model" in captured.err
