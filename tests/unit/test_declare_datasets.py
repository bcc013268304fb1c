"""Datasets in registry files, names that resolve to them, suites for any dataset, and entries beside broken ones."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Robench

from examples import CHECKPOINT
from robench.core.declared import DatasetDeclaration
from robench.core.errors import DeclarationError, UnknownNameError, UsageError
from robench.core.identity import to_plain
from robench.core.shard import DatasetIdentity, Measurement
from robench.datasets import DATASETS
from robench.datasets.user_formats import ImageFolder
from robench.declare import (
    find_checkpoints,
    find_datasets,
    find_suite,
    find_suites,
    merge,
    parse_suite,
    read_registries,
    read_registry,
    shipped_suites,
    validate_file,
)
from robench.runs import RunRequest

DATA = "datasets:\n  mine: {kind: image-folder, path: data, image_size: 32}\n"
MODEL = """\
checkpoints:
  model:
    architecture: {backbone: timm, name: deit}
    weights: {uri: mine.pth, sha256: null}
    preprocessing: {kind: image, mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}
    trained_on: mine
"""
OPEN = {
    "name": "open", "version": 1, "seed": 0, "task": "classification", "batch_size": 10,
    "conditions": [{"name": "clean"}, {"name": "fgsm", "perturbation": {"kind": "fgsm", "epsilon": "8/255"}}],
    "metrics": ["top1_accuracy", "robust_accuracy"],
}  # fmt: skip
ANY_DATASET = (
    "autoattack-few-classes", "autoattack-standard", "corruptions-live", "corruptions-live-224", "pgd-standard",
    "smoke",
)  # fmt: skip


def write(folder: Path, text: str, name: str = "data.yaml") -> Path:
    (folder / name).write_text(text)
    return folder / name


def datasets_of(folder: Path, text: str = DATA) -> Mapping[str, DatasetDeclaration]:
    return find_datasets([write(folder, text)])


def problem_of(folder: Path, text: str) -> str:
    with pytest.raises(DeclarationError) as caught:
        read_registry(write(folder, text))
    return str(caught.value)


class TestRegistries:
    def test_a_file_may_declare_datasets_alone_models_alone_or_both(self, tmp_path: Path) -> None:
        assert validate_file(write(tmp_path, DATA)) == "registry"
        assert validate_file(write(tmp_path, DATA + MODEL)) == "registry"
        assert read_registry(tmp_path / "data.yaml")["model"].trained_on == "mine"
        assert validate_file(write(tmp_path, MODEL.replace("mine\n", "digits\n"))) == "registry"
        assert "checkpoints: missing; declare checkpoints or datasets, or both" in problem_of(tmp_path, "{}\n")

    def test_an_entry_declares_absolute_paths(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", "/home/me")
        found: Any = datasets_of(tmp_path)["mine"]
        assert found.content == ImageFolder(path=str(tmp_path / "data"), image_size=32)
        assert (found.name, found.task, found.licence, found.image_size) == ("mine", "classification", "not stated", 32)
        assert found.title == f"image-folder {tmp_path}/data"
        for path, wanted in [("/a/b", "/a/b"), ("~/x", "/home/me/x"), ("../y", f"{tmp_path}/../y")]:
            entry: Any = datasets_of(tmp_path, f"datasets:\n  mine: {{kind: npz, path: {path}, num_classes: 7}}\n")[
                "mine"
            ]
            assert (entry.content.path, entry.num_classes) == (wanted, 7)

    def test_root_of_a_class_is_a_path_as_well(self, tmp_path: Path) -> None:
        text = "datasets:\n  mine: {kind: torchvision, target: 'a.b:C', arguments: {root: r, train: false, n: 1.5}}\n"
        found: Any = datasets_of(tmp_path, text)["mine"]
        assert found.content.arguments == {"root": str(tmp_path / "r"), "train": False, "n": 1.5}

    @pytest.mark.parametrize(
        ("entry", "message"),
        [
            (
                "{path: x}",
                "kind: missing. Known: csv, environment, image-folder, image-masks, jsonl, npz, parquet, python,"
                " series-csv, texts, torchvision, ts",
            ),
            ("{kind: image-foldr, path: x}", "kind: unknown kind of dataset 'image-foldr'. Did you mean 'image-folder"),
            ("{kind: image-folder}", "datasets.mine.path: missing"),
            ("{kind: image-folder, path: ''}", "path: must name a file or folder, got ''"),
            ("{kind: image-folder, path: x, image_size: 0}", "image_size: must be at least 1, got 0"),
            ("{kind: image-folder, path: x, num_classes: 1}", "num_classes: must be at least 2, got 1"),
            (
                "{kind: image-folder, path: x, imagesize: 3}",
                "imagesize: unknown field 'imagesize'. Did you mean 'image_size'?",
            ),
            ("{kind: image-folder, path: x, task: detection}", "task: unknown task 'detection'"),
            ("{kind: csv, path: x, label_column: path}", "label_column: must differ from image_column"),
            ("{kind: npz, path: x, inputs: targets}", "targets: must differ from inputs"),
            ("{kind: torchvision, target: SVHN}", "target: must be package.module:Class, got SVHN"),
            ("{kind: npz, path: ~nobody-of-this-name/x}", "is not a user's home folder here"),
            ("image-folder", "must be a mapping such as {kind: image-folder}"),
        ],
    )
    def test_a_mistake_has_its_place(self, tmp_path: Path, entry: str, message: str) -> None:
        assert message in problem_of(tmp_path, f"datasets:\n  mine: {entry}\n")

    def test_a_shipped_name_and_one_of_two_files_are_taken(self, tmp_path: Path) -> None:
        text = DATA.replace("mine", "digits")
        assert "line 2: datasets.digits: there is a dataset of this name in robench" in problem_of(tmp_path, text)
        files = [write(tmp_path, DATA, "a.yaml"), write(tmp_path, DATA, "b.yaml")]
        with pytest.raises(DeclarationError, match=r"'mine' is declared in .*a.yaml and in .*b.yaml; rename one"):
            find_datasets(files)

    def test_models_may_be_trained_on_datasets_of_their_own_file_or_another(self, tmp_path: Path) -> None:
        model, data = write(tmp_path, MODEL, "model.yaml"), write(tmp_path, DATA)
        assert find_checkpoints(["model"], [model, data])[0].trained_on == "mine"
        assert validate_file(model, find_datasets([data])) == "registry"
        with pytest.raises(DeclarationError, match="trained_on: unknown dataset 'mine'"):
            validate_file(model)

    def test_nothing_is_trained_on_a_users_dataset(self, tmp_path: Path) -> None:
        text = MODEL.replace("trained_on: mine", "training: {dataset: mine}")
        assert "training.dataset: 'mine' is a dataset of a registry file, and" in problem_of(tmp_path, DATA + text)
        assert "training.dataset: unknown dataset 'mime'" in problem_of(tmp_path, DATA + text.replace("mine}", "mime}"))

    def test_names_of_plug_ins_are_there_beside_them(self, tmp_path: Path) -> None:
        found = datasets_of(tmp_path)
        assert list(found) == ["mine", *DATASETS]
        assert len(found) == len(DATASETS) + 1
        assert found["digits"] is DATASETS["digits"]
        assert "absent" not in found
        assert find_datasets() is DATASETS

    def test_merging_keeps_the_order_of_files(self) -> None:
        assert list(merge({Path("a"): {"y": 1}, Path("b"): {"x": 2}}, "dataset")) == ["y", "x"]

    def test_a_path_enters_no_key(self, tmp_path: Path) -> None:
        keys = set()
        for folder in ("a", "b"):
            (tmp_path / folder).mkdir()
            (suite,) = find_suites(["pgd-standard"], [write(tmp_path / folder, DATA)], "mine")
            keys.add(
                Measurement(
                    checkpoint=CHECKPOINT,
                    condition=suite.conditions[0],
                    weights_digest="0" * 64,
                    dataset=DatasetIdentity(name="mine", fingerprint="f", num_examples=1),
                    seed=0,
                    batch_size=1,
                ).key
            )
            assert str(tmp_path) in str(to_plain(suite.conditions[0].dataset))
        assert len(keys) == 1


class TestSuitesForAnyDataset:
    def test_the_shipped_ones_are_those(self) -> None:
        of_series = ("series-adv", "series-c", "series-calibration")
        of_others = ("masks-adv", "masks-c", *of_series, "texts-adv", "texts-search", "texts-swap")
        assert [name for name in shipped_suites() if find_suite(name).lacks_dataset] == sorted(
            (*ANY_DATASET, *of_others), key=lambda name: f"{name}.yaml"
        )

    @pytest.mark.parametrize("name", ANY_DATASET)
    def test_each_serves_robenchs_datasets_and_a_users(self, tmp_path: Path, name: str) -> None:
        of_digits, of_mine = (find_suite(name, datasets_of(tmp_path), dataset) for dataset in ("digits", "mine"))
        assert not of_digits.lacks_dataset
        assert (of_digits.given_dataset, of_mine.given_dataset) == ("digits", "mine")
        assert {condition.dataset.name for condition in of_mine.conditions} == {"mine"}
        assert [each.perturbation_key for each in of_mine.conditions] == [
            each.perturbation_key for each in of_digits.conditions
        ]

    def test_without_a_dataset_it_can_be_looked_at_and_not_measured(self) -> None:
        suite = find_suite("pgd-standard")
        assert (suite.task, suite.conditions[0].dataset.num_examples) == ("classification", None)
        with pytest.raises(UsageError, match="'pgd-standard' names no dataset: choose one with --dataset") as caught:
            RunRequest(suites=(suite,), checkpoints=(CHECKPOINT,))
        assert caught.value.exit_code == 2
        with pytest.raises(UsageError, match="names no dataset"):
            find_suites(["pgd-standard"])

    def test_a_suite_that_names_one_takes_no_other(self) -> None:
        wanted = "suite 'digits-adv' names its datasets: --dataset is for suites that name none, such as pgd-standard"
        with pytest.raises(UsageError, match=wanted):
            find_suites(["digits-adv"], (), "digits")

    def test_an_unknown_dataset_has_did_you_mean(self, tmp_path: Path) -> None:
        with pytest.raises(UnknownNameError, match=r"unknown dataset 'mime'. Did you mean 'mine'\?.*--registry"):
            find_suite("pgd-standard", datasets_of(tmp_path), "mime")

    def test_suites_name_datasets_of_registries(self, tmp_path: Path) -> None:
        suite = write(tmp_path, shipped_suites()["smoke"].read_text().replace("task: classification", "dataset: mine"))
        registry = write(tmp_path, DATA, "registry.yaml")
        assert find_suites([str(suite)], [registry])[0].conditions[0].dataset.name == "mine"
        assert validate_file(suite, find_datasets([registry])) == "suite"
        with pytest.raises(DeclarationError, match="dataset: unknown dataset 'mine'"):
            validate_file(suite)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"task": "detection"}, "task: unknown task 'detection'"),
            ({"task": None}, "dataset: missing; .* or state task, for any dataset of it"),
            (
                {"conditions": [{"name": "clean", "dataset": "digits"}, {"name": "more"}]},
                r"conditions\[1\].dataset: missing; name one here",
            ),
        ],
    )
    def test_a_suite_without_dataset_states_its_task(self, changes: dict[str, Any], message: str) -> None:
        suite = {name: value for name, value in (OPEN | changes).items() if value is not None}
        with pytest.raises(DeclarationError, match=message):
            parse_suite(suite)

    def test_a_stated_task_is_compared_with_the_datasets(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert parse_suite(OPEN | {"dataset": "digits"}).task == "classification"
        other = replace(DATASETS["digits"], task="segmentation")
        monkeypatch.setitem(DATASETS.builtin, "digits", other)
        with pytest.raises(DeclarationError, match="must be a dataset of the task classification as in the suite"):
            parse_suite(OPEN | {"dataset": "digits"})
        with pytest.raises(UsageError, match="is for classification, but dataset 'digits' is for segmentation"):
            find_suite("smoke", DATASETS, "digits")

    def test_a_model_of_another_task_is_refused(self) -> None:
        (suite,) = find_suites(["smoke"], (), "digits")
        with pytest.raises(UsageError, match="suite 'smoke' is for classification, but model 'm' is for segmentation"):
            RunRequest(suites=(suite,), checkpoints=(replace(CHECKPOINT, task="segmentation"),))

    def test_attacks_on_masked_classes_stay_refused(self) -> None:
        with pytest.raises(DeclarationError, match="must be no attack on imagenet-a"):
            find_suite("pgd-standard", DATASETS, "imagenet-a")


ENTRY = """\
  {name}:
    architecture: {{backbone: python, target: '{target}'}}
    weights: {{uri: w.pth, sha256: null}}
    preprocessing: {{kind: image, mean: {mean}, std: [0.5, 0.5, 0.5]}}
    trained_on: {trained_on}
"""
FINE = "[0.5, 0.5, 0.5]"


def entry(name: str, target: str = "a.b:c", mean: str = FINE, trained_on: str = "digits") -> str:
    return ENTRY.format(name=name, target=target, mean=mean, trained_on=trained_on)


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(
        f"checkpoints:\n{entry('sound', trained_on='no-images')}{entry('grey', mean='[123.7, 116.3, 103.5]')}"
        f"{entry('two-wrongs', target='none', mean='[2, 2, 2]')}{entry('last')}"
        "datasets:\n  no-images: {kind: image-folder, path: x, image_size: -1}\n"
        "  images: {kind: image-folder, path: x, image_size: 32}\n"
    )
    return path


def test_the_others_are_read_with_a_warning_each(registry: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "robench"):
        found = read_registries([registry])
    assert {"sound", "last", "digits-vit"} <= found.keys()
    assert not {"grey", "two-wrongs"} & found.keys()
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2
    assert "broken entry 'grey' is left out" in messages[0]
    assert f"{registry}: line 10: checkpoints.grey.preprocessing.mean: must lie in [0, 1]" in messages[0]
    assert "divide mean and std by 255" in messages[0]
    assert "robench validate" in messages[1]


def test_one_that_is_asked_for_is_an_error_with_all_its_problems(registry: Path) -> None:
    with pytest.raises(DeclarationError) as caught:
        find_checkpoints(["sound", "two-wrongs"], [registry])
    assert caught.value.num_problems == 2
    assert "two-wrongs.architecture" in str(caught.value)
    assert "grey" not in str(caught.value)
    assert [each.name for each in find_checkpoints(["last", "sound"], [registry])] == ["last", "sound"]
    with pytest.raises(DeclarationError, match=r"checkpoints\.grey"):
        find_checkpoints(["grey@3"], [registry])
    with pytest.raises(UnknownNameError, match=r"unknown model 'lost'\. Did you mean 'last'"):
        find_checkpoints(["lost"], [registry])


def test_datasets_likewise(registry: Path) -> None:
    datasets = find_datasets([registry])
    assert "images" in list(datasets)
    assert "no-images" not in list(datasets)
    assert find_suite("smoke", datasets, "images").given_dataset == "images"
    with pytest.raises(DeclarationError, match=r"datasets\.no-images\.image_size: must be at least 1"):
        find_suite("smoke", datasets, "no-images")


def test_a_dataset_of_a_shipped_ones_name_hides_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "x.yaml").write_text("datasets:\n  digits: {kind: image-folder, path: x, image_size: 32}\n")
    assert find_datasets([tmp_path / "x.yaml"])["digits"] is DATASETS["digits"]
    assert "there is a dataset of this name in robench" in caplog.text


def test_validation_and_strict_readers_still_refuse_the_file(registry: Path) -> None:
    for read in (validate_file, read_registry):
        with pytest.raises(DeclarationError) as caught:
            read(registry)
        assert caught.value.num_problems == 4


@pytest.mark.parametrize("text", ["checkpoints: [a]\n", "checkpoints: {}\nmodels: {}\n", "a: &a 1\ncheckpoints: {}\n"])
def test_what_is_wrong_with_the_whole_file_still_is(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(DeclarationError):
        read_registries([tmp_path / "x.yaml"])


def test_a_name_given_twice_leaves_both_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "x.yaml").write_text(f"checkpoints:\n{entry('one')}{entry('one')}{entry('two')}")
    found = read_registries([tmp_path / "x.yaml"])
    assert ("one" in found, "two" in found) == (False, True)
    assert "one" in caplog.text


def test_commands(robench: Robench, registry: Path) -> None:
    listed = robench("list", "models", "--registry", registry)
    assert listed.code == 0
    assert "sound" in listed.stdout
    assert listed.stderr.count("is left out") == 2
    asked = robench("run", "--suite", "digits-adv", "--model", "grey", "--registry", registry)
    assert (asked.code, asked.stdout) == (2, "")
    assert "divide mean and std by 255" in asked.stderr
    assert robench("audit", "--model", "grey", "--registry", registry).code == 2
    assert robench("validate", registry).code == 2
