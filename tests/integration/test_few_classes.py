"""Sets of two and three classes: what needs more is refused before anything is measured, and what they have instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import save_file
from user_data import CLASSES, write_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def of_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], tuple[object, ...]]:
    """Return the options of a run on a folder of so many classes, whose number only the files tell."""

    def make(num_classes: int) -> tuple[object, ...]:
        write_folder(tmp_path / "data", num_images=24, side=16)
        for name in CLASSES[num_classes:]:
            (tmp_path / "data" / name).rename(tmp_path / f"left-out-{name}")
        monkeypatch.chdir(tmp_path)
        # A checkerboard, which scans enlarged by two do not move: all are of the first class, and anything fools them.
        board = (torch.arange(48 * 16) + torch.arange(48 * 16) // 16) % 2 - 0.5
        weight = torch.arange(num_classes)[:, None] * board
        save_file({"layer.weight": weight, "layer.bias": 0.01 * (weight[:, 0] == 0)}, tmp_path / "few.safetensors")
        (tmp_path / "registry.yaml").write_text(
            "datasets:\n  mine: {kind: image-folder, path: data}\n"
            "checkpoints:\n  tiny:\n"
            "    architecture: {backbone: python, target: 'tiny_models:Few',"
            f" arguments: {{num_classes: {num_classes}}}}}\n"
            "    weights: {uri: few.safetensors, sha256: null}\n"
            "    preprocessing: {kind: image, mean: [0.0, 0.0, 0.0], std: [1.0, 1.0, 1.0]}\n"
        )
        return "--registry", "registry.yaml", "--dataset", "mine", "--model", "tiny"

    return make


@pytest.mark.parametrize("is_dry", [True, False])
@pytest.mark.parametrize("num_classes", [2, 3])
def test_standard_autoattack_is_refused_before_anything_is_measured(
    robench: Any, of_classes: Callable[[int], tuple[object, ...]], tmp_path: Path, num_classes: int, is_dry: bool
) -> None:
    ended = robench("run", "--suite", "autoattack-standard", *of_classes(num_classes), *["--dry-run"] * is_dry)
    assert ended.code == 2
    assert (
        f"condition 'autoattack': variant must be few-classes or custom on mine, which has {num_classes} "
        in ended.stderr
    )
    assert "tries them again" not in ended.stderr
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.parametrize("num_classes", [2, 3, 4])
def test_the_suite_for_few_classes_measures_any_number(
    robench: Any, of_classes: Callable[[int], tuple[object, ...]], num_classes: int
) -> None:
    ended = robench("run", "--suite", "autoattack-few-classes", *of_classes(num_classes), "--smoke")
    assert (ended.code, ended.stdout.count("missing")) == (0, 0)
