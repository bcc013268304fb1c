"""Packed images: the same examples without decoding, for one preprocessing, and damage that is named."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from image_forms import class_folders

from robench.core.errors import MissingDataError, UsageError
from robench.datasets import open_dataset
from robench.datasets.packed_pixels import pack
from robench.declarations.preprocessing import ImagePreprocessing

PREPROCESSING = ImagePreprocessing(mean=(0.5,) * 3, std=(0.5,) * 3, resize=40, crop=32)


def opened(root: Path, preprocessing: ImagePreprocessing = PREPROCESSING) -> Any:
    return open_dataset("imagenet-1k", data_root=root, preprocessing=preprocessing)


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    class_folders(tmp_path)
    return pack(opened(tmp_path), tmp_path)


def test_they_are_the_examples_that_decoding_gives(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, decoded = opened(tmp_path), opened(tmp_path)
    decoded.packed = None
    wanted = decoded.batch(3, 40)
    monkeypatch.setattr("robench.datasets.decoding.open_stored", None)
    found = read.batch(3, 40)
    assert torch.equal(found.inputs, wanted.inputs)
    assert (found.ids, found.targets.tolist()) == (wanted.ids, wanted.targets.tolist())
    assert read.identity == decoded.identity
    # The fields of the model alone are no part of the bytes.
    assert opened(tmp_path, ImagePreprocessing(mean=(0,), std=(1,), resize=40, crop=32)).packed is None
    assert opened(tmp_path, ImagePreprocessing(mean=(0,) * 3, std=(1,) * 3, resize=40, crop=32)).packed is not None


def test_other_images_and_another_preprocessing_are_not_read(packed: Path, tmp_path: Path) -> None:
    assert opened(tmp_path, ImagePreprocessing(mean=(0.5,) * 3, std=(0.5,) * 3, resize=48, crop=32)).packed is None
    image = next((tmp_path / "imagenet-1k").rglob("*.JPEG"))
    image.write_bytes(image.read_bytes() + b"\0")
    assert opened(tmp_path).packed is None


def change(path: Path, about: Path) -> None:
    content = bytearray(path.read_bytes())
    content[5000] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path, about: path.write_bytes(path.read_bytes()[:-1]), "has 122,879 bytes, wanted 122,880: delete it"),
        (change, "has changed in examples 0 to 39: delete it, and run 'robench data pack' again"),
        (lambda path, about: about.write_text("{"), "has no readable list of its blocks beside it"),
        (
            lambda path, about: about.write_text(json.dumps(json.loads(about.read_text()) | {"blocks": []})),
            "has no readable list of its blocks beside it",
        ),
        (
            lambda path, about: about.write_text(json.dumps(json.loads(about.read_text()) | {"contents": {"crop": 8}})),
            "is of {'crop': 8}, wanted {'fingerprint'",
        ),
    ],
    ids=["cut", "changed", "a list that is cut", "a list without blocks", "of another preprocessing"],
)
def test_damage_is_named(packed: Path, tmp_path: Path, damage: Any, message: str) -> None:
    damage(packed, packed.with_suffix(".json"))
    with pytest.raises(MissingDataError) as raised:
        opened(tmp_path).batch(0, 4)
    assert message in str(raised.value)


def test_images_of_several_sizes_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    class_folders(tmp_path)
    dataset = opened(tmp_path)
    sizes = iter([4, 5])
    dataset.bytes_of = lambda start, stop: torch.zeros(stop - start, next(sizes), 4, 3, dtype=torch.uint8).numpy()
    dataset.ids = dataset.ids * 2
    with pytest.raises(UsageError, match=r"have \(4, 4, 3\) and \(5, 4, 3\) pixels and channels after resize and crop"):
        pack(dataset, tmp_path)
    assert list((tmp_path / "packed").iterdir()) == []
