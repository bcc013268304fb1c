"""Training of image classifiers on a dataset held in memory: one cycle of the learning rate, random crops and flips.

AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101) with the cycle of Smith & Topin 2018, arXiv:1708.07120: a linear
ascent and half a cosine down. The order of the images, their augmentation and all other draws of an epoch begin at
seeds of that epoch. A training resumed after any epoch thus gives the bytes of an uninterrupted one, on one kind of
CPU and one release of torch.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from robench.core.checkpoint import Checkpoint
from robench.core.errors import DeclarationError
from robench.core.identity import key_of
from robench.core.protocols import Dataset
from robench.datasets import open_dataset
from robench.declarations.preprocessing import ImagePreprocessing
from robench.models.build import build
from robench.models.loaded import normalisation_of
from robench.training.base import EpochReport, Host
from robench.training.epochs import Learner, Part, Validation, run_epochs, split_rows, validation_on
from robench.training.images import OneCycleTraining
from robench.training.optimization import (
    UNDECAYED,
    adamw,
    adversarial,
    check_auxiliary,
    fraction_of_peak,
    noisy,
    reproducible,
    seed_for,
    set_learning_rate,
)

# Examples read at a time, so that floats of the whole dataset are never in memory.
_ROWS_READ = 1000


def train(
    checkpoint: Checkpoint, host: Host, on_epoch: Callable[[EpochReport], None] = lambda report: None
) -> dict[str, Tensor]:
    """Train ``checkpoint`` from scratch or from its stored state, and return the state dict on the CPU.

    The caller's random generators and number of threads are restored.
    """
    training, preprocessing = checkpoint.training, checkpoint.preprocessing
    if not isinstance(training, OneCycleTraining) or not isinstance(preprocessing, ImagePreprocessing):
        raise DeclarationError(
            f"checkpoint {checkpoint.name!r} has no 'training' of kind 'one-cycle' on images; add it to its entry"
        )
    device = torch.device(host.device)
    with reproducible(training.seed, device):
        model = build(checkpoint.architecture).to(device)
        dataset = open_dataset(training.dataset, data_root=host.data_root, preprocessing=preprocessing, split="train")
        images = ImagesInMemory(dataset, device)
        learner = OneCycleLearner(model, training, preprocessing, images, host)
        score = (
            Validation(Part(images.batch, learner.held_out), preprocessing, device).scores
            if len(learner.held_out)
            else validation_on(training.dataset, preprocessing, data_root=host.data_root, device=device)
        )
        return run_epochs(
            learner,
            host=host,
            key=key_of([checkpoint.architecture, preprocessing, training, dataset.identity.fingerprint]),
            score=score,
            on_epoch=on_epoch,
        )


class ImagesInMemory:
    """All images of a dataset (N, H, W, C) with their classes (N,); 8-bit images take a byte per value."""

    def __init__(self, dataset: Dataset, device: torch.device) -> None:
        images, targets = [], []
        for start in range(0, len(dataset), _ROWS_READ):
            batch = dataset.batch(start, min(start + _ROWS_READ, len(dataset)))
            levels = (batch.inputs * 255).round().to(torch.uint8)
            is_exact = bool((levels.to(torch.float32).div(255) == batch.inputs).all())
            images.append((levels if is_exact else batch.inputs).permute(0, 2, 3, 1))
            targets.append(batch.targets)
        # Unless all images are 8-bit images, all are floats.
        are_bytes = all(part.dtype == torch.uint8 for part in images)
        parts = images if are_bytes else [_floats(part) for part in images]
        self._images = torch.cat(parts).to(device)
        self.targets = torch.cat(targets).to(device)

    def __len__(self) -> int:
        return len(self.targets)

    def batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return images (B, C, H, W) in [0, 1] and classes (B,) of the given rows."""
        return _channels_first(self._images[rows]), self.targets[rows]

    def pixels(self, row: int) -> NDArray[np.uint8]:
        """Return one image (H, W, C) in 8 bits."""
        image = self._images[row]
        found: NDArray[np.uint8] = (image if image.dtype == torch.uint8 else (image * 255).round().byte()).numpy()
        return found

    def augmented(self, rows: Tensor, padding: int, *, flip: bool, generator: torch.Generator) -> Tensor:
        """Return randomly cropped and flipped images (B, C, H, W) in [0, 1] of the given rows, all in one step.

        ``padding`` is the width of the black border before the crop, in pixels; half of the images are mirrored with
        ``flip``. The generator, on the CPU, draws two numbers per image for the crop and one for the flip, if used.
        """
        images = self._images[rows]
        num_images, height, width, _ = images.shape
        top = left = torch.zeros(num_images, dtype=torch.int64)
        if padding:
            top, left = torch.randint(0, 2 * padding + 1, (2, num_images), generator=generator)
            images = pad(images, (0, 0, padding, padding, padding, padding))
        lines, columns = top[:, None] + torch.arange(height), left[:, None] + torch.arange(width)
        if flip:
            is_flipped = torch.rand(num_images, generator=generator) < 0.5
            columns = torch.where(is_flipped[:, None], columns.flip(1), columns)
        lines, columns = lines.to(images.device), columns.to(images.device)
        index = torch.arange(num_images, device=images.device)[:, None, None]
        return _channels_first(images[index, lines[:, :, None], columns[:, None, :]])


class OneCycleLearner(Learner):
    """Model in training on images in memory, but for the rows ``held_out``."""

    def __init__(
        self,
        model: nn.Module,
        training: OneCycleTraining,
        preprocessing: ImagePreprocessing,
        images: ImagesInMemory,
        host: Host,
    ) -> None:
        decayed = [value for name, value in model.named_parameters() if value.ndim >= 2 and name not in UNDECAYED]
        optimizer = adamw(
            model.parameters(), decayed, learning_rate=training.learning_rate, weight_decay=training.weight_decay
        )
        super().__init__(model, training, optimizer, host)
        self._images = images
        self._rows, self.held_out = split_rows(len(images), training.held_out, training.seed)
        self.num_examples = len(self._rows)
        self._mean, self._std = normalisation_of(preprocessing, self._device)
        first, _ = images.batch(torch.arange(min(2, len(images))))
        check_auxiliary(model, self._normalised(first), training.auxiliary_weight)

    def epoch(self, epoch: int) -> tuple[float, int]:
        """Train for an epoch (0-based); return the mean loss in nats and the number of images."""
        training, num_images = self.training, len(self._rows)
        torch.manual_seed(seed_for(training.seed, "model", epoch))
        generator = torch.Generator().manual_seed(seed_for(training.seed, "images", epoch))
        batches = self._rows[torch.randperm(num_images, generator=generator)].split(training.batch_size)
        total = torch.zeros((), device=self._mean.device)
        for step, rows in enumerate(batches):
            done = (epoch + step / len(batches)) / training.num_epochs
            set_learning_rate(self._optimizer, training.learning_rate * fraction_of_peak(done, training.warmup))
            total += self._learned(rows, generator) * len(rows)
        return float(total) / num_images, num_images

    def _learned(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        training = self.training
        images = self._images.augmented(rows, training.crop_padding, flip=training.flip, generator=generator)
        images = noisy(images, training.noise_scale, generator, limits=None)
        targets = self._images.targets[rows.to(images.device)]

        def loss_at(points: Tensor) -> Tensor:
            return cross_entropy(self.model(self._normalised(points)), targets)

        points = adversarial(images, loss_at, training, generator)
        loss_of = partial(cross_entropy, label_smoothing=training.label_smoothing)
        return self.step(self.model, self._normalised(points), targets, loss_of)

    def _normalised(self, images: Tensor) -> Tensor:
        return (images - self._mean) / self._std


def _floats(images: Tensor) -> Tensor:
    return images.to(torch.float32).div(255) if images.dtype == torch.uint8 else images


def _channels_first(images: Tensor) -> Tensor:
    return _floats(images).permute(0, 3, 1, 2).contiguous()
