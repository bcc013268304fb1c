"""Components of DeiT's recipe from timm: optimiser, learning rate schedule, mixing.

Where this differs from facebookresearch/deit, main.py: epoch e has the learning rate of the schedule at e, where the
authors' code steps the schedule with the epoch that has ended and so has it one epoch later. Examples are mixed in
groups of a declared size, by default 256: the part of a batch on each of the four GPUs of the authors' README.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from timm.data.mixup import Mixup, mixup_target
from timm.optim._param_groups import param_groups_weight_decay
from timm.scheduler.cosine_lr import CosineLRScheduler

from robench.training.optimization import UNDECAYED
from robench.training.randomness import seeded

if TYPE_CHECKING:
    from torch import Tensor, nn

    from robench.training.deit import DeitTraining


def optimizer_of(model: nn.Module, training: DeitTraining) -> torch.optim.Optimizer:
    """Return AdamW (Loshchilov & Hutter 2019) with weight decay for all but vectors, biases, positions and tokens."""
    groups = param_groups_weight_decay(model, training.weight_decay, no_weight_decay_list=UNDECAYED)
    peak = training.learning_rate * training.batch_size / training.learning_rate_batch_size
    return torch.optim.AdamW(groups, lr=peak)


def schedule_of(optimizer: torch.optim.Optimizer, training: DeitTraining) -> CosineLRScheduler:
    """Return the scheduler that sets an epoch's learning rates by ``step(epoch)``: linear warm-up and cosine decay.

    After the cosine, in the cool-down, they stay at the minimum.
    """
    return CosineLRScheduler(
        optimizer,
        t_initial=training.num_epochs,
        lr_min=training.min_learning_rate,
        warmup_t=training.warmup_epochs,
        warmup_lr_init=training.warmup_learning_rate,
    )


class Mixing:
    """Mixing of each group of a batch with its reverse, by mixup or cutmix, with one proportion per group."""

    def __init__(self, training: DeitTraining, num_classes: int) -> None:
        self._num_classes = num_classes
        self._smoothing = training.label_smoothing
        self._group_size = training.mixing_group_size
        self._mixup = None
        if training.mixup or training.cutmix:
            self._mixup = Mixup(  # type: ignore[no-untyped-call]  # timm's
                mixup_alpha=training.mixup,
                cutmix_alpha=training.cutmix,
                label_smoothing=training.label_smoothing,
                num_classes=num_classes,
            )

    def __call__(self, images: Tensor, classes: Tensor, seed: int) -> Tensor:
        """Mix ``images`` (B, 3, H, W) in place; return the targets (B, num_classes) of their ``classes`` (B,)."""
        if self._mixup is None:
            targets: Tensor = mixup_target(classes, self._num_classes, 1.0, self._smoothing)  # type: ignore[no-untyped-call]  # timm's
            return targets
        with seeded(seed):
            groups = zip(images.split(self._group_size), classes.split(self._group_size), strict=True)
            # timm's batch mode writes into the images that it is given, here views of the batch.
            return torch.cat([self._mixup(*group)[1] for group in groups])
