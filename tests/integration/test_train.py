"""``robench train`` writes weights that the registry then vouches for."""

import json
from pathlib import Path

import pytest
from conftest import Robench

from robench.declare import read_registry, shipped_registry
from robench.models.loading import resolve


def own_registry(folder: Path, num_epochs: int = 2) -> Path:
    text = shipped_registry().read_text().split("  digits-symvit:\n")[1].split("\n\n")[0]
    text = text.split("    seeds:\n")[0].rstrip()
    assert "num_epochs: 100" in text
    path = folder / "mine.yaml"
    # Small, since an epoch of the whole model takes a second.
    entry = text.replace("num_epochs: 100", f"num_epochs: {num_epochs}").replace("depth: 4", "depth: 1")
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


@pytest.mark.parametrize("seeds", ["x", "1-", "4-2", "0-99999", "-1", "1,,2"])
def test_what_is_no_list_of_seeds_is_refused(robench: Robench, seeds: str) -> None:
    ended = robench("train", "digits-vit", f"--seeds={seeds}")
    assert ended.code == 2
    assert "--seeds" in ended.stderr


def test_seeds_have_files_of_their_own(robench: Robench, tmp_path: Path) -> None:
    ended = robench("train", "digits-vit", "--seeds", "1", "--output", tmp_path / "w.safetensors")
    assert ended.code == 2
    assert "leave out --output" in ended.stderr


def test_with_seeds_all_means_entries_and_what_is_there_is_not_overwritten(robench: Robench, tmp_path: Path) -> None:
    """A recipe of images on disk: seed 1 would overwrite a file, before anything is trained or looked for."""
    text = shipped_registry().read_text().split("  rpc-symvit:\n")[1].split("\n\n")[0]
    registry = tmp_path / "mine.yaml"
    registry.write_text(f"checkpoints:\n  mine:\n{text}\n")
    kept = read_registry(registry)["mine"].weights.uri
    taken = (tmp_path / kept).with_name(f"{Path(kept).stem}-seed1.safetensors")
    taken.parent.mkdir(parents=True)
    taken.write_bytes(b"weights")
    ended = robench("train", "mine", "--registry", registry, "--data-root", tmp_path, "--seeds", "1-2")
    assert ended.code == 2
    assert f"{taken} is there already" in ended.stderr or f"{taken} exists already" in ended.stderr
    assert taken.read_bytes() == b"weights"


def test_one_seed_of_an_entry_has_no_seeds_of_its_own(robench: Robench) -> None:
    ended = robench("train", "digits-vit@1", "--seeds", "2")
    assert ended.code == 2
    assert "is one seed of 'digits-vit' already" in ended.stderr
