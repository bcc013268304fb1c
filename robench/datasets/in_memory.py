"""Examples in a fixed order: their base class, and small images that libraries generate or store, held in memory."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from robench.core.errors import DeclarationError
from robench.core.protocols import Batch, Dataset
from robench.core.shard import DatasetIdentity
from robench.datasets.base import EmbeddedImages
from robench.datasets.order import check_range, checked_index, hash_order, hash_positions
from robench.declarations.preprocessing import ImagePreprocessing
from robench.domains import DOMAINS
from robench.domains.images import IMAGES


class OrderedExamples:
    """Base class of datasets of any domain, with examples in the order of the ids' SHA-256.

    Subclasses provide the inputs; ``_order`` holds the positions of the given ids in this order.

    Attributes:
        domain: name of the domain; None for images.
        identity: name, content digest and size.
        task: name of the task of its targets; None for classification.
        ids: one id per example, such as ``digits/0042``; ``targets``: (N, ...) class of each or of its pixels, int64;
            (N, 0) where subclasses read them on access.
        class_names: names of the classes in the files or in the entry; None for classes that are numbers alone.
    """

    domain: str | None = None
    task: str | None = None
    class_names: Sequence[str] | None = None

    def __init__(self, name: str, fingerprint: str, ids: Sequence[str], targets: NDArray[np.int64]) -> None:
        self._order = hash_positions(ids)
        self.identity = DatasetIdentity(name=name, fingerprint=fingerprint, num_examples=len(ids))
        self.ids = tuple(ids[position] for position in self._order)
        self.targets = targets[self._order]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, Any]:
        position = checked_index(index, self.identity.name, len(self))
        target = self._targets(position, position + 1)[0]
        return self._inputs(position, position + 1)[0], target if target.ndim else int(target)

    def batch(self, start: int, stop: int) -> Batch:
        """Return examples [start, stop): inputs (B, ...), such as images in [0, 1], and targets (B, ...), int64."""
        check_range(start, stop, self.identity.name, len(self))
        targets = self._targets(start, stop)
        return Batch(
            ids=self.ids[start:stop],
            inputs=self._inputs(start, stop),
            targets=targets,
            task=self.task,
            domain=self.domain,
        )

    def valid(self, inputs: torch.Tensor) -> torch.Tensor | None:
        """Return the places of inputs (B, ...) that are not padding, of series as (B, T) booleans; None if none is.

        Padding is 2^100 in series and 0 in tokens. Models of ``load_checkpoint`` leave it out themselves.
        """
        return DOMAINS[self.domain or IMAGES.name].rules.valid(inputs)

    def _targets(self, start: int, stop: int) -> torch.Tensor:
        """Return targets [start, stop) as a new tensor (B, ...), int64."""
        return torch.from_numpy(self.targets[start:stop].copy())

    def _inputs(self, start: int, stop: int) -> torch.Tensor:
        """Return inputs [start, stop) as a new tensor (B, ...), float32."""
        raise NotImplementedError


def open_embedded(declared: EmbeddedImages, *, preprocessing: object, split: str, **unused: object) -> Dataset:
    """Open a split of images, or of other inputs, that are stored in libraries or generated."""
    size = declared.image_size
    asked: dict[str, int | None] = {}
    if isinstance(preprocessing, ImagePreprocessing):
        asked = {"resize": preprocessing.resize, "crop": preprocessing.crop}
    for field, side in asked.items():
        if side not in (None, size):
            raise DeclarationError(
                f"dataset {declared.name!r} has images of {size}x{size} pixels and no other: {field} of the"
                f" checkpoint's preprocessing must be left out, got {side}"
            )
    declared.check_split(split)
    return declared.made(split)


class InMemoryImages(OrderedExamples):
    """Images in the order of the ids' SHA-256.

    Args:
        name: of the dataset.
        targets: class of each example, by id.
        pixels: (C, H, W) values in [0, 1] of each example, by id; C is 3, or 1 for three equal channels.
    """

    def __init__(self, name: str, targets: Mapping[str, int], pixels: Mapping[str, NDArray[np.float32]]) -> None:
        ids = hash_order(targets)
        classes = np.array([targets[example_id] for example_id in ids], dtype=np.int64)
        self._pixels = np.stack([pixels[example_id] for example_id in ids])
        digest = hashlib.sha256("\n".join(ids).encode())
        digest.update(classes.astype("<i8").tobytes() + self._pixels.astype("<f4").tobytes())
        super().__init__(name, digest.hexdigest(), ids, classes)

    def _inputs(self, start: int, stop: int) -> torch.Tensor:
        # A copy with three separate channels, since a caller may write into it.
        return torch.from_numpy(self._pixels[start:stop]).repeat(1, 3 // self._pixels.shape[1], 1, 1)
