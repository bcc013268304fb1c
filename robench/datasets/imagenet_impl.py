"""Images of the classes of ImageNet-1k from a tree of class folders (the layout of PublishedFolder), as published.

Sources: ILSVRC 2012 (Russakovsky et al. 2015, arXiv:1409.0575) and the sets of natural shifts that share its classes,
see ``datasets.imagenet``. Two JPEG decoders, and so two releases of Pillow, may differ by a grey level here and
there; that is a matter of provenance, and no part of the fingerprint.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from robench.core.errors import DeclarationError, ExampleError
from robench.core.protocols import Batch
from robench.core.shard import DatasetIdentity
from robench.datasets.class_subsets import class_indices_of
from robench.datasets.decoding import decode
from robench.datasets.decoding_pool import shared_pool
from robench.datasets.imagenet_folder import find_images
from robench.datasets.layouts import layout_of
from robench.datasets.order import check_range, checked_index, hash_order
from robench.declarations.preprocessing import ImagePreprocessing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from robench.datasets.base import DatasetBase
    from robench.datasets.imagenet_folder import ImageFile

USUAL_PREPROCESSING: Final = ImagePreprocessing(
    mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), resize=256, crop=224, interpolation="bicubic"
)


def open_image_folder(
    declared: DatasetBase,
    *,
    data_root: Path | None,
    preprocessing: ImagePreprocessing | None,
    decode_workers: int,
    split: str,
) -> ImagenetFolder:
    """Return the images of a declared folder, resized and cropped as usual where no preprocessing is given.

    Raises:
        UsageError: there is no such split.
        MissingDataError: no images there.
        DeclarationError: the preprocessing does not go with the dataset.
    """
    declared.check_split(split)
    return ImagenetFolder(declared, data_root, preprocessing or USUAL_PREPROCESSING, decode_workers)


class ImagenetFolder:
    """The images of a declared dataset in the order of the ids' SHA-256, decoded when asked for.

    Args:
        declared: which dataset; its resize rule goes before the preprocessing's resize.
        data_root: where to look, see ``imagenet_folder.candidates``.
        preprocessing: resize, crop and interpolation are applied here; mean and std are left to the victim.
        decode_workers: processes that decode, 0 for none beside this one.

    Raises:
        MissingDataError: no images there.
        DeclarationError: the preprocessing does not go with the dataset.
    """

    def __init__(
        self,
        declared: DatasetBase,
        data_root: Path | None,
        preprocessing: ImagePreprocessing,
        decode_workers: int = 0,
    ) -> None:
        self._name = declared.name
        self._preprocessing = ruled(preprocessing, declared)
        images = find_images(data_root, layout_of(declared))
        self._ids = tuple(hash_order(images))
        ordered = [images[example_id] for example_id in self._ids]
        self._folder = ordered[0].folder.parent
        self._suffixes = tuple(image.suffix for image in ordered)
        self._targets = np.array([image.target for image in ordered], dtype=np.int64)
        self._pool = shared_pool(decode_workers)
        self._identity = DatasetIdentity(
            name=declared.name, fingerprint=_fingerprint(images, declared), num_examples=len(images)
        )

    @property
    def identity(self) -> DatasetIdentity:
        """Name, size, and a SHA-256 over id, suffix and file size of every image, sorted by id.

        The images themselves are not read for it, which would take minutes: a copy that was encoded anew is noticed
        by its sizes, a changed pixel in a file of the same size is not. The classes that logits are masked to and the
        resize rule, where there are any, are part of it, since outcomes depend on them.
        """
        return self._identity

    @property
    def ids(self) -> tuple[str, ...]:
        """One id an example, such as ``n01440764/ILSVRC2012_val_00000293``."""
        return self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        position = checked_index(index, self._name, len(self))
        path = self._path(position)
        return _to_unit_range(_stack([path], [decode(path, self._preprocessing)]))[0], int(self._targets[position])

    def batch(self, start: int, stop: int) -> Batch:
        """Return examples [start, stop): inputs (B, 3, H, W) float32 in [0, 1], targets (B,) int64.

        Raises:
            ExampleError: one cannot be read, or they differ in size.
            IndexError: empty, or not within the dataset.
        """
        check_range(start, stop, self._name, len(self))
        return Batch(
            ids=self._ids[start:stop],
            inputs=_to_unit_range(self._decoded(start, stop)),
            targets=torch.from_numpy(self._targets[start:stop].copy()),
        )

    def close(self) -> None:
        """End the decoding processes, which all datasets share; each stays usable, and starts new ones."""
        self._pool.close()

    def _path(self, position: int) -> Path:
        return self._folder / f"{self._ids[position]}{self._suffixes[position]}"

    def _decoded(self, start: int, stop: int) -> torch.Tensor:
        pixels = _LAST.get((self, start, stop))
        if pixels is None:
            paths = [self._path(position) for position in range(start, stop)]
            pixels = _stack(paths, self._pool.decode(paths, self._preprocessing))
            _LAST.keep((self, start, stop), pixels)
        return pixels


class _LastBatch:
    """The batch that was decoded last: every condition on a dataset reads the same, one after the other.

    One for all datasets, since a batch of each type of ImageNet-C would be a gigabyte.
    """

    def __init__(self) -> None:
        self._kept: tuple[tuple[ImagenetFolder, int, int], torch.Tensor] | None = None

    def get(self, bounds: tuple[ImagenetFolder, int, int]) -> torch.Tensor | None:
        """Return the bytes (B, 3, H, W) of these bounds if they are those that are kept; not to be written into."""
        return self._kept[1] if self._kept is not None and self._kept[0] == bounds else None

    def keep(self, bounds: tuple[ImagenetFolder, int, int], pixels: torch.Tensor) -> None:
        """Keep these in place of what was kept before."""
        self._kept = bounds, pixels


_LAST: Final = _LastBatch()


def ruled(preprocessing: ImagePreprocessing, declared: DatasetBase) -> ImagePreprocessing:
    """Return the preprocessing with the dataset's resize rule in the place of its own.

    Raises:
        DeclarationError: images that have their size already are smaller than the crop.
    """
    if declared.resize_rule is None:
        return preprocessing
    if declared.resize_rule != "none":
        return replace(preprocessing, interpolation=declared.resize_rule)
    size = declared.image_size
    if size is not None and preprocessing.crop is not None and preprocessing.crop > size:
        raise DeclarationError(
            f"dataset {declared.name!r} is published at {size}x{size} pixels and never resized: crop of the"
            f" checkpoint's preprocessing must be at most {size}, got {preprocessing.crop}"
        )
    return replace(preprocessing, resize=None)


def _stack(paths: Sequence[Path], decoded: Sequence[NDArray[np.uint8]]) -> torch.Tensor:
    """Return (B, 3, H, W) bytes."""
    for path, pixels in zip(paths, decoded, strict=True):
        if pixels.shape != decoded[0].shape:
            sizes = [f"{shape[1]}x{shape[0]}" for shape in (decoded[0].shape, pixels.shape)]
            raise ExampleError(
                f"images of one batch must have one size: {paths[0]} is {sizes[0]} pixels, {path} is"
                f" {sizes[1]}. Set resize and crop in the checkpoint's preprocessing"
            )
    return torch.from_numpy(np.stack(decoded)).permute(0, 3, 1, 2).contiguous()


def _to_unit_range(pixels: torch.Tensor) -> torch.Tensor:
    return pixels.to(torch.float32).div_(255)


def _fingerprint(images: Mapping[str, ImageFile], declared: DatasetBase) -> str:
    lines = sorted(f"{example_id}\t{image.suffix}\t{image.num_bytes}\n" for example_id, image in images.items())
    if declared.class_subset is not None:
        lines.insert(0, f"classes\t{','.join(map(str, class_indices_of(declared.class_subset)))}\n")
    if declared.resize_rule is not None:
        lines.insert(0, f"resize\t{declared.resize_rule}\n")
    return hashlib.sha256("".join(lines).encode()).hexdigest()
