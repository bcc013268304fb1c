"""What training tells about itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochReport:
    """How training goes: epochs done of ``num_epochs``, and the epoch's mean loss and speed.

    Attributes:
        loss_nats: as the optimiser met it, label smoothing, mixing and what layers asked for included.
    """

    epoch: int
    num_epochs: int
    loss_nats: float
    examples_per_second: float
