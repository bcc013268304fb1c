"""ImageNet-1k from a generated tree: order, fingerprint, pixels, the kept batch and the errors."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import transforms  # type: ignore[import-untyped]  # ships no types
from torchvision.datasets.folder import pil_loader  # type: ignore[import-untyped]  # ships no types

from robench.core.errors import DeclarationError, ExampleError
from robench.datasets import DATASETS
from robench.datasets.base import DatasetBase, class_indices_of, class_subset
from robench.datasets.decoding import DecodingPool, shared_pool
from robench.datasets.imagenet import IMAGENET_1K
from robench.datasets.imagenet_folder import class_indices, layout_of
from robench.datasets.imagenet_impl import USUAL_PREPROCESSING, ImagenetFolder
from robench.declarations.preprocessing import ImagePreprocessing

CLASSES = {"n01440764": 0, "n02099601": 207, "n02510455": 388, "n15075141": 999}
NAMES = [f"{wordnet_id}/ILSVRC2012_val_{number:08d}.JPEG" for wordnet_id in CLASSES for number in range(3)]


def preprocessing(**fields: Any) -> ImagePreprocessing:
    return ImagePreprocessing(mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5), **fields)


def imagenet_1k(root: Path | None, wanted: ImagePreprocessing, decode_workers: int = 0) -> ImagenetFolder:
    return ImagenetFolder(IMAGENET_1K, root, wanted, decode_workers)


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


def test_the_fingerprint_depends_neither_on_the_place_nor_on_the_preprocessing(tmp_path: Path) -> None:
    here = imagenet_1k(write_tree(tmp_path / "here", NAMES), SMALL)
    there = imagenet_1k(write_tree(tmp_path / "there" / "val", NAMES).parent, USUAL_PREPROCESSING)
    assert here.identity == there.identity


def test_the_fingerprint_changes_with_every_part_of_it(tree: Path) -> None:
    found = [imagenet_1k(tree, SMALL).identity.fingerprint]
    image = tree / NAMES[0]
    # Another class, name, suffix, size and number of images.
    for name in ("n02099601/other.JPEG", "n02099601/next.JPEG", "n02099601/next.jpg"):
        image = image.rename(tree / name)
        found.append(imagenet_1k(tree, SMALL).identity.fingerprint)
    image.write_bytes(image.read_bytes() + b"\0")
    found.append(imagenet_1k(tree, SMALL).identity.fingerprint)
    image.unlink()
    found.append(imagenet_1k(tree, SMALL).identity.fingerprint)
    assert len(set(found)) == 6


def test_opening_reads_no_image(tree: Path) -> None:
    for name in NAMES:
        (tree / name).write_bytes(b"x" * (tree / name).stat().st_size)
    dataset = imagenet_1k(tree, SMALL)
    assert len(dataset) == 12
    with pytest.raises(ExampleError):
        dataset.batch(0, 1)


@pytest.mark.slow
def test_a_decoding_process_changes_no_byte_of_a_batch(tree: Path) -> None:
    alone, helped = imagenet_1k(tree, SMALL), imagenet_1k(tree, SMALL, decode_workers=1)
    for start, stop in [(0, 12), (3, 7), (11, 12)]:
        expected, batch = alone.batch(start, stop), helped.batch(start, stop)
        assert torch.equal(batch.inputs, expected.inputs)
        assert torch.equal(batch.targets, expected.targets)
        assert batch.ids == expected.ids
    helped.close()
    assert torch.equal(helped[2][0], alone[2][0])


def sizes_of_calls(monkeypatch: pytest.MonkeyPatch, method: str) -> list[int]:
    """Return the list of the numbers of images that a method of decoding pools is called with."""
    calls: list[int] = []
    original = getattr(DecodingPool, method)

    def counted(self: DecodingPool, paths: Any, *arguments: Any) -> Any:
        calls.append(len(paths))
        return original(self, paths, *arguments)

    monkeypatch.setattr(DecodingPool, method, counted)
    return calls


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many images each call of the pool decoded."""
    return sizes_of_calls(monkeypatch, "decode")


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many images each call handed to decoding processes."""
    return sizes_of_calls(monkeypatch, "_submitted")


def test_the_last_batch_is_kept_for_the_next_condition(tree: Path, decoded: list[int]) -> None:
    dataset = imagenet_1k(tree, SMALL)
    first = dataset.batch(0, 5)
    assert torch.equal(dataset.batch(0, 5).inputs, first.inputs)
    assert decoded == [5]
    dataset.batch(5, 9)
    assert torch.equal(dataset.batch(0, 5).inputs, first.inputs)
    assert decoded == [5, 4, 5]


def test_one_batch_is_kept_and_not_one_a_dataset(tree: Path, decoded: list[int]) -> None:
    first, second = imagenet_1k(tree, SMALL), imagenet_1k(tree, preprocessing(resize=48, crop=32))
    of_first, of_second = first.batch(0, 3).inputs, second.batch(0, 3).inputs
    assert not torch.equal(of_first, of_second)
    assert torch.equal(second.batch(0, 3).inputs, of_second)
    assert decoded == [3, 3]
    assert torch.equal(first.batch(0, 3).inputs, of_first)
    assert decoded == [3, 3, 3]


def test_a_dataset_that_is_opened_anew_reads_anew(tree: Path, decoded: list[int]) -> None:
    before = imagenet_1k(tree, SMALL)
    shown = before.batch(0, 2).inputs
    Image.new("RGB", (60, 48), "red").save(tree / f"{before.ids[0]}.JPEG")
    assert not torch.equal(imagenet_1k(tree, SMALL).batch(0, 2).inputs, shown)


def test_a_batch_that_was_read_ahead_is_decoded_once(tree: Path, submitted: list[int]) -> None:
    expected = imagenet_1k(tree, SMALL).batch(2, 7).inputs
    dataset = imagenet_1k(tree, SMALL, decode_workers=1)
    for _ in range(2):
        dataset.read_ahead(2, 7)
    assert submitted == [5]
    assert torch.equal(dataset.batch(2, 7).inputs, expected)
    # It is the last batch now.
    dataset.read_ahead(2, 7)
    assert submitted == [5]
    dataset.read_ahead(0, 2)
    # Another one than was announced.
    dataset.batch(3, 6)
    assert submitted == [5, 2, 3]
    dataset.close()


def test_all_datasets_share_their_decoding_processes(tree: Path) -> None:
    assert shared_pool(3) is shared_pool(3)
    assert shared_pool(3) is not shared_pool(2)
    assert imagenet_1k(tree, SMALL, 3)._pool is imagenet_1k(tree, SMALL, 3)._pool is shared_pool(3)


def test_an_unreadable_image_spoils_only_its_own_batch_which_is_not_kept(tree: Path) -> None:
    dataset = imagenet_1k(tree, SMALL)
    path = tree / f"{dataset.ids[7]}.JPEG"
    whole = path.read_bytes()
    path.write_text("not an image")
    for _ in range(2):
        with pytest.raises(ExampleError, match=f"{dataset.ids[7]}.*it begins with b'not an image'"):
            dataset.batch(4, 8)
    with pytest.raises(ExampleError, match=dataset.ids[7]):
        dataset[7]
    assert dataset.batch(0, 4).ids == dataset.ids[:4]
    assert dataset.batch(8, 12).ids == dataset.ids[8:]
    path.write_bytes(whole)
    assert dataset.batch(4, 8).inputs.shape == (4, 3, 32, 32)


@pytest.mark.parametrize("fields", [{}, {"resize": 40}])
def test_images_of_several_sizes_need_resize_and_crop(tree: Path, fields: dict[str, int]) -> None:
    dataset = imagenet_1k(tree, preprocessing(**fields))
    assert dataset.batch(0, 3).inputs.shape[0] == 3
    Image.new("RGB", (64, 80)).save(tree / f"{dataset.ids[5]}.JPEG")
    with pytest.raises(ExampleError, match="Set resize and crop") as caught:
        dataset.batch(4, 8)
    assert dataset.ids[5] in str(caught.value)


def declared_tree(root: Path, name: str, size: tuple[int, int] = (300, 240)) -> tuple[DatasetBase, list[str]]:
    """Two images of each of three classes of a declared dataset, where it is published."""
    declared = DATASETS[name]
    layout = layout_of(declared)
    classes = list(layout.classes)[::90][:3]
    names = [f"{each}/ILSVRC2012_val_{number:08d}.JPEG" for each in classes for number in range(2)]
    write_tree(root / layout.places[0], names, size)
    return declared, names


def opened(root: Path, name: str, wanted: ImagePreprocessing = USUAL_PREPROCESSING) -> ImagenetFolder:
    return ImagenetFolder(DATASETS[name], root, wanted)


class TestNaturalShifts:
    """The sets that share ImageNet's classes are read by the same reader, each by the rules of its own."""

    @pytest.mark.parametrize("name", ["imagenet-a", "imagenet-r", "imagenet-o", "imagenet-sketch", "imagenet-c/fog/2"])
    def test_labels_are_indices_of_imagenet_1k(self, tmp_path: Path, name: str) -> None:
        declared, names = declared_tree(tmp_path, name)
        dataset = opened(tmp_path, name)
        classes = class_indices()
        assert dataset.identity.name == name == declared.name
        assert dataset.batch(0, 6).targets.tolist() == [classes[each.split("/")[0]] for each in dataset.ids]
        assert set(dataset.ids) == {each.removesuffix(".JPEG") for each in names}

    def test_labels_of_v2_are_the_folders_numbers(self, tmp_path: Path) -> None:
        write_tree(tmp_path / "imagenet-v2", ["10/a.JPEG", "2/b.JPEG", "999/c.JPEG"], (300, 240))
        dataset = opened(tmp_path, "imagenet-v2")
        found = {each: dataset[index][1] for index, each in enumerate(dataset.ids)}
        assert found == {"10/a": 10, "2/b": 2, "999/c": 999}

    @pytest.mark.parametrize("letter", ["a", "r", "o"])
    def test_beside_a_subset_stand_the_images_of_its_classes_alone(self, tmp_path: Path, letter: str) -> None:
        _, names = declared_tree(tmp_path, f"imagenet-1k-{letter}-classes")
        write_tree(tmp_path / "imagenet-1k" / "val", ["n01440764/x.JPEG"], (300, 240))
        dataset = opened(tmp_path, f"imagenet-1k-{letter}-classes")
        assert len(dataset) == len(names) == 6
        assert len(opened(tmp_path, "imagenet-1k")) == 7

    def test_the_types_of_imagenet_c_have_their_ids_in_common(self, tmp_path: Path) -> None:
        declared_tree(tmp_path, "imagenet-c/fog/2")
        declared_tree(tmp_path, "imagenet-c/snow/5")
        fog, snow = opened(tmp_path, "imagenet-c/fog/2"), opened(tmp_path, "imagenet-c/snow/5")
        assert fog.ids == snow.ids
        # One string in memory, however many types are open.
        assert fog.ids[0] is snow.ids[0]

    def test_imagenet_c_is_cropped_and_never_resized(self, tmp_path: Path) -> None:
        declared_tree(tmp_path, "imagenet-c/fog/2", size=(224, 224))
        dataset = opened(tmp_path, "imagenet-c/fog/2")
        path = tmp_path / "imagenet-c" / "fog" / "2" / f"{dataset.ids[0]}.JPEG"
        expected = transforms.ToTensor()(pil_loader(str(path)))
        assert torch.equal(dataset[0][0], expected)
        cropped = opened(tmp_path, "imagenet-c/fog/2", preprocessing(resize=50, crop=40))
        assert torch.equal(cropped[0][0], transforms.CenterCrop(40)(expected))

    def test_a_crop_larger_than_imagenet_c_is_refused_before_an_image_is_read(self, tmp_path: Path) -> None:
        with pytest.raises(DeclarationError, match=r"published at 224x224 .* must be at most 224, got 256"):
            opened(tmp_path, "imagenet-c/fog/2", preprocessing(resize=288, crop=256))

    @pytest.mark.parametrize(("rule", "other"), [("bilinear", "bicubic"), ("bicubic", "bilinear")])
    def test_a_resize_rule_goes_before_the_checkpoint_s_filter(self, tmp_path: Path, rule: str, other: str) -> None:
        declared_tree(tmp_path, "imagenet-a")
        plain = opened(tmp_path, "imagenet-a", preprocessing(resize=40, crop=32, interpolation=rule))
        ruled = opened(tmp_path, f"imagenet-a/{rule}", preprocessing(resize=40, crop=32, interpolation=other))
        assert torch.equal(ruled[0][0], plain[0][0])

    def test_outcomes_under_another_rule_or_mask_are_never_taken_for_each_other(self, tmp_path: Path) -> None:
        # One class that all three subsets of ImageNet-1k have: the same images, masked in three ways or in none.
        shared = set.intersection(*(set(class_subset(each)) for each in ("imagenet-a", "imagenet-r", "imagenet-o")))
        write_tree(tmp_path / "imagenet-1k" / "val", [f"{min(shared)}/x.JPEG"], (300, 240))
        write_tree(tmp_path / "imagenet-a", [f"{min(shared)}/x.JPEG"], (300, 240))
        names = [f"imagenet-1k-{letter}-classes" for letter in "aro"]
        names += ["imagenet-1k", "imagenet-1k-a-classes/bilinear", "imagenet-1k-a-classes/bicubic"]
        fingerprints = {name: opened(tmp_path, name).identity.fingerprint for name in names}
        assert len(set(fingerprints.values())) == len(names)
        # The same bytes under the same mask and rule are the same measurement, wherever they lie.
        assert opened(tmp_path, "imagenet-a").identity.fingerprint == fingerprints["imagenet-1k-a-classes"]

    def test_the_fingerprint_names_mask_and_rule_before_the_images(self, tmp_path: Path) -> None:
        _, names = declared_tree(tmp_path, "imagenet-o/bilinear")
        place = tmp_path / "imagenet-o"
        lines = ["resize\tbilinear\n", f"classes\t{','.join(map(str, class_indices_of('imagenet-o')))}\n"]
        lines += [f"{each.removesuffix('.JPEG')}\t.JPEG\t{(place / each).stat().st_size}\n" for each in sorted(names)]
        expected = hashlib.sha256("".join(lines).encode()).hexdigest()
        assert opened(tmp_path, "imagenet-o/bilinear").identity.fingerprint == expected
