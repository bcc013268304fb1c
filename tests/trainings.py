"""What tests of trainings share: equality of weights, and interruptions."""

from collections.abc import Callable

import torch
from torch import Tensor

from robench.training.base import EpochReport


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    """Return whether names, types and numbers of weights are equal."""
    return first.keys() == second.keys() and all(
        first[name].dtype == second[name].dtype and torch.equal(first[name], second[name]) for name in first
    )


def interrupt_after(epoch: int | None = None) -> Callable[[EpochReport], None]:
    """Return what interrupts a training after an epoch, or after every one."""

    def interrupt(report: EpochReport) -> None:
        if epoch in (None, report.epoch):
            raise KeyboardInterrupt

    return interrupt
