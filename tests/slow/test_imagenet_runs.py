"""Images in ImageNet's folders through the whole suite, unreadable ones, and any model of timm."""

import json
from pathlib import Path

import test_imagenet
import torch
from conftest import Robench
from safetensors.torch import save_file
from test_imagenet import CLASSES, TIMM, WNIDS, _small, clean_alone, data_root, registry, run

import robench as package
from robench.store import FolderStore

__all__ = ["_small", "data_root", "registry"]


def test_the_whole_suite_runs(robench: Robench, registry: Path, data_root: Path, tmp_path: Path) -> None:
    ended = run(robench, registry, tmp_path / "r", "--data-root", data_root, "--no-audit", "--json")
    assert ended.code == 0
    (row,) = json.loads(ended.stdout)["rows"]
    assert {(cell["num_examples"], cell["missing"]) for cell in row["cells"].values()} == {(8, 0)}
    assert "8 images of 4 classes" in ended.stderr
    records = list(FolderStore(tmp_path / "r").records(lambda header: header.condition == "clean"))
    targets = {outcome.example_id.split("/")[0]: outcome.target for record in records for outcome in record.outcomes}  # type: ignore[attr-defined]
    assert targets == CLASSES


def test_any_model_of_timm_runs_from_a_registry_file(robench: Robench, data_root: Path, tmp_path: Path) -> None:
    import timm

    clean_alone()
    torch.manual_seed(0)
    save_file(timm.create_model("vit_tiny_patch16_224").state_dict(), tmp_path / "weights.safetensors")
    (tmp_path / "mine.yaml").write_text(TIMM)
    ended = robench(
        "run", "--suite", test_imagenet.SMALL, "--registry", tmp_path / "mine.yaml", "--model", "mine",
        "--data-root", data_root, "--results", tmp_path / "r", "--executor", "serial", "--limit", 4,
    )  # fmt: skip
    assert ended.code == 0
    victim = package.load_checkpoint("mine", registry=[tmp_path / "mine.yaml"])
    image, label = package.load_dataset("imagenet-1k", data_root=data_root)[0]
    assert image.shape == (3, 224, 224)
    assert label in CLASSES.values()
    assert victim.outputs(image[None]).shape == (1, 1000)


def test_an_unreadable_image_fails_its_shard_by_name_and_nothing_is_averaged_around_it(
    robench: Robench, registry: Path, data_root: Path, tmp_path: Path
) -> None:
    clean_alone()
    root = tmp_path / "broken"
    for wnid in WNIDS:
        (root / wnid).mkdir(parents=True)
        for image in (data_root / "imagenet-1k" / "val" / wnid).iterdir():
            (root / wnid / image.name).write_bytes(image.read_bytes())
    victim = root / WNIDS[2] / "ILSVRC2012_val_00000001.JPEG"
    victim.write_bytes(victim.read_bytes()[:900])
    ended = run(robench, registry, tmp_path / "r", "--data-root", root, "--no-audit", "--json")
    assert ended.code == 1
    assert str(victim) in ended.stderr
    (row,) = json.loads(ended.stdout)["rows"]
    cell = row["cells"]["clean/top1_accuracy"]
    assert (cell["value"], cell["num_examples"], cell["missing"]) == (None, 4, 4)
    assert any(str(victim) in note for note in row["notes"])
    victim.write_bytes((data_root / "imagenet-1k" / "val" / WNIDS[2] / victim.name).read_bytes())
    assert run(robench, registry, tmp_path / "r", "--data-root", root, "--no-audit").code == 0
