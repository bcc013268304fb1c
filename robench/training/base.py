"""Base of the declarations of training, where and how it is computed, and what it tells about itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, cast

from annotated_types import Ge, Le

from robench.declarations.base import LARGEST, DeclarationBase

if TYPE_CHECKING:
    from pathlib import Path

Count = Annotated[int, Ge(1), Le(LARGEST)]
NotNegative = Annotated[float, Ge(0), Le(LARGEST)]
Share = Annotated[float, Ge(0), Le(1)]


class TrainingBase(DeclarationBase):
    """Declaration of how a published checkpoint was trained, so that it can be trained again.

    The implementation is a function ``(checkpoint, host, on_epoch) -> dict[str, Tensor]``: the state dict on the CPU. A
    declaration has the fields ``dataset``, ``num_epochs`` and ``seed``.

    Attributes:
        is_embedded: the data are embedded in a library. Training needs no data on disk, computes on the CPU in whole
            batches and writes the weights, which come with robench, anew in their place.
    """

    is_embedded: ClassVar[bool] = False

    dataset: str
    num_epochs: int
    seed: int

    def shortened(self, num_epochs: int) -> Self:
        """Return the training with so many epochs in all."""
        # Any: a declaration is a dataclass, which its base cannot say.
        return cast("Self", replace(cast("Any", self), num_epochs=num_epochs))

    def seeded(self, seed: int) -> Self:
        """Return the training with another seed."""
        return cast("Self", replace(cast("Any", self), seed=seed))


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Where and how a training is computed.

    Attributes:
        micro_batch_size: examples that pass through the model at once; gradients add up to those of a whole batch. None
            for the whole batch. Only the last bits depend on it, and models that normalise over a batch.
        decode_workers: processes that decode and augment images, 0 for none beside this one; no byte depends on them.
        state_path: what an interrupted training goes on from, None to keep nothing.
    """

    data_root: Path | None
    device: str = "cpu"
    micro_batch_size: int | None = None
    decode_workers: int = 0
    state_path: Path | None = None


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
