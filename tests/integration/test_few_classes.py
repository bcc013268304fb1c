"""Sets of two and three classes: what needs more is refused before anything is measured, and what they have instead."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import write_few


@pytest.fixture
def of_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], tuple[str, ...]]:
    """Return the options of a run on a file of so many classes, whose number it alone tells."""
    monkeypatch.chdir(tmp_path)
    # A checkerboard, which scans enlarged by two do not move: all are of the first class, and anything fools them.
    board = (torch.arange(48 * 16) + torch.arange(48 * 16) // 16) % 2 - 0.5
    return lambda num_classes: write_few(tmp_path, torch.arange(num_classes)[:, None] * board)


@pytest.mark.parametrize(("num_classes", "is_dry"), [(2, True), (3, False)])
def test_standard_autoattack_is_refused_before_anything_is_measured(
    robench: Any, of_classes: Callable[[int], tuple[str, ...]], tmp_path: Path, num_classes: int, is_dry: bool
) -> None:
    ended = robench("run", "--suite", "autoattack-standard", *of_classes(num_classes), *["--dry-run"] * is_dry)
    assert ended.code == 2
    assert (
        f"condition 'autoattack': variant must be few-classes or custom on mine, which has {num_classes} "
        in ended.stderr
    )
    assert "tries them again" not in ended.stderr
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.parametrize("num_classes", [2, 3, pytest.param(4, marks=pytest.mark.slow)])
def test_the_suite_for_few_classes_measures_any_number(
    robench: Any, of_classes: Callable[[int], tuple[str, ...]], num_classes: int
) -> None:
    ended = robench("run", "--suite", "autoattack-few-classes", *of_classes(num_classes), "--smoke")
    assert (ended.code, ended.stdout.count("missing")) == (0, 0)
