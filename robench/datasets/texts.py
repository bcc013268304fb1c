"""Texts held in memory: datasets whose targets are the texts themselves, or classes."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import torch

from robench.core.protocols import Batch
from robench.core.shard import DatasetIdentity
from robench.datasets.order import check_range, checked_index
from robench.domains.code_points import encoded, padded

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torch import Tensor

    from robench.core.protocols import Dataset
    from robench.datasets.sotu import EmbeddedTexts
    from robench.declarations.preprocessing import PreprocessingBase


def open_embedded(
    declared: EmbeddedTexts,
    *,
    data_root: Path | None,
    preprocessing: PreprocessingBase | None,
    decode_workers: int,
    split: str,
) -> Dataset:
    """Open a split of texts that come with a library."""
    del data_root, preprocessing, decode_workers  # Texts are as they are.
    declared.check_split(split)
    opened = Texts if declared.num_classes is None else LabelledTexts
    return opened(declared.name, declared.made(split))


class Texts:
    """Texts in a fixed order, each of which is its own target: language models predict every word.

    Args:
        name: name of the dataset.
        texts: ids and texts in this order.
    """

    def __init__(self, name: str, texts: Sequence[tuple[str, str]]) -> None:
        self.ids = tuple(each for each, _ in texts)
        self.texts = tuple(text for _, text in texts)
        digest = hashlib.sha256()
        for example_id, text in texts:
            digest.update(f"{example_id}\0{hashlib.sha256(text.encode()).hexdigest()}\n".encode())
        self.identity = DatasetIdentity(name=name, fingerprint=digest.hexdigest(), num_examples=len(texts))

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        points = encoded(self.texts[checked_index(index, self.identity.name, len(self))])
        return points, points.clone()

    def batch(self, start: int, stop: int) -> Batch:
        """Return examples [start, stop) as code points (B, T), which are inputs and targets alike."""
        check_range(start, stop, self.identity.name, len(self))
        points = padded([encoded(text) for text in self.texts[start:stop]])
        return Batch(ids=self.ids[start:stop], inputs=points, targets=points.clone())


class LabelledTexts:
    """Texts in a fixed order, each of one class.

    Args:
        name: name of the dataset.
        texts: ids, texts and classes in this order.
    """

    def __init__(self, name: str, texts: Sequence[tuple[str, str, int]]) -> None:
        self.ids = tuple(each for each, _, _ in texts)
        self.texts = tuple(text for _, text, _ in texts)
        self.labels = tuple(label for _, _, label in texts)
        digest = hashlib.sha256()
        for example_id, text, label in texts:
            digest.update(f"{example_id}\0{hashlib.sha256(text.encode()).hexdigest()}\0{label}\n".encode())
        self.identity = DatasetIdentity(name=name, fingerprint=digest.hexdigest(), num_examples=len(texts))

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        place = checked_index(index, self.identity.name, len(self))
        return encoded(self.texts[place]), self.labels[place]

    def batch(self, start: int, stop: int) -> Batch:
        """Return examples [start, stop) as code points (B, T) and classes (B,)."""
        check_range(start, stop, self.identity.name, len(self))
        points = padded([encoded(text) for text in self.texts[start:stop]])
        return Batch(ids=self.ids[start:stop], inputs=points, targets=torch.tensor(self.labels[start:stop]))
