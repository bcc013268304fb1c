"""Training images from a folder of ImageNet-1k or in memory, augmented by timm's transforms, in the order of an epoch.

The augmentation of an image is a function of the recipe's seed, the epoch and the image's position in it.

At their highest magnitude timm's posterising operations keep 0 bits of a channel, which DeiT's policy (magnitude 9,
standard deviation 0.5) reaches occasionally. Pillow returned a black image when DeiT was trained; Pillow 13 raises a
ValueError. Here such an image is black again.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from timm.data import auto_augment
from timm.data.distributed_sampler import RepeatAugSampler
from timm.data.transforms_factory import create_transform
from torch import Generator, Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import RandomCrop  # type: ignore[import-untyped]  # torchvision ships no types

from robench.core.errors import DeclarationError, ExampleError
from robench.datasets import open_dataset
from robench.datasets.cifar import TRAIN_SPLIT
from robench.datasets.decoding import decode
from robench.datasets.imagenet_folder import TRAIN
from robench.datasets.imagenet_forms import find_images
from robench.declarations.preprocessing import ImagePreprocessing
from robench.training.deit import DeitTraining
from robench.training.one_cycle_impl import ImagesInMemory
from robench.training.optimization import seed_for, seeded

Key = tuple[int, int]
Pixels = NDArray[np.uint8]
# Of images in memory, in pixels.
CROP_PADDING = 4
OPERATIONS = ("Posterize", "PosterizeIncreasing", "PosterizeOriginal")


class TrainingImages(Dataset[tuple[Tensor, int]]):
    """Dataset of augmented images by (index, seed): an image (3, crop, crop), normalised, and its class."""

    def __init__(self, data_root: Path | None, training: DeitTraining, preprocessing: ImagePreprocessing) -> None:
        self._transform = transform_of(training, preprocessing)
        read = self._in_memory if training.is_in_memory else self._in_folder
        self._targets, self._pixels_of = read(data_root, training, preprocessing)

    @staticmethod
    def _in_folder(
        data_root: Path | None, training: DeitTraining, preprocessing: ImagePreprocessing
    ) -> tuple[list[int], Callable[[int], Pixels]]:
        images = find_images(data_root, TRAIN)
        order = sorted(range(len(images)), key=images.ids.__getitem__)
        stored = tuple(map(images.stored, order))
        uncropped = ImagePreprocessing(mean=preprocessing.mean, std=preprocessing.std)
        return images.targets[order].tolist(), lambda index: decode(stored[index], uncropped)

    @staticmethod
    def _in_memory(
        data_root: Path | None, training: DeitTraining, preprocessing: ImagePreprocessing
    ) -> tuple[list[int], Callable[[int], Pixels]]:
        dataset = open_dataset(training.dataset, data_root=data_root, preprocessing=preprocessing, split=TRAIN_SPLIT)
        images = ImagesInMemory(dataset, torch.device("cpu"))
        return images.targets.tolist(), images.pixels

    def __len__(self) -> int:
        return len(self._targets)

    def __getitem__(self, key: Key) -> tuple[Tensor, int]:
        index, seed = key
        image = Image.fromarray(self._pixels_of(index))
        with seeded(seed):
            return self._transform(image), self._targets[index]


class EpochKeys:
    """Batch sampler of one epoch: timm's, with a separate augmentation for each repetition of an image.

    An incomplete last batch is dropped.
    """

    def __init__(self, images: TrainingImages, training: DeitTraining, epoch: int) -> None:
        self._sampler = RepeatAugSampler(  # type: ignore[no-untyped-call]  # timm's
            images, num_replicas=1, rank=0, num_repeats=training.num_repeats
        )
        self._sampler.set_epoch(seed_for(training.seed, "order", epoch))  # type: ignore[no-untyped-call]  # timm's
        self._training = training
        self._epoch = epoch

    def __len__(self) -> int:
        return len(self._sampler) // self._training.batch_size

    def __iter__(self) -> Iterator[list[Key]]:
        seed, batch_size = self._training.seed, self._training.batch_size
        indices = list(self._sampler)
        for start in range(0, len(self) * batch_size, batch_size):
            yield [
                (indices[position], seed_for(seed, "augmentation", self._epoch, position))
                for position in range(start, start + batch_size)
            ]


def batches(keys: EpochKeys, images: TrainingImages, decode_workers: int, *, pin: bool) -> Iterator[list[Tensor]]:
    """Yield images (B, 3, H, W) and classes (B,) of each batch, decoded by the given number of processes."""
    # A separate generator, because the loader draws an unused number.
    loader = DataLoader(
        images, batch_sampler=keys, num_workers=decode_workers, pin_memory=pin, generator=Generator().manual_seed(0)
    )
    try:
        yield from loader
    except ExampleError as error:
        # A decoding process sends its whole traceback as the message, which ends with the original error.
        raise ExampleError(str(error).strip().rpartition(f"{ExampleError.__name__}: ")[2]) from None


def transform_of(training: DeitTraining, preprocessing: ImagePreprocessing) -> Callable[[Image.Image], Tensor]:
    """Return timm's training transform: random crop and flip, policy, normalisation, random erasing."""
    side = training.side_of(preprocessing.crop)
    if side is None:
        raise DeclarationError(
            "the checkpoint's preprocessing has no crop, so the size of the training images is undefined;"
            " write crop: 224, or the model's input size, into its entry"
        )
    own = training.interpolation == "preprocessing"
    interpolation = preprocessing.interpolation if own else training.interpolation
    try:
        with posterizing_to_black():
            transform: Callable[[Image.Image], Tensor] = create_transform(
                input_size=side,
                is_training=True,
                auto_augment=training.auto_augment or None,
                interpolation=interpolation,
                mean=preprocessing.mean,
                std=preprocessing.std,
                re_prob=training.random_erasing,
                re_mode="pixel",
            )
    except (AssertionError, ValueError) as error:
        raise DeclarationError(
            f"timm has no augmentation {training.auto_augment!r} ({error}); auto_augment takes names such as"
            " rand-m9-mstd0.5-inc1, and an empty text for none"
        ) from error
    if training.is_in_memory:
        transform.transforms[0] = RandomCrop(side, padding=CROP_PADDING)  # type: ignore[attr-defined]  # a Compose
    return transform


@contextmanager
def posterizing_to_black() -> Iterator[None]:
    """Let policies that timm creates within the block turn an image black if they keep none of its bits."""
    before = {name: auto_augment.NAME_TO_OP[name] for name in OPERATIONS}
    auto_augment.NAME_TO_OP.update(dict.fromkeys(OPERATIONS, posterize))
    try:
        yield
    finally:
        auto_augment.NAME_TO_OP.update(before)


def posterize(image: Image.Image, bits_to_keep: int, **unused: object) -> Image.Image:
    """Return the image with the given number of highest bits of each channel kept, 0 to 8."""
    if bits_to_keep < 1:
        return image.point(lambda value: 0)
    kept: Image.Image = auto_augment.posterize(image, bits_to_keep)  # type: ignore[no-untyped-call]  # timm's
    return kept
