"""Softmax on ListOps by the recipe of the table: 200 steps on short expressions, and some in the published size."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from robench.datasets import DATASETS
from robench.datasets.lra import LISTOPS, LISTOPS_SHORT
from robench.declare import read_registry, shipped_registry
from robench.training.base import EpochReport, Host
from robench.training.sequences_impl import train

ENTRY = read_registry(shipped_registry())["lra-listops-transformer"]
# The published lengths, and so few expressions that they are generated and scored at once.
FEW = replace(LISTOPS, num_examples=16, sizes=(256, 16, 16), sha256s=(), folder=None, reader=LISTOPS_SHORT.reader)


@pytest.mark.parametrize(
    ("dataset", "num_steps", "steps_per_epoch"),
    [(LISTOPS_SHORT, LISTOPS_SHORT.length, 50), (FEW, 2048, 1)],
    ids=["200 steps on up to 64 tokens", "4 steps on up to 1,999 tokens"],
)
def test_a_resumed_training_by_the_recipe_ends_with_the_same_bytes(
    dataset: Any, num_steps: int, steps_per_epoch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DATASETS.builtin.data, dataset.name, dataset)
    training: Any = ENTRY.training
    # The schedule is that of 5,000 steps, whatever an epoch is.
    total = training.num_epochs * training.steps_per_epoch
    entry = replace(
        ENTRY,
        architecture=replace(ENTRY.architecture, num_steps=num_steps),
        training=replace(
            training, dataset=dataset.name, steps_per_epoch=steps_per_epoch, num_epochs=total // steps_per_epoch
        ),
    )

    def until(epoch: int, state: Path) -> list[EpochReport]:
        reports: list[EpochReport] = []

        def stop(report: EpochReport) -> None:
            reports.append(report)
            if report.epoch == epoch:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(entry, Host(data_root=None, state_path=state), stop)
        return reports

    whole = until(4, tmp_path / "whole")
    parts = [*until(2, tmp_path / "parts"), *until(4, tmp_path / "parts")]
    assert [each.epoch for each in parts] == [1, 2, 3, 4]
    assert [(each.loss_nats, each.validation) for each in parts] == [
        (each.loss_nats, each.validation) for each in whole
    ]
    assert whole[-1].validation is not None
    assert same(*(torch.load(tmp_path / name, weights_only=True) for name in ("whole", "parts")))
    # Ten equally likely classes have 2.30 nats.
    assert whole[-1].loss_nats < (2.3 if steps_per_epoch == 50 else 2.5)


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
