"""Reading ahead of ImageNet keeps the contract, and one opening does not see what another read."""

from pathlib import Path

import torch
from PIL import Image
from test_datasets_imagenet import SMALL, imagenet_1k, submitted, tree

from robench.datasets.imagenet import IMAGENET_1K
from robench.testing.dataset import Opened, reading_ahead_changes_nothing

__all__ = ["submitted", "tree"]


def test_reading_ahead_of_one_opening_is_none_of_another(tree: Path, submitted: list[int]) -> None:
    before = imagenet_1k(tree, SMALL, decode_workers=1)
    shown = before.batch(0, 2).inputs
    before.batch(2, 4)
    before.read_ahead(0, 2)
    Image.new("RGB", (60, 48), "red").save(tree / f"{before.ids[0]}.JPEG")
    assert not torch.equal(imagenet_1k(tree, SMALL, decode_workers=1).batch(0, 2).inputs, shown)
    assert submitted == [2, 2, 2, 2]
    before.close()


def test_reading_ahead_keeps_the_contract(tree: Path) -> None:
    dataset = imagenet_1k(tree, SMALL, decode_workers=1)
    reading_ahead_changes_nothing(Opened(IMAGENET_1K, lambda: dataset))
    dataset.close()
