"""Users' datasets: what each format opens, what its fingerprint depends on, and what is refused."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from user_data import CLASSES, declared, opened, scans, write_arrays, write_folder, write_list

from robench.core.declared import DatasetDeclaration
from robench.core.errors import DeclarationError, ExampleError, MissingDataError
from robench.core.protocols import ClassifiedDataset
from robench.datasets import DATASET_KINDS, image_files_impl
from robench.testing import check_dataset


class Digits:
    """A dataset as torchvision's are: items of an image and a label."""

    def __init__(self, count: int = 12, form: str = "image") -> None:
        self.images, self.labels = scans(count)
        self.form = form

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> object:
        image, label = self.images[index], int(self.labels[index])
        if self.form == "image":
            return Image.fromarray(image), label
        if self.form == "bytes":
            return torch.from_numpy(image)[None], torch.tensor(label)
        if self.form == "floats":
            return torch.from_numpy(image)[None] / 255, label
        if self.form == "grey levels":
            return torch.from_numpy(image)[None].float(), label
        if self.form == "flat":
            return torch.from_numpy(image), label
        if self.form == "text":
            return Image.fromarray(image), "one"
        return image


TARGET = "{kind: torchvision, target: 'test_datasets_user:Digits'}"


def folder_of(root: Path) -> DatasetDeclaration:
    write_folder(root / "data")
    return declared(root, "{kind: image-folder, path: data}")


def list_of(root: Path) -> DatasetDeclaration:
    write_list(root / "data")
    return declared(root, "{kind: csv, path: data/list.csv}")


def bytes_of(root: Path) -> DatasetDeclaration:
    write_arrays(root / "x.npz")
    return declared(root, "{kind: npz, path: x.npz}")


def floats_of(root: Path) -> DatasetDeclaration:
    images, labels = scans(12)
    np.savez(root / "x.npz", x=(images[:, None] / 255).astype(np.float64), y=labels)
    return declared(root, "{kind: npz, path: x.npz, inputs: x, targets: y}")


def items_of(root: Path) -> DatasetDeclaration:
    return declared(root, TARGET)


def python_of(root: Path) -> DatasetDeclaration:
    return declared(root, "{kind: python, target: 'user_data:MINE'}")


FORMATS = (folder_of, list_of, bytes_of, floats_of, items_of, python_of)


@pytest.mark.parametrize("make", FORMATS)
def test_each_format_keeps_what_all_datasets_promise(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    check_dataset(make(tmp_path))


def test_a_format_of_every_kind_is_checked() -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_datasets*.py"))
    assert [kind for kind in DATASET_KINDS if f"kind: {kind}" not in tests] == []


@pytest.mark.parametrize("make", FORMATS[:5])
def test_each_format_has_the_images_and_labels_of_its_files(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    dataset = opened(make(tmp_path))
    images, labels = scans(len(dataset))
    batch = dataset.batch(0, len(dataset))
    found = {(int(label), image.tobytes()) for image, label in zip(images, labels, strict=True)}
    greys = (batch.inputs * 255).round().to(torch.uint8)[:, 0].numpy()
    # Folders and names of a list are classes in sorted order.
    order = sorted(CLASSES) if make in (folder_of, list_of) else list(CLASSES)
    rows = zip(greys, batch.targets, strict=True)
    assert {(CLASSES.index(order[label]), grey.tobytes()) for grey, label in rows} == found
    # Image files are decoded to colour; grey arrays and items keep their channel, unless a model wants three.
    assert batch.inputs.shape[1] == (1 if make in (bytes_of, floats_of, items_of) else 3)
    (tmp_path / "again").mkdir()
    coloured = opened(make(tmp_path / "again"), mean=(0.5,) * 3, std=(0.5,) * 3).batch(0, len(dataset)).inputs
    assert torch.equal(coloured, batch.inputs.expand(-1, 3, -1, -1))
    assert isinstance(dataset, ClassifiedDataset)
    assert dataset.num_classes == 4


class TestFingerprints:
    def test_one_of_a_tree_is_of_paths_sizes_and_labels_and_not_of_pixels_or_places(self, tmp_path: Path) -> None:
        first, second = folder_of(tmp_path / "a"), folder_of(tmp_path / "b")
        before = opened(first).identity
        assert opened(second).identity == before
        image = tmp_path / "a" / "data" / "one" / "1.PNG"
        content = bytearray(image.read_bytes())
        content[-20] ^= 1
        image.write_bytes(content)
        assert opened(first).identity == before
        image.write_bytes(content + b"0")
        assert opened(first).identity.fingerprint != before.fingerprint

    def test_a_renamed_class_and_a_renamed_file_are_other_data(self, tmp_path: Path) -> None:
        declaration, data = folder_of(tmp_path), tmp_path / "data"
        prints = {opened(declaration).identity.fingerprint}
        for before, after in (("one/1.PNG", "one/1.png"), ("zero", "a")):
            (data / before).rename(data / after)
            prints.add(opened(declaration).identity.fingerprint)
        assert len(prints) == 3

    def test_one_of_a_file_is_of_its_bytes(self, tmp_path: Path) -> None:
        declaration = bytes_of(tmp_path)
        before = opened(declaration).identity.fingerprint
        images, labels = scans(12)
        images[3, 0, 0] ^= 1
        write_arrays(tmp_path / "x.npz", inputs=images, targets=labels)
        assert opened(declaration).identity.fingerprint != before

    def test_what_changes_pixels_or_ids_is_in_it(self, tmp_path: Path) -> None:
        write_folder(tmp_path / "data")
        entries = ["{kind: image-folder, path: data}", "{kind: image-folder, path: data, image_size: 16}"]
        found = [opened(declared(tmp_path, each)).identity.fingerprint for each in entries]
        found.append(opened(declared(tmp_path, entries[0], name="yours")).identity.fingerprint)
        assert len(set(found)) == 3
        # What changes neither is not in it.
        entry = "{kind: image-folder, path: %s, title: T, source: S, licence: L, num_classes: 4}"
        assert opened(declared(tmp_path, entry % (tmp_path / "data"))).identity.fingerprint == found[0]

    def test_items_of_another_content_are_other_data(self, tmp_path: Path) -> None:
        ways = ["", "count: 11", "form: bytes"]
        found = [opened(declared(tmp_path, TARGET[:-1] + f", arguments: {{{way}}}}}")).identity for way in ways]
        # Grey bytes are the same pixels as grey images.
        assert found[0] == found[2] != found[1]


class TestSizes:
    def test_image_size_resizes_and_crops(self, tmp_path: Path) -> None:
        write_folder(tmp_path / "data", side=16)
        Image.new("L", (40, 20), 200).save(tmp_path / "data" / "one" / "wide.png")
        dataset = opened(declared(tmp_path, "{kind: image-folder, path: data, image_size: 24}"))
        assert dataset.batch(0, len(dataset)).inputs.shape == (41, 3, 24, 24)

    @pytest.mark.parametrize("make", [folder_of, list_of, bytes_of, items_of])
    def test_else_the_preprocessing_of_the_checkpoint_does(self, tmp_path: Path, make: Callable[[Path], Any]) -> None:
        declaration = make(tmp_path)
        small = opened(declaration, resize=20, crop=16).batch(0, 4)
        assert small.inputs.shape == (4, 3, 16, 16)
        assert opened(declaration, resize=20, crop=16).identity == opened(declaration).identity
        assert torch.equal(opened(declaration, resize=32, crop=32)[0][0], opened(declaration)[0][0].expand(3, -1, -1))

    def test_floats_of_the_size_asked_for_are_left(self, tmp_path: Path) -> None:
        for declaration in (floats_of(tmp_path), declared(tmp_path, TARGET[:-1] + ", arguments: {form: floats}}")):
            assert opened(declaration, resize=32).identity.num_examples == 12

    def test_images_of_two_sizes_are_refused_before_they_are_measured(self, tmp_path: Path) -> None:
        declaration = folder_of(tmp_path)
        Image.new("L", (40, 20)).save(tmp_path / "data" / "one" / "wide.png")
        with pytest.raises(DeclarationError, match=r"images of different sizes: .* State image_size in its entry"):
            opened(declaration)
        assert len(opened(declaration, resize=16, crop=16)) == 41
        with pytest.raises(DeclarationError, match=r"of different sizes: .*32x16"):
            opened(declaration, resize=16)

    def test_a_size_that_shows_late_costs_its_own_batch(self, tmp_path: Path) -> None:
        declaration = folder_of(tmp_path)
        dataset = opened(declaration)
        last = tmp_path / "data" / dataset.ids[-1]
        Image.new("L", (48, 48)).save(last)
        with pytest.raises(ExampleError, match=f"{last.name} is 48x48 pixels .* are 32x32; give all images one size"):
            dataset[-1]
        assert len(dataset.batch(0, 39).ids) == 39


class TestTrees:
    def test_classes_are_folders_sorted_as_text_and_hidden_names_are_left_out(self, tmp_path: Path) -> None:
        root = write_folder(tmp_path / "data")
        for name in (".git/a.png", "one/._1.png", "one/.cache/x.png", "one/notes.txt", "loose.png"):
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_bytes(b"x")
        dataset = opened(declared(tmp_path, "{kind: image-folder, path: data}"))
        labels = dict(zip(dataset.ids, dataset.batch(0, 40).targets.tolist(), strict=True))
        assert labels["one/1.PNG"] == sorted(CLASSES).index("one")
        assert labels["zero/nested/0.png"] == sorted(CLASSES).index("zero")
        assert len(labels) == 40

    def test_a_link_to_images_elsewhere_is_followed(self, tmp_path: Path) -> None:
        root = write_folder(tmp_path / "data")
        (root / "two").rename(tmp_path / "elsewhere")
        (root / "two").symlink_to(tmp_path / "elsewhere")
        (root / "one" / "again.png").symlink_to(tmp_path / "elsewhere" / "2.PNG")
        assert len(opened(declared(tmp_path, "{kind: image-folder, path: data}"))) == 41

    def test_a_tree_without_end_is_cut_off(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(image_files_impl, "MOST_IMAGES", 39)
        with pytest.raises(MissingDataError, match="more than 39 images; check its links"):
            opened(folder_of(tmp_path))


class TestLists:
    def test_columns_have_names_of_their_own(self, tmp_path: Path) -> None:
        text = write_list(tmp_path).read_text().replace("path,label", "File,Class")
        (tmp_path / "list.csv").write_text("\ufeff" + text)
        entry = "{kind: csv, path: list.csv, image_column: File, label_column: Class}"
        assert len(opened(declared(tmp_path, entry))) == 12
        with pytest.raises(DeclarationError, match=r"no column 'path'\..*Known: Class, File, remark"):
            opened(declared(tmp_path, "{kind: csv, path: list.csv}"))


class TestChannels:
    def test_arrays_have_any_number_of_channels(self, tmp_path: Path) -> None:
        bands = np.arange(2 * 9 * 9 * 7, dtype=np.uint8).reshape(2, 9, 9, 7)
        np.savez(tmp_path / "x.npz", inputs=bands, targets=np.array([0, 1]))
        declaration = declared(tmp_path, "{kind: npz, path: x.npz}")
        batch = opened(declaration).batch(0, 2)
        found = {image.tobytes() for image in (batch.inputs * 255).round().to(torch.uint8).numpy()}
        assert found == {np.ascontiguousarray(image.transpose(2, 0, 1)).tobytes() for image in bands}
        assert opened(declared(tmp_path, "{kind: npz, path: x.npz, num_classes: 9}")).num_classes == 9
        small = opened(declaration, crop=3, mean=(0.5,) * 7, std=(0.5,) * 7).batch(0, 2)
        assert torch.equal(small.inputs, batch.inputs[:, :, 3:6, 3:6])
        with pytest.raises(DeclarationError, match="images of 7 channels, and the preprocessing has mean and std of 3"):
            opened(declaration, mean=(0.5,) * 3, std=(0.5,) * 3)

    def test_image_files_are_grey_for_a_model_of_one_channel(self, tmp_path: Path) -> None:
        declaration = folder_of(tmp_path)
        grey = opened(declaration, mean=(0.5,), std=(0.5,)).batch(0, 4).inputs
        assert torch.equal(grey.expand(-1, 3, -1, -1), opened(declaration).batch(0, 4).inputs)


class TestArrays:
    @pytest.mark.parametrize(
        ("names", "others", "fields"),
        [
            ("images labels", "masks", ""),
            ("x_test y_test", "x_train y_train", ""),
            ("test_images test_labels", "train_images train_labels val_images val_labels", ""),
            ("X y", "", ""),
            ("images labels", "x_test y_test", ", inputs: images"),
            ("inputs targets", "images labels", ""),
        ],
    )
    def test_the_only_usual_pair_is_taken(self, tmp_path: Path, names: str, others: str, fields: str) -> None:
        (images, labels), (x, y) = scans(12), names.split()
        # Keras and MedMNIST have labels (N, 1).
        np.savez(tmp_path / "x.npz", **{x: images, y: labels[:, None]}, **dict.fromkeys(others.split(), np.zeros(2)))
        found = opened(declared(tmp_path, f"{{kind: npz, path: x.npz{fields}}}"))
        named = declared(tmp_path, f"{{kind: npz, path: x.npz, inputs: {x}, targets: {y}}}")
        assert found.identity == opened(named).identity
        assert found.batch(0, 12).targets.tolist() == [labels[int(each[-6:])] for each in found.ids]

    def test_usual_pairs_of_series_and_masks(self, tmp_path: Path) -> None:
        for split in ("test", "train"):
            arrays = {f"x_{split}": np.ones((4, 5, 2)) * range(2), f"y_{split}": np.array([0, 1, 0, 1])}
            np.savez(tmp_path / f"{split}.npz", **arrays)
        entry = "{kind: npz, domain: series, path: test.npz, train: train.npz, standardise: false}"
        assert len(opened(declared(tmp_path, entry))) == 4
        np.savez(tmp_path / "m.npz", images=scans(4)[0], masks=np.ones((4, 32, 32), int), labels=np.arange(4))
        masks = opened(declared(tmp_path, "{kind: npz, task: segmentation, path: m.npz}")).batch(0, 4).targets
        assert masks.shape == (4, 32, 32)


class TestItems:
    @pytest.mark.parametrize("form", ["image", "bytes", "floats"])
    def test_images_and_tensors_are_the_same_pixels(self, tmp_path: Path, form: str) -> None:
        dataset = opened(declared(tmp_path, TARGET[:-1] + f", arguments: {{form: {form}}}}}"))
        assert torch.equal(dataset.batch(0, 12).inputs, opened(items_of(tmp_path)).batch(0, 12).inputs)

    def test_torchvisions_own_image_folder_agrees_with_robenchs(self, tmp_path: Path) -> None:
        mine = opened(folder_of(tmp_path))
        entry = "{kind: torchvision, target: 'torchvision.datasets:ImageFolder', arguments: {root: data}}"
        theirs = opened(declared(tmp_path, entry))

        def content(dataset: Any) -> list[tuple[int, bytes]]:
            batch = dataset.batch(0, len(dataset))
            rows = zip(batch.inputs, batch.targets, strict=True)
            return sorted((int(label), image.numpy().tobytes()) for image, label in rows)

        assert content(mine) == content(theirs)


def test_equal_declarations_are_one_key_of_a_mapping(tmp_path: Path) -> None:
    """Runs open each dataset once, by its declaration."""
    first, second = (declared(tmp_path, TARGET[:-1] + ", arguments: {count: 11}}") for _ in range(2))
    assert len({first, second, items_of(tmp_path)}) == 2
    assert pickle.loads(pickle.dumps(first)) == first
    assert replace(first, title="T") != first  # type: ignore[type-var]  # a dataclass
