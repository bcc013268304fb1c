"""Whatever a user gets wrong gets one clear message, the documented exit code, nothing on stdout and no traceback."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Ended, MeasuredStore, Robench
from safetensors.torch import load_file, save, save_file

from robench.declare import shipped_folder
from robench.store import FolderStore

RUN = ("run", "--suite", "digits-adv", "--model", "digits-vit")
PUBLISHED = shipped_folder() / "checkpoints" / "digits-vit.safetensors"
ARCHITECTURE = (
    "{backbone: vit, image_size: 32, patch_size: 8, num_classes: 10, depth: 4, dim: 64, num_heads: 4, mlp_ratio: 2}"
)
ENTRY = """\
checkpoints:
  mine:
    architecture: ARCHITECTURE
    weights: {uri: mine.safetensors, sha256: SHA256}
    preprocessing: {kind: image, mean: [0.305, 0.305, 0.305], std: [0.35, 0.35, 0.35]}
"""


def refused(ended: Ended, code: int, *parts: str) -> None:
    assert ended.code == code, ended.stderr
    assert ended.stdout == ""
    for part in parts:
        assert part in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("run", "--suite", "digits-adv", "--model", "digit-vit"), ("unknown model 'digit-vit'", "'digits-vit'?")),
        (("run", "--suite", "digits-avd", "--model", "digits-vit"), ("unknown suite 'digits-avd'", "'digits-adv'?")),
        (("report", "--suite", "digits-avd"), ("unknown suite 'digits-avd'", "Did you mean 'digits-adv'?")),
        (("show", "pdg"), ("unknown name 'pdg'", "Did you mean 'pgd'?")),
        (("rnu",), ("No such command 'rnu'", "Did you mean 'run'?")),
        (("list", "model"), ("'model' is not one of",)),
        (("run", "--suite", "digits-adv"), ("Missing option '--model'",)),
        ((*RUN, "--limit", "0"), ("--limit", "0 is not in the range")),
        ((*RUN, "--device", "cuda:9"), ("no device 'cuda:9'", "there is: cpu")),
        ((*RUN, "--executor", "serial", "--workers", "2"), ("leave one of them out",)),
        ((*RUN, "--registry", "absent.yaml"), ("absent.yaml",)),
        (("run", "--suite", "absent.yaml", "--model", "digits-vit"), ("absent.yaml",)),
        (("validate", "absent.yaml"), ("absent.yaml",)),
        (("train", "digits-vitt"), ("unknown model 'digits-vitt'", "Did you mean 'digits-vit'?")),
        (("train", "deit-tiny-distilled"), ("deit-tiny-distilled", "no 'training' fields")),
        (("train",), ("nothing to train", "--all")),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else None,
)  # fmt: skip
def test_wrong_requests_end_with_2(
    robench: Robench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: Any, parts: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(robench(*arguments), 2, *parts)
    assert list(tmp_path.iterdir()) == [tmp_path / "results"] or list(tmp_path.iterdir()) == []


def test_six_mistakes_in_a_suite_are_all_listed_with_path_and_line(robench: Robench, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(SIX_MISTAKES)
    ended = robench("validate", path)
    refused(
        ended, 2, f"{path}: 6 problems",
        "line 4: dataset: ", "Did you mean 'digits'?",
        "line 8: conditions[0].perturbation.epsilon: ", "per cent",
        "line 8: conditions[0].perturbation.num_steps: ", "at least 1, got -3",
        "line 9: conditions[1].perturbation.kind: ", "Did you mean 'pgd'?",
        "line 10: conditions[2].perturbation.stepsize: ", "unknown field",
        "line 11: metrics[0]: ", "Did you mean 'top1_accuracy'?",
    )  # fmt: skip


SIX_MISTAKES = """\
name: bad
version: 1
seed: 0
dataset: digit
batch_size: 100
conditions:
  - name: pgd
    perturbation: {kind: pgd, epsilon: 8%, step_size: 2/255, num_steps: -3}
  - {name: other, perturbation: {kind: pdg}}
  - {name: third, perturbation: {kind: fgsm, epsilon: 8/255, stepsize: 1/255}}
metrics: [top1_acuracy]
"""


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("epsilon: 8/255, step", "epsilon: 8/0, step", ("line 9", "epsilon", "zero")),
        ("epsilon: 8/255, step", "epsilon: 3%, step", ("line 9", "epsilon", "per cent")),
        ("epsilon: 8/255, step", "epsilon: 8, step", ("line 9", "epsilon", "at most 1")),
        ("num_steps: 4", "num_steps: -4", ("line 9", "num_steps", "at least 1", "-4")),
        ("seed: 0", "seed: 0\nseed: 1", ("line 4", "seed", "line 3")),
        ("kind: pgd", "kind: pdg", ("line 9", "Did you mean 'pgd'?")),
        ("batch_size: 50", "batch_size: 50\nbatchsize: 50", ("line 6", "Did you mean 'batch_size'?")),
        ("seed: 0", "seed: [", ("line",)),
        ("version: 1", "version: true", ("line 2", "version")),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_mistakes_in_a_suite_end_a_run_with_2(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path, old: str, new: str, parts: tuple[str, ...]
) -> None:
    path = small_suite(**{old: new})
    refused(robench("run", "--suite", path, "--model", "digits-vit", "--results", tmp_path / "r"), 2, str(path), *parts)
    assert not (tmp_path / "r").exists()


def run_mine(
    robench: Robench, folder: Path, content: bytes, *, sha256: str = "null", architecture: str = ARCHITECTURE
) -> Ended:
    (folder / "mine.safetensors").write_bytes(content)
    registry = folder / "registry.yaml"
    registry.write_text(ENTRY.replace("SHA256", sha256).replace("ARCHITECTURE", architecture))
    model = ("--registry", registry, "--model", "mine")
    options = ("--executor", "serial", "--limit", 1, "--no-audit", "--condition", "clean")
    return robench("run", "--suite", "digits-adv", *model, "--results", folder / "r", *options)


class Planted:
    """A pickle that would touch a file when it is loaded."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


def changed_state(**changes: torch.Tensor | None) -> bytes:
    state = load_file(PUBLISHED) | {name.replace("__", "."): value for name, value in changes.items()}
    return save({name: value for name, value in state.items() if value is not None})


class TestWeights:
    def test_another_digest(self, robench: Robench, tmp_path: Path) -> None:
        assert run_mine(robench, tmp_path, PUBLISHED.read_bytes()).code == 0
        refused(run_mine(robench, tmp_path, PUBLISHED.read_bytes(), sha256="ab" * 32), 4, "mine.safetensors", "ab" * 32)

    def test_a_pickle_with_code_is_never_executed(self, robench: Robench, tmp_path: Path) -> None:
        marker = tmp_path / "executed"
        refused(run_mine(robench, tmp_path, pickle.dumps(Planted(marker))), 4, "mine.safetensors")
        assert not marker.exists()

    def test_nan_weights_are_a_failure_and_never_robust(self, robench: Robench, tmp_path: Path) -> None:
        ended = run_mine(robench, tmp_path, changed_state(head__bias=torch.full((10,), torch.nan)))
        assert ended.code == 1
        assert "NaN or infinite logits" in ended.stderr
        assert "missing" in ended.stdout

    def test_a_model_for_other_images(self, robench: Robench, tmp_path: Path) -> None:
        architecture = "{backbone: timm, name: vit_tiny_patch16_224, arguments: {depth: 1, num_classes: 10}}"
        import timm

        save_file(timm.create_model("vit_tiny_patch16_224", depth=1, num_classes=10).state_dict(), tmp_path / "t")
        ended = run_mine(robench, tmp_path, (tmp_path / "t").read_bytes(), architecture=architecture)
        refused(ended, 2, "model 'mine' cannot take the examples (3, 32, 32) of dataset 'digits'")

    def test_a_model_with_other_classes(self, robench: Robench, tmp_path: Path) -> None:
        state = {"head__weight": torch.zeros(7, 64), "head__bias": torch.zeros(7)}
        architecture = ARCHITECTURE.replace("num_classes: 10", "num_classes: 7")
        ended = run_mine(robench, tmp_path, changed_state(**state), architecture=architecture)
        refused(ended, 2, "model 'mine' gives 7 classes, but dataset 'digits' has 10")


def run_serially(suite: Path, results: Path) -> tuple[object, ...]:
    return "run", "--suite", suite, "--model", "digits-vit", "--executor", "serial", "--results", results


class TestResults:
    def test_a_path_below_a_file(self, robench: Robench, small_suite: Callable[..., Path], tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        ended = robench("run", "--suite", small_suite(), "--model", "digits-vit", "--results", tmp_path / "file" / "r")
        refused(ended, 2, "--results", str(tmp_path / "file"))

    def test_a_full_disk_loses_nothing_that_was_kept(
        self, robench: Robench, small_suite: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        command = run_serially(small_suite(**{"num_steps: 4": "num_steps: 1"}), tmp_path / "r")
        real, calls = os.fsync, [0]

        def fsync(descriptor: int) -> None:
            calls[0] += 1
            if calls[0] > 6:
                raise OSError(28, "No space left on device")
            real(descriptor)

        monkeypatch.setattr(os, "fsync", fsync)
        refused(robench(*command), 1, str(tmp_path / "r"), "space")
        kept = {path.name for path in (tmp_path / "r").rglob("*.parquet")}
        assert kept
        monkeypatch.setattr(os, "fsync", real)
        assert robench(*command).code == 0
        assert kept < {path.name for path in (tmp_path / "r").rglob("*.parquet")}

    def test_a_truncated_record_is_set_aside_and_measured_again(
        self, robench: Robench, measured_store: MeasuredStore, tmp_path: Path
    ) -> None:
        command = run_serially(measured_store.suite, measured_store.copied(tmp_path / "r"))
        first = robench(*command)
        records = FolderStore(tmp_path / "r").records(lambda header: header.checkpoint == "digits-vit")
        victim = next((tmp_path / "r").rglob(f"{next(records).shard.key}.parquet"))
        content = victim.read_bytes()
        victim.write_bytes(content[: len(content) // 2])
        second = robench(*command)
        assert second.code == 0
        assert str(victim) in second.stderr
        assert second.stdout == first.stdout
        assert victim.exists()
        assert len(list((tmp_path / "r" / "damaged").iterdir())) == 1


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("num_classes: 10", "num_classes: 2147483647", "num_classes"),
        ("num_classes: 10", "num_classes: 18446744073709551616", "num_classes"),
        ("image_size: 32", "image_size: 32000", "image_size"),
        ("depth: 4", "depth: 1000000000", "depth"),
        ("mine.safetensors", "/dev/zero", "uri"),
        ("mine.safetensors", '"a\\0b"', "uri"),
    ],
)
def test_a_model_that_cannot_be_built_is_refused_by_validate(
    robench: Robench, tmp_path: Path, old: str, new: str, field: str
) -> None:
    path = tmp_path / "registry.yaml"
    text = ENTRY.replace("ARCHITECTURE", ARCHITECTURE).replace("SHA256", "null")
    path.write_text(text)
    assert robench("validate", path).code == 0
    path.write_text(text.replace(old, new))
    refused(robench("validate", path), 2, field, "must")
    asked = ("run", "--suite", "digits-adv", "--model", "mine", "--registry", path)
    refused(robench(*asked, "--dry-run"), 2, field, "must")


def test_validate_lists_fifty_problems_and_counts_all(robench: Robench, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("name: a\nversion: 1\nmetrics: [" + "x, " * 900 + "]\n")
    ended = robench("validate", path)
    refused(ended, 2, "more")
    assert len(ended.stderr.splitlines()) == 52
    ended = robench("validate", path, "--json")
    (result,) = json.loads(ended.stdout)
    assert result["num_problems"] >= 900
    assert f"{result['num_problems']:,} problems" in result["error"]


@pytest.mark.parametrize("command", ["validate", "run", "list"])
def test_a_pipe_is_refused_at_once_wherever_a_file_is_given(robench: Robench, tmp_path: Path, command: str) -> None:
    os.mkfifo(pipe := tmp_path / "pipe.yaml")
    arguments = {
        "validate": ("validate", pipe),
        "run": ("run", "--suite", pipe, "--model", "digits-vit"),
        "list": ("list", "models", "--registry", pipe),
    }[command]
    refused(robench(*arguments), 2, "pipe.yaml: it is a named pipe, not a regular file")


@pytest.mark.parametrize("name", ["records", "failures", "adversarial", "damaged"])
def test_a_file_in_place_of_a_folder_of_the_results_ends_a_run_with_2(
    robench: Robench, tmp_path: Path, name: str
) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / name).write_text("mine")
    refused(robench(*RUN, "--results", tmp_path / "results"), 2, "cannot be written: Not a directory", name)
    assert (tmp_path / "results" / name).read_text() == "mine"
