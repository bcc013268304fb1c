"""How a published checkpoint was trained, so that it can be trained again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt, Le

from robench.declarations.base import DeclarationBase

Count = Annotated[int, Ge(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Training(DeclarationBase):
    """AdamW with linear warm-up and cosine decay on one dataset's training split.

    Attributes:
        learning_rate: peak; ``weight_decay``: of weights of two or more axes.
        warmup_epochs: epochs over which the learning rate rises from zero.
        max_shift: images are moved by up to this many pixels in each direction, anew each epoch.
        noise_scale: standard deviation, in pixel units, of Gaussian noise added anew each epoch.
        label_smoothing: share of the target spread over all classes.
    """

    kind: ClassVar[str] = "training"

    dataset: str
    seed: Annotated[int, Ge(0)]
    num_epochs: Count
    batch_size: Count
    learning_rate: Annotated[float, Gt(0)]
    weight_decay: Annotated[float, Ge(0)] = 0.05
    warmup_epochs: Annotated[int, Ge(0)] = 2
    max_shift: Annotated[int, Ge(0)] = 0
    noise_scale: Annotated[float, Ge(0)] = 0.0
    label_smoothing: Annotated[float, Ge(0), Le(1)] = 0.0
