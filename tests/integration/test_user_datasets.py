"""A user's own images through suites: serially and with workers, from the command line and from Python."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Robench
from safetensors.torch import save_file
from torch import nn
from user_data import CLASSES, scans, write_arrays, write_folder

import robench
from robench.core.errors import UnknownNameError, UsageError
from robench.store import FolderStore

REGISTRY = """\
datasets:
  photos: {kind: image-folder, path: photos, image_size: 32, title: Four digits as photographs}
  ten: {kind: npz, path: ten.npz, num_classes: 10}
  absent: {kind: image-folder, path: nowhere}
  small: {kind: image-folder, path: photos, image_size: 16}
  mine: {kind: python, target: 'user_data:MINE'}
checkpoints:
  cnn:
    architecture: {backbone: python, target: 'test_user_datasets:build'}
    weights: {uri: cnn.safetensors, sha256: null}
    preprocessing: {kind: image, mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}
    trained_on: photos
  other:
    architecture: {backbone: python, target: 'test_user_datasets:build'}
    weights: {uri: other.safetensors, sha256: null}
    preprocessing: {kind: image, mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}
  grey:
    architecture: {backbone: python, target: 'test_user_datasets:build_grey'}
    weights: {uri: grey.safetensors, sha256: null}
    preprocessing: {kind: image, mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}
  resnet:
    architecture: {backbone: timm, name: resnet10t, arguments: {num_classes: 10}}
    weights: {uri: resnet.safetensors, sha256: null}
    preprocessing: {kind: image, mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}
"""


def build() -> nn.Module:
    """Return a small convolutional network of four classes."""
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(8), nn.Flatten(), nn.Linear(512, 4))


def build_grey() -> nn.Module:
    """Return a network for images of one channel."""
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 4))


def trained(seed: int) -> nn.Module:
    """Return the network after some steps on the first 40 scans, whose classes are folders in sorted order."""
    images, labels = scans(40)
    order = torch.tensor([sorted(CLASSES).index(name) for name in CLASSES])
    inputs = torch.from_numpy(images)[:, None].repeat(1, 3, 1, 1) / 255
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = build()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        for _ in range(30):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model((inputs - 0.5) / 0.5), order[torch.from_numpy(labels)]).backward()
            optimizer.step()
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registry with its images and weights."""
    import timm

    root: Path = tmp_path_factory.mktemp("user")
    write_folder(root / "photos")
    write_arrays(root / "ten.npz")
    for seed, name in enumerate(("cnn", "other")):
        save_file(trained(seed).state_dict(), root / f"{name}.safetensors")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        save_file(build_grey().state_dict(), root / "grey.safetensors")
        save_file(timm.create_model("resnet10t", num_classes=10).state_dict(), root / "resnet.safetensors")
    (root / "my.yaml").write_text(REGISTRY)
    return root


def outcomes_of(results: Path) -> dict[str, list[Any]]:
    """Return all outcomes of a store by shard."""
    return {record.shard.key: list(record.outcomes) for record in FolderStore(results).records(lambda shard: True)}


class TestRun:
    def test_the_table_is_there_again_for_the_dataset_alone(
        self, robench: Robench, folder: Path, tmp_path: Path
    ) -> None:
        of_mine = ("--suite", "smoke", "--dataset", "photos", "--registry", folder / "my.yaml", "--results", tmp_path)
        ran = robench("run", *of_mine, "--model", "cnn", "--executor", "serial")
        accuracy = json.loads(robench("report", *of_mine, "--json").stdout)["rows"][0]["cells"]["clean/top1_accuracy"]
        assert accuracy["value"] > 0.5, ran.stdout
        assert robench("report", *of_mine).stdout == ran.stdout.partition("\n\n")[2]
        status = json.loads(robench("status", *of_mine, "--json").stdout)
        assert [(row["condition"], row["kept"], row["missing"]) for row in status] == [
            (name, 32, 0) for name in ("clean", "fgsm", "pgd", "fog")
        ]
        everything = json.loads(robench("status", *of_mine[2:], "--json").stdout)
        assert {row["suite"] for row in everything} >= {"smoke"}
        of_digits = robench("report", "--suite", "smoke", "--dataset", "digits", "--results", tmp_path)
        assert "No results for suite 'smoke'" in of_digits.stderr
        assert f"robench run --suite smoke --dataset digits --results {tmp_path} --model NAME" in of_digits.stderr
        without = robench("report", "--suite", "smoke", "--results", tmp_path)
        assert (without.code, "names no dataset: choose one with --dataset" in without.stderr) == (2, True)

    @pytest.mark.slow
    def test_adversarial_examples_are_transferred(self, robench: Robench, folder: Path, tmp_path: Path) -> None:
        asked = ("--suite", "smoke", "--dataset", "photos", "--registry", folder / "my.yaml", "--results", tmp_path)
        ended = robench(
            "transfer", *asked, "--condition", "fgsm", "--model", "cnn", "--model", "other", "--executor", "serial"
        )
        assert ended.code == 0, ended.stderr
        assert "from other" in ended.stdout

    @pytest.mark.slow
    def test_an_unreadable_image_costs_its_shard_and_is_named(
        self, robench: Robench, folder: Path, tmp_path: Path
    ) -> None:
        for name in ("cnn.safetensors", "grey.safetensors", "other.safetensors", "resnet.safetensors"):
            (tmp_path / name).symlink_to(folder / name)
        (tmp_path / "my.yaml").write_text(REGISTRY)
        write_folder(tmp_path / "photos")
        (tmp_path / "photos" / "one" / "1.PNG").write_bytes(b"no image")
        asked = ("--registry", tmp_path / "my.yaml")
        verified = robench("data", "verify", "photos", *asked, "--decode")
        assert verified.code == 4
        assert "no-image: cannot read image" in verified.stdout
        assert "one/1.PNG" in verified.stdout
        unread = robench("data", "verify", "photos", *asked)
        assert (unread.code, "whole  photos: 40 images of 4 classes" in unread.stdout) == (0, True)
        ran = robench(
            *("run", "--suite", "smoke", "--dataset", "photos", *asked, "--model", "cnn", "--executor", "serial"),
            *("--results", tmp_path / "r"),
        )
        position = ids_of(tmp_path).index("one/1.PNG")
        assert ran.code == (1 if position < 32 else 0)
        status = robench(
            "status", "--suite", "smoke", "--dataset", "photos", *asked, "--failures", "--results", tmp_path / "r"
        )
        assert ("cannot read image" in status.stdout) == (position < 32)


def ids_of(folder: Path) -> list[str]:
    dataset: Any = robench.load_dataset("photos", registry=folder / "my.yaml")
    return list(dataset.ids)


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "code", "message"),
        [
            (("--dataset", "ten", "--model", "cnn"), 2, "model 'cnn' gives 4 classes, but dataset 'ten' has 10"),
            (
                ("--dataset", "photos", "--model", "resnet"),
                2,
                "model 'resnet' gives 10 classes, but dataset 'photos' has 4",
            ),
            (
                ("--dataset", "small", "--model", "digits-vit"),
                2,
                "cannot take the examples (3, 16, 16) of dataset 'small'",
            ),
            (("--dataset", "photos", "--model", "grey"), 2, "cannot take the examples (3, 32, 32) of dataset 'photos'"),
            (("--dataset", "absent", "--model", "cnn"), 4, "nowhere does not exist. Correct path in its entry"),
            (("--dataset", "foto", "--model", "cnn"), 2, "unknown dataset 'foto'."),
            (("--model", "cnn"), 2, "suite 'smoke' names no dataset"),
            (
                ("--suite", "digits-adv", "--dataset", "photos", "--model", "cnn"),
                2,
                "suite 'digits-adv' names its datasets",
            ),
        ],
    )
    def test_what_cannot_be_measured_is_refused_first(
        self, robench: Robench, folder: Path, tmp_path: Path, options: tuple[str, ...], code: int, message: str
    ) -> None:
        asked = ("--registry", folder / "my.yaml", "--results", tmp_path, "--executor", "serial")
        ended = robench("run", "--suite", "smoke", *asked, *options)
        assert (ended.code, message in ended.stderr) == (code, True), ended.stderr
        assert not list((tmp_path).rglob("*.parquet"))

    def test_data_verify_says_what_is_wrong(self, robench: Robench, folder: Path) -> None:
        ended = robench("data", "verify", "absent", "--registry", folder / "my.yaml")
        assert ended.stdout.startswith("WRONG  absent: 0 images of 0 classes; it cannot be used")
        assert ended.code == 4
        assert "unreadable: dataset 'absent': " in ended.stdout

    def test_data_verify_opens_what_the_users_code_declares(self, robench: Robench, folder: Path) -> None:
        ended = robench("data", "verify", "mine", "--registry", folder / "my.yaml")
        assert (ended.code, "whole  mine: 12 images of 4 classes" in ended.stdout) == (0, True)
        ten = robench("data", "verify", "ten", "--registry", folder / "my.yaml")
        assert (ten.code, "12 images of 10 classes; every image was read" in ten.stdout) == (0, True)


class TestCatalogue:
    def test_list_and_show_know_a_registrys_datasets(self, robench: Robench, folder: Path) -> None:
        registry = ("--registry", folder / "my.yaml")
        listed = robench("list", "datasets", *registry).stdout
        assert "photos" in listed
        assert "Four digits as photographs" in listed
        shown = json.loads(robench("show", "photos", *registry, "--json").stdout)
        assert shown[0]["content"] == {
            "kind": "image-folder",
            "path": str(folder / "photos"),
            "image_size": 32,
            "title": shown[0]["summary"],
        }
        suite = json.loads(robench("show", "smoke", "--json").stdout)[0]
        assert {condition["dataset"] for condition in suite["conditions"]} == {None}

    def test_validate_takes_registries(self, robench: Robench, folder: Path, tmp_path: Path) -> None:
        suite = tmp_path / "mine.yaml"
        suite.write_text(
            "{name: mine, version: 1, seed: 0, batch_size: 8, dataset: photos,"
            " conditions: [{name: clean}], metrics: [top1_accuracy]}"
        )
        assert robench("validate", suite, folder / "my.yaml", "--registry", folder / "my.yaml").code == 0
        assert "unknown dataset 'photos'" in robench("validate", suite).stderr

    @pytest.mark.slow
    def test_an_audit_is_on_what_the_model_was_trained_on(self, robench: Robench, folder: Path) -> None:
        asked = ("audit", "--registry", folder / "my.yaml", "--num-examples", 4, "--device", "cpu")
        assert "the data on which to audit 'other' is not determined" in robench(*asked, "--model", "other").stderr
        assert "unknown dataset 'foto'" in robench(*asked, "--model", "other", "--dataset", "foto").stderr
        ended = robench(*asked, "--model", "cnn", "--json")
        assert ended.code in (0, 1)
        assert len(json.loads(ended.stdout)) > 10


class TestPython:
    def test_run_takes_the_dataset_by_name(self, folder: Path, tmp_path: Path) -> None:
        registry = folder / "my.yaml"
        options: dict[str, Any] = {"registry": registry, "results": tmp_path, "limit": 8, "executor": "serial"}
        report = robench.run("smoke", ["cnn"], dataset="photos", **options)
        assert report.provenance["dataset"] == "photos"
        loaded = robench.load_suite("smoke", dataset="photos", registry=registry)
        again = robench.run(loaded, ["cnn"], **options)
        assert again == report
        with pytest.raises(UsageError, match="dataset must be left out beside a loaded suite"):
            robench.run(loaded, ["cnn"], dataset="photos", registry=registry, results=tmp_path)
        with pytest.raises(UsageError, match="names no dataset"):
            robench.run(robench.load_suite("smoke"), ["cnn"], registry=registry, results=tmp_path)

    def test_a_dataset_is_loaded_by_name(self, folder: Path) -> None:
        dataset = robench.load_dataset("photos", registry=folder / "my.yaml")
        assert dataset[0][0].shape == (3, 32, 32)
        with pytest.raises(UnknownNameError, match="unknown dataset 'photos'"):
            robench.load_dataset("photos")
