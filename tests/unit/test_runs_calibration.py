"""Calibrations: what is timed, where it is kept, and what of a file is believed."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from robench.core.errors import RobenchError
from robench.datasets import open_dataset
from robench.declare import find_checkpoints
from robench.evaluation.arithmetic import device_kind
from robench.runs import calibration as module
from robench.runs.calibration import (
    Calibration,
    calibrate,
    calibrated,
    calibrations,
    flops_of,
    flops_of_a_pass,
    speed_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Robench

CPU = device_kind(torch.device("cpu"))
KEPT = Calibration(
    device="some device",
    seconds_per_flop=1e-12,
    matmul_flops=1e13,
    startup_seconds=3.5,
    at="2026-11-23T15:00:00+00:00",
    versions={"torch": "2.15.0"},
)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "folder" / "calibration.json"
    monkeypatch.setenv("ROBENCH_CALIBRATION", str(path))
    monkeypatch.setattr(module, "SECONDS_EACH", 0.0)
    return path


def kept_in(file: Path, *entries: object) -> None:
    file.parent.mkdir()
    file.write_text(json.dumps({str(number): each for number, each in enumerate(entries)}))


def test_a_product_of_matrices_has_two_operations_a_term() -> None:
    left, right = torch.rand(3, 5), torch.rand(5, 7)
    assert flops_of_a_pass(lambda: left @ right) == 2 * 3 * 5 * 7
    layer = nn.Linear(5, 7)
    assert flops_of_a_pass(lambda: layer(left)) == 2 * 3 * 5 * 7


def test_operations_of_a_model_are_those_of_its_layers() -> None:
    (checkpoint,) = find_checkpoints(["digits-vit"], [])
    declared = checkpoint.trained_on
    dataset = open_dataset(declared, data_root=None, preprocessing=checkpoint.preprocessing)
    found = flops_of(checkpoint, dataset_of(declared), dataset)
    assert found is not None
    # More than the linear layers alone: every parameter of theirs serves each token.
    assert 1e6 < found < 1e8


def test_operations_that_cannot_be_counted_are_unknown() -> None:
    (checkpoint,) = find_checkpoints(["digits-vit"], [])
    dataset = open_dataset("digits", data_root=None, preprocessing=checkpoint.preprocessing)

    class Failing(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            raise RuntimeError

    assert flops_of(checkpoint, dataset_of("digits"), dataset, Failing()) is None


def dataset_of(name: str | None):  # type: ignore[no-untyped-def]  # a declaration
    from robench.declare import find_datasets

    assert name is not None
    return find_datasets(())[name]


def test_what_is_timed_is_kept_beside_other_devices(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_startup_seconds", lambda: 2.5)
    kept_in(file, asdict(KEPT))
    threads = torch.get_num_threads()
    found = calibrate("cpu")
    assert torch.get_num_threads() == threads
    assert calibrations() == {CPU: found, "some device": KEPT}
    assert calibrated(CPU) == found
    assert (found.device, found.startup_seconds) == (CPU, 2.5)
    # A pass forward and backward takes longer than its forward operations at the speed of a product of matrices.
    assert found.seconds_per_flop * found.matmul_flops > 1
    # A pass in both directions takes as long as 2.3 forward passes.
    assert speed_of("cpu") == pytest.approx(2.3 / found.seconds_per_flop)
    assert found.versions["torch"]
    assert [path.name for path in file.parent.iterdir()] == ["calibration.json"]
    file.unlink()
    assert speed_of("cpu") is None


@pytest.mark.parametrize(
    "entry",
    [
        None,
        "text",
        {"device": "x"},
        {**asdict(KEPT), "more": 1},
        {**asdict(KEPT), "seconds_per_flop": 0},
        {**asdict(KEPT), "seconds_per_flop": "1"},
        {**asdict(KEPT), "startup_seconds": float("inf")},
        {**asdict(KEPT), "matmul_flops": float("nan")},
        {**asdict(KEPT), "device": 3},
        {**asdict(KEPT), "versions": []},
    ],
)
def test_entries_that_are_no_calibration_are_left_out(file: Path, entry: object) -> None:
    kept_in(file, entry, asdict(KEPT))
    assert calibrations() == {"some device": KEPT}


@pytest.mark.parametrize("content", ["", "[]", "{", "3", "\udcff"])
def test_a_file_that_is_none_is_as_if_it_were_absent(file: Path, content: str) -> None:
    assert calibrations() == {}
    file.parent.mkdir()
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    assert calibrations() == {}


def test_a_folder_that_cannot_be_written_is_an_error(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_startup_seconds", lambda: 2.5)
    file.parent.write_text("a file")
    with pytest.raises(RobenchError, match=r"cannot be written.*name another file by ROBENCH_CALIBRATION"):
        calibrate("cpu")


def test_the_home_folder_has_the_file_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROBENCH_CALIBRATION")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert module.calibration_file() == tmp_path / ".cache" / "robench" / "calibration.json"


def test_a_worker_s_start_takes_time() -> None:
    assert module._startup_seconds() > 0


def test_doctor_calibrates_and_shows_it(
    robench: Robench, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_startup_seconds", lambda: 2.5)
    asked = ("doctor", "--results", tmp_path / "r", "--data-root", tmp_path)
    assert "'robench doctor --calibrate' times a device" in robench(*asked).stdout
    shown = robench(*asked, "--calibrate").stdout
    (line,) = [line for line in shown.splitlines() if "calibration" in line and "GFLOP/s" in line]
    found = calibrated(CPU)
    assert found is not None
    assert "workers start in 2.5 s" in line
    assert f"{found.matmul_flops / 1e9:,.1f} in products of matrices" in line
    kept_in_file = json.loads(file.read_text())[CPU]
    assert replace(found, **kept_in_file) == found
