"""One broken entry of a registry does not block the others."""

import logging
from pathlib import Path

import pytest
from conftest import Robench

from robench.core.errors import DeclarationError, UnknownNameError
from robench.datasets import DATASETS
from robench.declare import find_checkpoints, find_datasets, find_suite, read_registries, read_registry, validate_file

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
    assert "there is a dataset of this name in robench already" in caplog.text


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
