"""A model that changes the current folder changes nothing: every path means what it meant when the run began."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from conftest import Robench
from safetensors.torch import save_file

import robench as package
from robench.core.errors import UsageError
from robench.core.files import absolute
from robench.store import FolderStore
from robench.store.adversarial import AdversarialFolder

MODEL = """\
import os
from pathlib import Path

from torch import nn


class Wanderer(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3 * 32 * 32, 10)

    def forward(self, images):
        # Another folder with each pass.
        folder = Path(__file__).parent / "elsewhere" / str(len(os.listdir(Path(__file__).parent / "elsewhere")))
        folder.mkdir(exist_ok=True)
        os.chdir(folder)
        return self.head(images.flatten(1))


def build():
    return Wanderer()
"""
REGISTRY = """\
checkpoints:
  wanderer:
    architecture: {backbone: python, target: 'MODULE:build'}
    weights: {uri: wanderer.safetensors, sha256: null}
    preprocessing: {kind: image, mean: [0.305, 0.305, 0.305], std: [0.35, 0.35, 0.35]}
"""


@pytest.fixture
def place(
    tmp_path: Path, small_suite: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Path:
    """A folder with a suite, a registry, and a model that wanders; the current one."""
    module = f"wanderer_{abs(hash(request.node.name))}"
    (tmp_path / f"{module}.py").write_text(MODEL)
    (tmp_path / "registry.yaml").write_text(REGISTRY.replace("MODULE", module))
    (tmp_path / "elsewhere").mkdir()
    torch.manual_seed(0)
    state = {f"head.{name}": value for name, value in torch.nn.Linear(3072, 10).state_dict().items()}
    save_file(state, tmp_path / "wanderer.safetensors")
    small_suite(**{"num_examples: 150": "num_examples: 50"})
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check_place(place: Path, num_records: int) -> None:
    """All results are in one folder, and none where the model went."""
    assert len(list((place / "elsewhere").iterdir())) > 1, "the model never went anywhere"
    assert [path for path in (place / "elsewhere").rglob("*") if path.is_file()] == []
    assert len(FolderStore(place / "r").keys()) == num_records
    assert sorted(path.name for path in place.rglob("records")) == ["records"]


def check_results(robench: Robench, place: Path, monkeypatch: pytest.MonkeyPatch, executor: tuple[str, ...]) -> None:
    command = ("run", "--suite", "small.yaml", "--registry", "registry.yaml", "--model", "wanderer", "--results", "r")
    kept = ("--keep-adversarial", "float32")
    first = robench(*command, *kept, *executor)
    assert first.code == 0, first.stderr
    check_place(place, 3)
    assert len(AdversarialFolder(place / "r").keys()) == 2
    monkeypatch.chdir(place)
    plan = json.loads(robench(*command, *kept, "--dry-run", "--json").stdout)
    assert (plan["kept"], plan["todo"]) == (3, 0)


@pytest.mark.slow
def test_results_of_a_run_are_in_one_place(robench: Robench, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_results(robench, place, monkeypatch, ("--executor", "serial"))


def test_results_of_the_python_api_are_in_one_place(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    for _ in range(2):
        monkeypatch.chdir(place)
        done = []
        report = package.run(
            "small.yaml",
            ["wanderer"],
            registry=["registry.yaml"],
            results="r",
            executor="serial",
            on_progress=lambda progress, done=done: done.append(progress.num_done),
        )
        assert report.is_complete
        counts.append(max(done))
    assert counts == [3, 0]
    check_place(place, 3)


class TestPaths:
    @pytest.mark.parametrize(
        ("option", "command"),
        [
            ("--results", ("report", "--suite", "digits-adv")),
            ("--results", ("status",)),
            ("--suite", ("report",)),
            ("--registry", ("list", "models")),
            ("--data-root", ("data", "verify", "digits")),
            ("--archive", ("data", "prepare", "imagenet-a", "--data-root", ".")),
            ("--output", ("train", "digits-vit")),
            ("FILES", ("validate",)),
            ("SCRIPT", ("timm",)),
        ],
    )
    @pytest.mark.parametrize("path", ["", "~nobody-of-this-name/x"])
    def test_empty_ones_and_homes_of_nobody_are_refused(
        self, robench: Robench, option: str, command: tuple[str, ...], path: str
    ) -> None:
        ended = robench(*command, *([option] if option.startswith("-") else []), path)
        assert (ended.code, ended.stdout) == (2, "")
        message = ended.stderr.splitlines()[-1]
        assert option in message
        assert ("must name a file or folder" if path == "" else "~nobody-of-this-name") in message

    def test_a_tilde_is_the_home_folder(
        self, robench: Robench, tmp_path: Path, small_suite: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        small_suite()
        monkeypatch.setenv("HOME", str(tmp_path))
        assert robench("validate", "~/small.yaml").stdout == f"{tmp_path}/small.yaml: a valid suite\n"
        ended = robench("report", "--suite", "~/small.yaml", "--results", "~/r")
        assert f"in {tmp_path}/r:" in ended.stderr
        monkeypatch.setenv("ROBENCH_RESULTS", "~/other")
        assert f"in {tmp_path}/other:" in robench("report", "--suite", "~/small.yaml").stderr
        assert package.load_suite("~/small.yaml").name == "small"

    def test_several_registries_in_a_variable(
        self, robench: Robench, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        second = place / "second.yaml"
        second.write_text((place / "registry.yaml").read_text().replace("  wanderer:", "  other:"))
        monkeypatch.setenv("ROBENCH_REGISTRY", "registry.yaml:second.yaml")
        names = [entry["name"] for entry in json.loads(robench("list", "models", "--json").stdout)]
        assert names[-2:] == ["wanderer", "other"]

    @pytest.mark.parametrize(
        ("call", "name"),
        [
            (lambda: package.run("digits-adv", ["digits-vit"], results=""), "results"),
            (lambda: package.run("digits-adv", ["digits-vit"], data_root="~nobody-of-this-name"), "data_root"),
            (lambda: package.load_checkpoint("digits-vit", registry=[""]), "registry"),
            (lambda: package.load_dataset("digits", data_root=""), "data_root"),
            (lambda: package.load_suite("~nobody-of-this-name/x.yaml"), "suite"),
            (lambda: FolderStore("nul\0"), "results"),
            (lambda: FolderStore("half a character \ud83d"), "results"),
        ],
    )
    def test_the_python_api_names_the_argument(self, call: Callable[[], object], name: str) -> None:
        with pytest.raises(UsageError, match=f"^{name} "):
            call()

    def test_stores_hold_absolute_paths(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        assert FolderStore("r").path == tmp_path / "r"
        assert FolderStore("r").adversarial.results == tmp_path / "r"
        assert AdversarialFolder(Path("r")).results == tmp_path / "r"

    def test_a_current_folder_that_is_gone(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        gone = tmp_path / "gone"
        gone.mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()
        with pytest.raises(UsageError, match="relative to a current folder that is gone"):
            absolute("r", "--results")
        assert absolute(tmp_path) == tmp_path
