"""Training of segmentation models: random scale, crop, flip and colours of each image, and the mean loss of its pixels.

The augmentation is that of mmsegmentation 0.x, which Segmenter's code uses: RandomResize, RandomCrop with a largest
proportion of one class, RandomFlip and PhotoMetricDistortion. It is drawn from a generator that begins at a seed of the
recipe's seed, the epoch and the image's position in it, so that neither the number of decoding processes nor an
interruption changes a byte. Where that code resizes the published image once, this resizes the dataset's example, which
a model's preprocessing may have resized before.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, interpolate, pad
from torch.utils.data import DataLoader

from robench.core.errors import DeclarationError, MissingDataError
from robench.core.identity import key_of
from robench.datasets import DATASETS, open_dataset
from robench.declarations.preprocessing import ImagePreprocessing
from robench.models.build import build
from robench.models.loaded import normalisation_of
from robench.models.loading import Named, load_strictly, resolve_file
from robench.models.segmenter_impl import SegmenterModel, encoder_state_from
from robench.models.state_files import load_state
from robench.tasks.segmentation import IGNORED
from robench.tasks.segmentation_impl import confusion
from robench.tasks.segmentation_losses_impl import pixel_cross_entropy
from robench.training.base import ValidationScores
from robench.training.epochs import Learner, check_classes, run_epochs
from robench.training.optimization import check_auxiliary, evaluating, reproducible, seed_for, set_learning_rate
from robench.training.segmentation import SegmentationTraining

if TYPE_CHECKING:
    from collections.abc import Callable

    from robench.core.checkpoint import Checkpoint, Weights
    from robench.core.protocols import Dataset
    from robench.training.base import EpochReport, Host

POWER = 0.9
MOMENTUM = 0.9
# PhotoMetricDistortion, in parts of the range of a value.
BRIGHTNESS, CONTRAST, SATURATION, HUE = 32 / 255, (0.5, 1.5), (0.5, 1.5), 18 / 180
MOST_CROPS = 10
_SCORED_AT_ONCE = 16


def train(
    checkpoint: Checkpoint, host: Host, on_epoch: Callable[[EpochReport], None] = lambda report: None
) -> dict[str, Tensor]:
    """Train ``checkpoint`` from scratch or from its stored state, and return the state dict on the CPU.

    The caller's random generators and number of threads are restored.
    """
    training, preprocessing = checkpoint.training, checkpoint.preprocessing
    if not isinstance(training, SegmentationTraining) or not isinstance(preprocessing, ImagePreprocessing):
        raise DeclarationError(
            f"checkpoint {checkpoint.name!r} has no 'training' of kind 'segmentation-training' on images; add it to its"
            " entry"
        )
    check_classes(checkpoint)
    device = torch.device(host.device)
    opened = partial(open_dataset, training.dataset, data_root=host.data_root, preprocessing=preprocessing)
    with reproducible(training.seed, device):
        model = build(checkpoint.architecture, training.drop_path)
        initial = None if training.initial_weights is None else start_from(model, training.initial_weights, checkpoint)
        dataset = opened(split="train")
        try:
            scored = opened()
        except MissingDataError:
            scored = None
        learner = MaskLearner(model.to(device), training, preprocessing, dataset, host)
        return run_epochs(
            learner,
            host=host,
            key=key_of([checkpoint.architecture, preprocessing, training, dataset.identity.fingerprint, initial]),
            score=None if scored is None else partial(learner.scores, scored),
            on_epoch=on_epoch,
        )


def start_from(model: nn.Module, initial: Weights, checkpoint: Checkpoint) -> str:
    """Give the encoder the weights of a classifier, its positions interpolated; return the digest of their file.

    Raises:
        DeclarationError: the model has no encoder, or one whose parameters depend on the number of tokens.
        WeightsError: the file is missing, or not of such a classifier.
    """
    if not isinstance(model, SegmenterModel):
        raise DeclarationError(
            f"checkpoint {checkpoint.name!r} has training.initial_weights, those of a classifier, and its model is not"
            " a segmenter; leave them out"
        )
    named = Named(checkpoint.name, field="training.initial_weights", noun="initial weights")
    path, digest = resolve_file(initial, checkpoint.folder, named)
    state = encoder_state_from(load_state(path, initial), model)
    load_strictly(model, state, f"{path} (initial weights of {checkpoint.name})")
    return digest


class Augmented(torch.utils.data.Dataset[tuple[Tensor, Tensor]]):
    """Augmented examples by (index, seed): an image (3, crop, crop) in [0, 1] and its mask (crop, crop)."""

    def __init__(self, dataset: Dataset, training: SegmentationTraining, fill: Tensor) -> None:
        self._dataset, self._training, self._fill = dataset, training, fill

    def __getitem__(self, key: tuple[int, int]) -> tuple[Tensor, Tensor]:
        index, seed = key
        batch = self._dataset.batch(index, index + 1)
        generator = torch.Generator().manual_seed(seed)
        return augmented(batch.inputs[0], batch.targets[0], self._training, self._fill, generator)


def augmented(
    image: Tensor, mask: Tensor, training: SegmentationTraining, fill: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return a random crop of an image (3, H, W) and of its mask, with changed colours; ``fill`` (3,) pads it."""
    uniform = partial(_uniform, generator)
    scale = uniform(*training.scales)
    size = tuple(max(1, round(side * scale)) for side in image.shape[1:])
    if size != tuple(image.shape[1:]):
        image = interpolate(image[None], size=size, mode="bilinear", align_corners=False)[0]
    if size != tuple(mask.shape):
        mask = interpolate(mask[None, None].double(), size=size, mode="nearest")[0, 0].long()
    top, left = _corner(mask, training, generator)
    side = training.crop_size
    image, mask = (each[..., top : top + side, left : left + side] for each in (image, mask))
    if training.flip and uniform(0, 1) < 0.5:
        image, mask = image.flip(-1), mask.flip(-1)
    if training.distortion:
        image = distorted(image, generator)
    missing = (0, side - image.shape[2], 0, side - image.shape[1])
    if any(missing):
        inside = pad(torch.ones_like(image[:1]), missing)
        image = pad(image, missing) + (1 - inside) * fill[:, None, None]
        mask = pad(mask, missing, value=IGNORED)
    return image.contiguous(), mask.contiguous()


def _uniform(generator: torch.Generator, low: float, high: float) -> float:
    return low + (high - low) * float(torch.rand((), generator=generator))


def _corner(mask: Tensor, training: SegmentationTraining, generator: torch.Generator) -> tuple[int, int]:
    """Return the upper left corner of a crop in which no class has too many pixels, or of the tenth one."""
    side = training.crop_size
    top = left = 0
    for _ in range(MOST_CROPS):
        top, left = (int(torch.randint(0, max(length - side, 0) + 1, (), generator=generator)) for length in mask.shape)
        counts = torch.bincount(mask[top : top + side, left : left + side].flatten() + 1)[1:]
        if int((counts > 0).sum()) > 1 and counts.max() < training.largest_class * counts.sum():
            break
        if training.largest_class >= 1:
            break
    return top, left


def distorted(image: Tensor, generator: torch.Generator) -> Tensor:
    """Change brightness, contrast, saturation and hue of an image (3, H, W), each with probability 1/2.

    Contrast is changed before saturation and hue, or after them, with equal probability. Values are clipped to [0, 1]
    and rounded to 8 bits after each change.
    """
    uniform = partial(_uniform, generator)

    def is_chosen() -> bool:
        return uniform(0, 1) < 0.5

    def rounded(values: Tensor) -> Tensor:
        return (values.clamp(0, 1) * 255).floor() / 255

    if is_chosen():
        image = rounded(image + uniform(-BRIGHTNESS, BRIGHTNESS))
    contrast_is_first = is_chosen()
    if contrast_is_first and is_chosen():
        image = rounded(image * uniform(*CONTRAST))
    saturation = uniform(*SATURATION) if is_chosen() else 1.0
    hue = uniform(-HUE, HUE) if is_chosen() else 0.0
    if saturation != 1 or hue:
        image = _with_colours(image, saturation, hue)
    if not contrast_is_first and is_chosen():
        image = rounded(image * uniform(*CONTRAST))
    return image


def _with_colours(image: Tensor, saturation: float, hue: float) -> Tensor:
    """Return an image whose saturation is multiplied, and whose hue is moved by a part of the circle."""
    pixels = (image.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).numpy()
    values = np.array(Image.fromarray(pixels).convert("HSV")).astype(np.int64)
    values[..., 0] = (values[..., 0] + round(256 * hue)) % 256
    values[..., 1] = np.clip(values[..., 1] * saturation, 0, 255).astype(np.int64)
    changed = Image.fromarray(values.astype(np.uint8), mode="HSV").convert("RGB")
    return torch.from_numpy(np.array(changed)).permute(2, 0, 1).float() / 255


class MaskLearner(Learner):
    """Model in training with its optimiser, and the augmented images."""

    def __init__(
        self,
        model: nn.Module,
        training: SegmentationTraining,
        preprocessing: ImagePreprocessing,
        dataset: Dataset,
        host: Host,
    ) -> None:
        decayed = [value for value in model.parameters() if value.ndim >= 2]
        others = [value for value in model.parameters() if value.ndim < 2]
        groups = [{"params": decayed, "weight_decay": training.weight_decay}, {"params": others, "weight_decay": 0.0}]
        rate = training.learning_rate
        optimizer: torch.optim.Optimizer = (
            torch.optim.SGD(groups, lr=rate, momentum=MOMENTUM)
            if training.optimizer == "sgd"
            else torch.optim.AdamW(groups, lr=rate)
        )
        super().__init__(model, training, optimizer, host)
        self._size = self.num_examples = len(dataset)
        # Examples in memory are not decoded.
        self._num_workers = 0 if training.is_embedded else host.decode_workers
        self._mean, self._std = normalisation_of(preprocessing, self._device)
        # Padding is 0 after the normalisation.
        self._images = Augmented(dataset, training, self._mean.flatten().cpu().expand(3))
        side = training.crop_size
        check_auxiliary(model, torch.zeros(2, 3, side, side, device=self._device), training.auxiliary_weight)

    def epoch(self, epoch: int) -> tuple[float, int]:
        """Train for an epoch (0-based); return the mean loss in nats and the number of images."""
        training = self.training
        torch.manual_seed(seed_for(training.seed, "model", epoch))
        generator = torch.Generator().manual_seed(seed_for(training.seed, "order", epoch))
        order = torch.randperm(self._size, generator=generator).tolist()
        keys = [(row, seed_for(training.seed, "augmentation", epoch, place)) for place, row in enumerate(order)]
        batches = [keys[start : start + training.batch_size] for start in range(0, len(keys), training.batch_size)]
        loader = DataLoader(self._images, batch_sampler=batches, num_workers=self._num_workers)
        total = torch.zeros((), device=self._device)
        for step, (images, masks) in enumerate(loader):
            done = (epoch + step / len(batches)) / training.num_epochs
            set_learning_rate(self._optimizer, rate_at(done, training))
            normalised = (images.to(self._device) - self._mean) / self._std
            loss = self.step(self.model, normalised, masks.to(self._device), mean_loss)
            total += loss * len(images)
        return float(total) / self._size, self._size

    def scores(self, scored: Dataset, model: nn.Module) -> ValidationScores:
        """Return pixel accuracy and mean loss of a model on the evaluation split."""
        right, pixels, loss = 0, 0, 0.0
        size = _SCORED_AT_ONCE if DATASETS[self.training.dataset].has_one_size else 1
        with evaluating(model, self._device):
            for start in range(0, len(scored), size):
                batch = scored.batch(start, min(start + size, len(scored)))
                masks = batch.targets.to(self._device)
                logits = model((batch.inputs.to(self._device) - self._mean) / self._std)
                counts = confusion(logits, masks).sum((0, 2)).tolist()
                pixels, right = pixels + counts[0], right + counts[2]
                loss += float(pixel_cross_entropy(logits, masks).sum())
        return ValidationScores(
            top1_accuracy=right / max(1, pixels), loss_nats=loss / len(scored), num_examples=len(scored)
        )


def mean_loss(logits: Tensor, masks: Tensor) -> Tensor:
    """Return the mean cross-entropy over the pixels of a batch that count; 0 if none does."""
    total = cross_entropy(logits, masks, ignore_index=IGNORED, reduction="sum")
    return total / (masks != IGNORED).sum().clamp(min=1)


def rate_at(done: float, training: SegmentationTraining) -> float:
    """Return the learning rate when a part ``done`` of all steps is made."""
    if done < training.warmup:
        return training.learning_rate * (done + 1e-4) / training.warmup
    left = (1 - done) / (1 - training.warmup)
    return training.last_rate + (training.learning_rate - training.last_rate) * float(left**POWER)
