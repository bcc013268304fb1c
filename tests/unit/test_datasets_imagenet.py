"""ImageNet-1k from a generated tree: order, fingerprint, pixels, the kept batch and the errors."""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import transforms  # type: ignore[import-untyped]  # ships no types
from torchvision.datasets.folder import pil_loader  # type: ignore[import-untyped]  # ships no types

from robench.core.errors import ExampleError, MissingDataError
from robench.datasets.decoding_pool import DecodingPool
from robench.datasets.imagenet import USUAL_PREPROCESSING, Imagenet1k
from robench.declarations.preprocessing import ImagePreprocessing

if TYPE_CHECKING:
    from pathlib import Path

CLASSES = {"n01440764": 0, "n02099601": 207, "n02510455": 388, "n15075141": 999}
NAMES = [f"{wordnet_id}/ILSVRC2012_val_{number:08d}.JPEG" for wordnet_id in CLASSES for number in range(3)]


def preprocessing(**fields: Any) -> ImagePreprocessing:
    return ImagePreprocessing(mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5), **fields)


SMALL = preprocessing(resize=40, crop=32)


def write_tree(root: Path, names: list[str], size: tuple[int, int] = (60, 48)) -> Path:
    """JPEGs whose pixels are a function of their names."""
    for name in names:
        seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
        pixels = np.random.default_rng(seed).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(root / name)
    return root


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write_tree(tmp_path, NAMES)


def test_the_order_is_that_of_the_ids_hash_whatever_was_created_first(tmp_path: Path) -> None:
    forwards = Imagenet1k(write_tree(tmp_path / "forwards", NAMES), SMALL)
    backwards = Imagenet1k(write_tree(tmp_path / "backwards", NAMES[::-1]), SMALL)
    assert forwards.ids == backwards.ids
    assert forwards.identity == backwards.identity
    assert set(forwards.ids) == {name.removesuffix(".JPEG") for name in NAMES}


def test_labels_follow_the_folder_of_each_id(tree: Path) -> None:
    dataset = Imagenet1k(tree, SMALL)
    expected = [CLASSES[example_id.split("/")[0]] for example_id in dataset.ids]
    assert dataset.batch(0, 12).targets.tolist() == expected == [dataset[index][1] for index in range(12)]


def test_an_image_is_that_of_torchvision_in_the_unit_range(tree: Path) -> None:
    dataset = Imagenet1k(tree, USUAL_PREPROCESSING)
    transform = transforms.Compose(
        [
            transforms.Resize(256, interpolation=transforms.InterpolationMode.BICUBIC),
            transforms.CenterCrop(224),
            transforms.ToTensor(),
        ]
    )
    image, _ = dataset[4]
    assert image.shape == (3, 224, 224)
    assert torch.equal(image, transform(pil_loader(str(tree / f"{dataset.ids[4]}.JPEG"))))


def test_the_fingerprint_is_of_ids_suffixes_and_sizes(tree: Path) -> None:
    lines = [f"{name.removesuffix('.JPEG')}\t.JPEG\t{(tree / name).stat().st_size}\n" for name in sorted(NAMES)]
    expected = hashlib.sha256("".join(lines).encode()).hexdigest()
    assert Imagenet1k(tree, SMALL).identity.fingerprint == expected


def test_the_fingerprint_depends_neither_on_the_place_nor_on_the_preprocessing(tmp_path: Path) -> None:
    here = Imagenet1k(write_tree(tmp_path / "here", NAMES), SMALL)
    there = Imagenet1k(write_tree(tmp_path / "there" / "val", NAMES).parent, USUAL_PREPROCESSING)
    assert here.identity == there.identity


@pytest.mark.parametrize("change", ["fewer", "renamed", "other suffix", "another class", "other size"])
def test_the_fingerprint_changes_with_every_part_of_it(tree: Path, change: str) -> None:
    before = Imagenet1k(tree, SMALL).identity.fingerprint
    image = tree / NAMES[0]
    match change:
        case "fewer":
            image.unlink()
        case "renamed":
            image.rename(image.with_stem("other"))
        case "other suffix":
            image.rename(image.with_suffix(".jpg"))
        case "another class":
            image.rename(tree / "n02099601" / "other.JPEG")
        case "other size":
            image.write_bytes(image.read_bytes() + b"\0")
    assert Imagenet1k(tree, SMALL).identity.fingerprint != before


def test_opening_reads_no_image(tree: Path) -> None:
    for name in NAMES:
        (tree / name).write_bytes(b"x" * (tree / name).stat().st_size)
    dataset = Imagenet1k(tree, SMALL)
    assert len(dataset) == 12
    with pytest.raises(ExampleError):
        dataset.batch(0, 1)


def test_a_decoding_process_changes_no_byte_of_a_batch(tree: Path) -> None:
    alone, helped = Imagenet1k(tree, SMALL), Imagenet1k(tree, SMALL, decode_workers=1)
    for start, stop in [(0, 12), (3, 7), (11, 12)]:
        expected, batch = alone.batch(start, stop), helped.batch(start, stop)
        assert torch.equal(batch.inputs, expected.inputs)
        assert torch.equal(batch.targets, expected.targets)
        assert batch.ids == expected.ids
    helped.close()
    assert torch.equal(helped[2][0], alone[2][0])


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many images each call of the pool decoded."""
    calls: list[int] = []
    decode = DecodingPool.decode

    def counted(self: DecodingPool, paths: Any, wanted: ImagePreprocessing) -> Any:
        calls.append(len(paths))
        return decode(self, paths, wanted)

    monkeypatch.setattr(DecodingPool, "decode", counted)
    return calls


def test_the_last_batch_is_kept_for_the_next_condition(tree: Path, decoded: list[int]) -> None:
    dataset = Imagenet1k(tree, SMALL)
    first = dataset.batch(0, 5)
    assert torch.equal(dataset.batch(0, 5).inputs, first.inputs)
    assert decoded == [5]
    dataset.batch(5, 9)
    assert torch.equal(dataset.batch(0, 5).inputs, first.inputs)
    assert decoded == [5, 4, 5]


def test_a_batch_that_failed_is_not_kept(tree: Path) -> None:
    dataset = Imagenet1k(tree, SMALL)
    path = tree / f"{dataset.ids[2]}.JPEG"
    whole = path.read_bytes()
    path.write_bytes(whole[:300])
    for _ in range(2):
        with pytest.raises(ExampleError, match=dataset.ids[2]):
            dataset.batch(0, 4)
    path.write_bytes(whole)
    assert dataset.batch(0, 4).inputs.shape == (4, 3, 32, 32)


def test_an_unreadable_image_spoils_only_its_own_batch(tree: Path) -> None:
    dataset = Imagenet1k(tree, SMALL)
    (tree / f"{dataset.ids[7]}.JPEG").write_text("not an image")
    with pytest.raises(ExampleError, match="it begins with b'not an image'"):
        dataset.batch(4, 8)
    with pytest.raises(ExampleError, match=dataset.ids[7]):
        dataset[7]
    assert dataset.batch(0, 4).ids == dataset.ids[:4]
    assert dataset.batch(8, 12).ids == dataset.ids[8:]


@pytest.mark.parametrize("fields", [{}, {"resize": 40}])
def test_images_of_several_sizes_need_resize_and_crop(tree: Path, fields: dict[str, int]) -> None:
    dataset = Imagenet1k(tree, preprocessing(**fields))
    assert dataset.batch(0, 3).inputs.shape[0] == 3
    Image.new("RGB", (64, 80)).save(tree / f"{dataset.ids[5]}.JPEG")
    with pytest.raises(ExampleError, match="Set resize and crop") as caught:
        dataset.batch(4, 8)
    assert dataset.ids[5] in str(caught.value)


def test_images_of_one_size_need_neither(tree: Path) -> None:
    image, _ = Imagenet1k(tree, preprocessing())[0]
    assert image.shape == (3, 48, 60)


def test_opening_a_partial_tree_warns_once(tree: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="robench.datasets"):
        dataset = Imagenet1k(tree, SMALL)
        dataset.batch(0, 2)
    (record,) = caplog.records
    assert "12 images of 4 classes" in record.getMessage()


def test_a_root_without_images_is_missing_data(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="Tried:"):
        Imagenet1k(tmp_path, SMALL)
    with pytest.raises(MissingDataError, match="ROBENCH_DATA"):
        Imagenet1k(None, SMALL)
