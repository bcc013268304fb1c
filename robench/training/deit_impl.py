"""Training by DeiT's recipe, from images in a folder or in memory, on one device.

Source: Touvron et al. 2021, arXiv:2012.12877, table 9, and facebookresearch/deit, main.py and engine.py; the authors
use mixed precision on several GPUs. An interrupted training resumes after the last complete epoch; on one kind of CPU
and one release of torch it then gives the same bytes as an uninterrupted one.

Where this differs from main.py: epoch e has the learning rate of the schedule at e, where the authors' code steps the
schedule with the epoch that has ended and so has it one epoch later. Examples are mixed in groups of a declared size,
by default 256: the part of a batch on each of the four GPUs of the authors' README.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from timm.data.mixup import Mixup, mixup_target
from timm.loss.cross_entropy import SoftTargetCrossEntropy
from timm.optim._param_groups import param_groups_weight_decay
from timm.scheduler.cosine_lr import CosineLRScheduler
from timm.utils.model_ema import ModelEmaV3
from torch import Tensor, nn

from robench.core.checkpoint import Checkpoint
from robench.core.errors import DeclarationError, UsageError
from robench.core.identity import key_of
from robench.datasets import DATASETS
from robench.declarations.preprocessing import ImagePreprocessing
from robench.models.build import build
from robench.training.base import EpochReport, Host
from robench.training.deit import DeitTraining
from robench.training.distillation_impl import LoadedTeacher, TwoHeaded
from robench.training.epochs import Learner, run_epochs, validation_on
from robench.training.folder_images import EpochKeys, TrainingImages, batches
from robench.training.optimization import UNDECAYED, check_auxiliary, evaluating, reproducible, seed_for, seeded


def train_deit(
    checkpoint: Checkpoint, host: Host, on_epoch: Callable[[EpochReport], None] = lambda report: None
) -> dict[str, Tensor]:
    """Train ``checkpoint`` from scratch or from its stored state, and return the state dict on the CPU.

    The caller's random generators and number of threads are restored.
    """
    training, preprocessing = checkpoint.training, checkpoint.preprocessing
    if not isinstance(training, DeitTraining) or not isinstance(preprocessing, ImagePreprocessing):
        raise DeclarationError(f"checkpoint {checkpoint.name!r} has no 'training' of kind 'deit'; add it to its entry")
    device = torch.device(host.device)
    with reproducible(training.seed, device):
        model = build(checkpoint.architecture, training.drop_path_rate).to(device)
        _check_fit(checkpoint.name, model, training, preprocessing, device)
        teacher = _teacher(checkpoint, training, preprocessing, device)
        outputs_of = model if teacher is None else TwoHeaded(model, checkpoint.name)
        images = TrainingImages(host.data_root, training, preprocessing)
        _check_size(training, images)

        # An entry may leave the digest of its teacher open.
        digests = [] if teacher is None else [teacher.digest]

        def batches_of(epoch: int) -> Iterator[list[Tensor]]:
            keys = EpochKeys(images, training, epoch)
            return batches(keys, images, host.decode_workers, pin=device.type == "cuda")

        learner = DeitLearner(model, training, host, batches_of, outputs_of, teacher)
        learner.num_examples = len(images) // training.batch_size * training.batch_size
        return run_epochs(
            learner,
            host=host,
            key=key_of([checkpoint.architecture, preprocessing, training, len(images), *digests]),
            score=validation_on(
                training.dataset,
                preprocessing,
                data_root=host.data_root,
                device=device,
                decode_workers=host.decode_workers,
            ),
            on_epoch=on_epoch,
        )


class DeitLearner(Learner):
    """Model in training by the recipe.

    Args:
        batches_of: from an epoch (0-based) to its batches: images (B, 3, H, W) and classes (B,), on the CPU.
        outputs_of: what learns: the model, or both heads of it where the distillation token has a ``teacher``.
    """

    def __init__(
        self,
        model: nn.Module,
        training: DeitTraining,
        host: Host,
        batches_of: Callable[[int], Iterator[list[Tensor]]],
        outputs_of: Callable[..., Tensor],
        teacher: LoadedTeacher | None = None,
    ) -> None:
        super().__init__(model, training, optimizer_of(model, training), host)
        self._batches_of, self._outputs_of, self._teacher = batches_of, outputs_of, teacher
        self._schedule = schedule_of(self._optimizer, training)
        self._average = None if training.ema_decay is None else ModelEmaV3(model, decay=training.ema_decay)
        num_classes = DATASETS[training.dataset].num_classes
        assert num_classes is not None  # of all published images
        self._mixing = Mixing(training, num_classes)
        self._loss = SoftTargetCrossEntropy()  # type: ignore[no-untyped-call]  # timm's

    def epoch(self, epoch: int) -> tuple[float, int]:
        """Train for an epoch (0-based); return the mean loss in nats and the number of images."""
        seed = self.training.seed
        # Every epoch from its own seed, so that a resumed training draws the same numbers as an uninterrupted one.
        torch.manual_seed(seed_for(seed, "model", epoch))
        self._schedule.step(epoch)
        total, num_batches = torch.zeros((), device=self._device), 0
        for batch in self._batches_of(epoch):
            images, classes = (each.to(self._device, non_blocking=True) for each in batch)
            targets = self._mixing(images, classes, seed_for(seed, "mixing", epoch, num_batches))
            if self._teacher is not None:
                targets = self._teacher.targets(images, targets, self._micro_batch_size, self._precision)
            total += self.step(self._outputs_of, images, targets, self._loss)
            if self._average is not None:
                self._average.update(self.model)
            num_batches += 1
        return float(total) / num_batches, num_batches * self.training.batch_size

    def parts(self) -> dict[str, dict[str, Any]]:
        """Return state dicts of everything that changes, for ``restore``."""
        return {**super().parts(), "average": {} if self._average is None else self._average.module.state_dict()}

    def restore(self, parts: dict[str, dict[str, Any]]) -> None:
        """Restore the state from ``parts``."""
        super().restore(parts)
        if self._average is not None:
            self._average.module.load_state_dict(parts["average"])

    @property
    def published(self) -> nn.Module:
        """Return the model that is published: the trained one, or the moving average of its weights."""
        if self.training.published == "average" and self._average is not None:
            averaged: nn.Module = self._average.module
            return averaged
        return self.model


def _check_fit(
    name: str, model: nn.Module, training: DeitTraining, preprocessing: ImagePreprocessing, device: torch.device
) -> None:
    """Run the model on two black images before any is read, since reading a million takes long."""
    side, num_classes = training.side_of(preprocessing.crop) or 1, DATASETS[training.dataset].num_classes
    images = torch.zeros(2, 3, side, side, device=device)
    try:
        with evaluating(model, device):
            shape = tuple(model(images).shape)
    # Broad because any error of a model on images of another size means that it does not fit.
    except Exception as error:
        raise DeclarationError(f"model {name!r} cannot take images of {side}x{side} pixels: {error}") from error
    if shape != (2, num_classes):
        raise DeclarationError(
            f"model {name!r} gives {shape} for 2 images, but dataset {training.dataset!r} has {num_classes} classes"
        )
    check_auxiliary(model, images, training.auxiliary_weight)


def _teacher(
    checkpoint: Checkpoint, training: DeitTraining, preprocessing: ImagePreprocessing, device: torch.device
) -> LoadedTeacher | None:
    """Return the declared teacher, after it has seen two black images."""
    if training.teacher is None:
        return None
    teacher, side = LoadedTeacher(training.teacher, checkpoint, device), training.side_of(preprocessing.crop) or 1
    num_classes = DATASETS[training.dataset].num_classes
    assert num_classes is not None  # of all published images
    teacher.check_fit(torch.zeros(2, 3, side, side, device=device), num_classes)
    return teacher


def _check_size(training: DeitTraining, images: TrainingImages) -> None:
    num_batches = len(EpochKeys(images, training, epoch=0))
    if not num_batches:
        raise UsageError(
            f"an epoch of {len(images)} training images is less than one batch of {training.batch_size}; add images, or"
            " lower batch_size in the entry's training"
        )


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
