"""``robench train`` writes weights that the registry then vouches for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from robench.declare import read_registry, shipped_registry
from robench.models.weights import resolve

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Robench


def own_registry(folder: Path) -> Path:
    text = shipped_registry().read_text().split("  digits-symvit:\n")[1].split("\n\n")[0]
    assert "num_epochs: 100" in text
    path = folder / "mine.yaml"
    entry = text.replace("num_epochs: 100", "num_epochs: 2")
    path.write_text(f"# my own\ncheckpoints:\n  mine:\n{entry}  # kept\n")
    return path


def test_training_writes_weights_digest_and_accuracy_and_keeps_the_rest_of_the_file(
    robench: Robench, tmp_path: Path
) -> None:
    registry = own_registry(tmp_path)
    before = registry.read_text().splitlines()
    ended = robench("train", "mine", "--registry", registry)
    assert ended.code == 0
    checkpoint = read_registry(registry)["mine"]
    path, digest = resolve(checkpoint)
    assert path == tmp_path / "checkpoints" / "digits-symvit.safetensors"
    assert digest == checkpoint.weights.sha256
    assert f"{100 * checkpoint.expected['top1_accuracy']:.1f} % clean" in ended.stdout
    changed = [new for old, new in zip(before, registry.read_text().splitlines(), strict=True) if old != new]
    assert [line.split(":")[0].strip() for line in changed] == ["sha256", "expected"]
    history = json.loads((tmp_path / "checkpoints" / "digits-symvit.history.json").read_text())
    assert (history["checkpoint"], history["dataset"], history["num_epochs"]) == ("mine", "digits", 2)
    assert [epoch["epoch"] for epoch in history["epochs"]] == [1, 2]
    assert round(history["epochs"][-1]["validation"]["top1_accuracy"], 4) == checkpoint.expected["top1_accuracy"]
    assert f"{100 * checkpoint.expected['top1_accuracy']:.1f} % right" in ended.stderr
    suite = ("run", "--suite", "digits-adv", "--registry", registry, "--model", "mine", "--limit", 100, "--no-audit")
    assert robench(*suite, "--results", tmp_path / "r", "--executor", "serial").code == 0


def test_a_folder_that_cannot_be_written_is_named(robench: Robench, tmp_path: Path) -> None:
    registry = own_registry(tmp_path)
    (tmp_path / "checkpoints").write_text("a file, where a folder is needed")
    ended = robench("train", "mine", "--registry", registry)
    assert ended.code == 2
    assert "cannot write the weights to" in ended.stderr
