"""Softmax on ListOps in its published size, by the recipe of the table, for 200 steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from robench.declare import read_registry, shipped_registry
from robench.training.base import EpochReport, Host
from robench.training.sequences_impl import train

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Robench


def test_200_steps_resumed_after_100_end_with_the_same_bytes(robench: Robench, tmp_path: Path) -> None:
    assert robench("data", "prepare", "listops", "--data-root", tmp_path).code == 0
    entry = read_registry(shipped_registry())["lra-listops-transformer"]

    def until(epoch: int, state: Path) -> list[EpochReport]:
        reports: list[EpochReport] = []

        def stop(report: EpochReport) -> None:
            reports.append(report)
            if report.epoch == epoch:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(entry, Host(data_root=tmp_path, state_path=state), stop)
        return reports

    # 50 steps an epoch.
    whole = until(4, tmp_path / "whole")
    parts = [*until(2, tmp_path / "parts"), *until(4, tmp_path / "parts")]
    assert [(each.loss_nats, each.validation) for each in parts] == [
        (each.loss_nats, each.validation) for each in whole
    ]
    assert same(*(torch.load(tmp_path / name, weights_only=True) for name in ("whole", "parts")))
    assert whole[-1].loss_nats < 2.5


def same(one: Any, other: Any) -> bool:
    """Return whether two nested values have equal types, members and bytes of tensors."""
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)
