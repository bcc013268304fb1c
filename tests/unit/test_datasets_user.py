"""Users' datasets: what each format opens, what its fingerprint depends on, and what is refused."""

import os
import pickle
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from user_data import CLASSES, declared, scans, write_arrays, write_folder, write_list

from robench.core.declared import DatasetDeclaration
from robench.core.errors import DeclarationError, ExampleError, MissingDataError, RobenchError
from robench.core.protocols import ClassifiedDataset
from robench.datasets import DATASET_KINDS, image_files_impl, open_dataset
from robench.declarations.preprocessing import ImagePreprocessing
from robench.testing import check_dataset


def preprocessing(**fields: Any) -> ImagePreprocessing:
    return ImagePreprocessing(**{"mean": (0.5,) * 3, "std": (0.5,) * 3} | fields)


def opened(declaration: DatasetDeclaration, **fields: Any) -> Any:
    return open_dataset(declaration, data_root=None, preprocessing=preprocessing(**fields) if fields else None)


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
MODULE = """
from robench.datasets.digits import DIGITS_A
from dataclasses import replace

MINE = replace(DIGITS_A, name="mine")
OTHER = DIGITS_A
NUMBER = 3
"""


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
    assert {
        (CLASSES.index(order[label]), grey.tobytes()) for grey, label in zip(greys, batch.targets, strict=True)
    } == found
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
        (data / "one" / "1.PNG").rename(data / "one" / "1.png")
        prints.add(opened(declaration).identity.fingerprint)
        (data / "zero").rename(data / "a")
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

    def test_what_changes_nothing_is_not(self, tmp_path: Path) -> None:
        write_folder(tmp_path / "data")
        entry = "{kind: image-folder, path: %s, title: T, source: S, licence: L, num_classes: 4}"
        plain = opened(declared(tmp_path, "{kind: image-folder, path: data}")).identity
        assert opened(declared(tmp_path, entry % (tmp_path / "data"))).identity == plain

    def test_items_of_another_content_are_other_data(self, tmp_path: Path) -> None:
        ways = ["", "count: 11", "form: bytes"]
        found = [opened(declared(tmp_path, TARGET[:-1] + f", arguments: {{{way}}}}}")).identity for way in ways]
        # Grey bytes are the same pixels as grey images.
        assert found[0] == found[2] != found[1]


class TestSizes:
    def test_image_size_resizes_and_crops(self, tmp_path: Path) -> None:
        write_folder(tmp_path / "data", side=16)
        wide = Image.new("L", (40, 20), 200)
        wide.save(tmp_path / "data" / "one" / "wide.png")
        dataset = opened(declared(tmp_path, "{kind: image-folder, path: data, image_size: 24}"))
        assert dataset.batch(0, len(dataset)).inputs.shape == (41, 3, 24, 24)

    @pytest.mark.parametrize("make", [folder_of, list_of, bytes_of, items_of])
    def test_else_the_preprocessing_of_the_checkpoint_does(self, tmp_path: Path, make: Callable[[Path], Any]) -> None:
        declaration = make(tmp_path)
        small = opened(declaration, resize=20, crop=16).batch(0, 4)
        assert small.inputs.shape == (4, 3, 16, 16)
        assert opened(declaration, resize=20, crop=16).identity == opened(declaration).identity
        assert torch.equal(opened(declaration, resize=32, crop=32)[0][0], opened(declaration)[0][0].expand(3, -1, -1))

    @pytest.mark.parametrize("form", ["folder", "list"])
    def test_both_are_one_too_many(self, tmp_path: Path, form: str) -> None:
        write_folder(tmp_path / "data")
        write_list(tmp_path)
        entry = {
            "folder": "{kind: image-folder, path: data, image_size: 16}",
            "list": "{kind: csv, path: list.csv, image_size: 16}",
        }
        with pytest.raises(
            DeclarationError, match=r"image_size 16 in its entry, .* has resize 20; leave one of them out"
        ):
            opened(declared(tmp_path, entry[form]), resize=20)

    def test_floats_are_not_resized(self, tmp_path: Path) -> None:
        for declaration in (floats_of(tmp_path), declared(tmp_path, TARGET[:-1] + ", arguments: {form: floats}}")):
            assert opened(declaration, resize=32).identity.num_examples == 12
            with pytest.raises(DeclarationError, match="32x32 pixels as floats, which are not resized"):
                opened(declaration, resize=20)

    @pytest.mark.parametrize("make", [folder_of, bytes_of, items_of])
    def test_a_crop_larger_than_the_images_is_refused(self, tmp_path: Path, make: Callable[[Path], Any]) -> None:
        with pytest.raises(DeclarationError, match="32x32 pixels after resize None, smaller than crop 40"):
            opened(make(tmp_path), crop=40)

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
        labels = {
            example_id: int(label) for example_id, label in zip(dataset.ids, dataset.batch(0, 40).targets, strict=True)
        }
        assert labels["one/1.PNG"] == sorted(CLASSES).index("one")
        assert labels["zero/nested/0.png"] == sorted(CLASSES).index("zero")
        assert len(labels) == 40

    def test_a_link_to_images_elsewhere_is_followed(self, tmp_path: Path) -> None:
        root = write_folder(tmp_path / "data")
        (root / "two").rename(tmp_path / "elsewhere")
        (root / "two").symlink_to(tmp_path / "elsewhere")
        (root / "one" / "again.png").symlink_to(tmp_path / "elsewhere" / "2.PNG")
        assert len(opened(declared(tmp_path, "{kind: image-folder, path: data}"))) == 41

    @pytest.mark.parametrize(
        ("plant", "message"),
        [
            (
                lambda root: (root / "one" / "loop").symlink_to(root / "one"),
                "one/loop leads back to an enclosing folder",
            ),
            (lambda root: (root / "loop").symlink_to(root), r"loop leads back to an enclosing folder"),
            (
                lambda root: (root / "one" / "me").symlink_to(root / "one" / "me"),
                "cannot read .*levels of symbolic links",
            ),
            (lambda root: os.mkfifo(root / "one" / "x.png"), "one/x.png is not a regular file"),
            (lambda root: (root / "one" / "x.png").symlink_to("/dev/zero"), "one/x.png is not a regular file"),
            (lambda root: (root / "one" / "x.png").symlink_to(root / "gone"), "the link .*one/x.png leads nowhere"),
            (lambda root: (root / "five").mkdir(), "1 class folder without an image: .*/five. Put images there"),
            (lambda root: (root / "one" / os.fsdecode(b"\xff.png")).write_bytes(b"x"), "not UTF-8"),
        ],
    )
    def test_what_is_no_tree_of_images_is_refused(self, tmp_path: Path, plant: Any, message: str) -> None:
        plant(write_folder(tmp_path / "data"))
        with pytest.raises(MissingDataError, match=message):
            opened(declared(tmp_path, "{kind: image-folder, path: data}"))

    @pytest.mark.parametrize(
        ("names", "message"),
        [
            ([], "data does not exist. Correct path in its entry"),
            (["a.png", "b.png"], "data holds 2 images outside class folders. Expected a folder for each class"),
            (["notes.txt"], "data holds no class folders"),
            (["cat/a.png"], "has only one class in .*data, and a classifier needs two"),
        ],
    )
    def test_too_few_classes_are_refused(self, tmp_path: Path, names: list[str], message: str) -> None:
        for name in names:
            (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "data" / name).write_bytes(b"x")
        with pytest.raises(MissingDataError, match=message) as caught:
            opened(declared(tmp_path, "{kind: image-folder, path: data}"))
        assert caught.value.exit_code == 4

    def test_a_number_of_classes_that_is_stated_must_be_that_of_the_folders(self, tmp_path: Path) -> None:
        write_folder(tmp_path / "data")
        with pytest.raises(DeclarationError, match=r"has 4 class folders .*, and num_classes is 5"):
            opened(declared(tmp_path, "{kind: image-folder, path: data, num_classes: 5}"))

    def test_a_tree_without_end_is_cut_off(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        declaration = folder_of(tmp_path)
        monkeypatch.setattr(image_files_impl, "MOST_IMAGES", 39)
        with pytest.raises(MissingDataError, match="more than 39 images; check its links"):
            opened(declaration)

    def test_an_unreadable_image_is_named_when_it_is_read(self, tmp_path: Path) -> None:
        declaration = folder_of(tmp_path)
        (tmp_path / "data" / "one" / "1.PNG").write_bytes(b"no image")
        dataset = opened(declaration)
        with pytest.raises(ExampleError, match=r"cannot read image .*one/1.PNG: it is not recognised as an image"):
            dataset[dataset.ids.index("one/1.PNG")]


class TestLists:
    def test_columns_have_names_of_their_own(self, tmp_path: Path) -> None:
        text = write_list(tmp_path).read_text().replace("path,label", "File,Class")
        (tmp_path / "list.csv").write_text("\ufeff" + text)
        entry = "{kind: csv, path: list.csv, image_column: File, label_column: Class}"
        assert len(opened(declared(tmp_path, entry))) == 12
        with pytest.raises(DeclarationError, match=r"no column 'path'\..*Known: Class, File, remark"):
            opened(declared(tmp_path, "{kind: csv, path: list.csv}"))

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "no column 'path'. It is empty"),
            ("path,label,label\n", "2 columns 'label'"),
            ("path,label\n", "has no example"),
            ("path,label\n../x.png,1\n", r"line 2: \.\./x.png is not below the folder of the CSV file"),
            ("path,label\na/../../x.png,1\n", "line 2: .* is not below the folder"),
            ("path,label\n/etc/passwd,1\n", "line 2: /etc/passwd is not below the folder"),
            ("path,label\n0.png,1\nabsent.png,2\n", "line 3: cannot find image .*absent.png: No such file"),
            ("path,label\n0.png,1\n.,2\n", "line 3: the path of the image must name a file"),
            ("path,label\n0.png,1\nfolder,2\n", "line 3: image .*folder is not a regular file"),
            ("path,label\n0.png,1\n./0.png,2\n", "line 3: ./0.png was listed before, in line 2"),
            ("path,label\n0.png\n", "line 2: 1 columns, and the header has 2"),
            ("path,label\n0.png,\n", "line 2: label is empty"),
            ('path,label\n0.png,"1"x\n', "line 2: .*expected a CSV file"),
            ("path,label\n0.png,0\n1.png,-1\n", "has the label -1"),
            ("path,label\n0.png,0\n1.png,0\n", "has only one class"),
            ("path,label\n0.png,cat\n1.png,cat\n", "has only one class"),
            ("path,label\n0.png,\udcff\n", "not UTF-8"),
        ],
    )
    def test_a_wrong_list_is_refused_by_its_line(self, tmp_path: Path, text: str, message: str) -> None:
        write_list(tmp_path)
        (tmp_path / "folder").mkdir()
        (tmp_path / "list.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
        with pytest.raises((MissingDataError, DeclarationError), match=message):
            opened(declared(tmp_path, "{kind: csv, path: list.csv}"))

    def test_labels_beyond_the_stated_classes_are_refused(self, tmp_path: Path) -> None:
        write_list(tmp_path / "a", names=False)
        write_list(tmp_path / "b")
        with pytest.raises(DeclarationError, match=r"has the label 3 .* num_classes is 3: labels must be 0 to 2"):
            opened(declared(tmp_path, "{kind: csv, path: a/list.csv, num_classes: 3}"))
        with pytest.raises(DeclarationError, match="has 4 different labels, and num_classes is 5"):
            opened(declared(tmp_path, "{kind: csv, path: b/list.csv, num_classes: 5}"))

    @pytest.mark.parametrize("place", ["absent.csv", "/dev/zero", "."])
    def test_what_is_no_file_is_refused(self, tmp_path: Path, place: str) -> None:
        with pytest.raises(MissingDataError, match="dataset 'mine'"):
            opened(declared(tmp_path, f"{{kind: csv, path: {place}}}"))


class TestChannels:
    def test_arrays_have_any_number_of_channels(self, tmp_path: Path) -> None:
        bands = np.arange(2 * 9 * 9 * 7, dtype=np.uint8).reshape(2, 9, 9, 7)
        np.savez(tmp_path / "x.npz", inputs=bands, targets=np.array([0, 1]))
        declaration = declared(tmp_path, "{kind: npz, path: x.npz}")
        batch = opened(declaration).batch(0, 2)
        found = {image.tobytes() for image in (batch.inputs * 255).round().to(torch.uint8).numpy()}
        assert found == {np.ascontiguousarray(image.transpose(2, 0, 1)).tobytes() for image in bands}
        small = opened(declaration, crop=3, mean=(0.5,) * 7, std=(0.5,) * 7).batch(0, 2)
        assert torch.equal(small.inputs, batch.inputs[:, :, 3:6, 3:6])
        with pytest.raises(DeclarationError, match="images of 7 channels, and the preprocessing has mean and std of 3"):
            opened(declaration, mean=(0.5,) * 3, std=(0.5,) * 3)

    def test_image_files_are_grey_for_a_model_of_one_channel(self, tmp_path: Path) -> None:
        declaration = folder_of(tmp_path)
        grey = opened(declaration, mean=(0.5,), std=(0.5,)).batch(0, 4).inputs
        assert torch.equal(grey.expand(-1, 3, -1, -1), opened(declaration).batch(0, 4).inputs)

    def test_image_files_have_no_two_channels(self, tmp_path: Path) -> None:
        with pytest.raises(ExampleError, match="cannot be given with 2 channels: image files have 1, 3, 4"):
            opened(folder_of(tmp_path), mean=(0.5,) * 2, std=(0.5,) * 2).batch(0, 4)


class TestArrays:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"inputs": np.array([{}, {}])}, "cannot be read without pickle"),
            ({"targets": np.array([None] * 12)}, "cannot be read without pickle"),
            (
                {"inputs": np.zeros((12, 32), np.uint8)},
                r"must have the shape \(N, height, width\) or .* got uint8 \(12, 32\)",
            ),
            ({"inputs": np.zeros((12, 3, 32, 32), np.uint8)}, r"width, channels\), got uint8 \(12, 3, 32, 32\)"),
            ({"inputs": np.zeros((12, 8, 8, 3), np.float32)}, r"\(N, channels, height, width\), got float32"),
            ({"inputs": np.zeros((12, 0, 8), np.uint8)}, "must have the shape"),
            ({"inputs": np.zeros((12, 8, 8), np.int64)}, "must be uint8, or floats in .* got int64"),
            ({"inputs": np.full((12, 1, 8, 8), np.nan)}, r"must lie in \[0, 1\], got nan in image 0"),
            (
                {"inputs": np.eye(12)[:, :, None, None].repeat(1, 1)[:, :1] * 255},
                "got 255 in image 0; divide 8-bit values",
            ),
            ({"inputs": -np.eye(12)[:, 3:4, None, None]}, "got -1 in image 3"),
            ({"targets": np.arange(11)}, r"must be 12 whole numbers, .* of the shape \(11,\)"),
            (
                {"targets": np.arange(12, dtype=np.uint64) + 2**63},
                "has the label 9223372036854775819; labels are whole",
            ),
            ({"targets": np.arange(12.0)}, "must be 12 whole numbers, one an example, got float64"),
            ({"targets": np.arange(12) - 1}, "has the label -1"),
            ({"targets": np.zeros(12, int)}, "has only one class"),
            ({"inputs": np.zeros((0, 8, 8), np.uint8), "targets": np.zeros(0, int)}, "has no example"),
        ],
    )
    def test_what_is_no_images_and_labels_is_refused(self, tmp_path: Path, changes: Any, message: str) -> None:
        write_arrays(tmp_path / "x.npz", **changes)
        with pytest.raises(MissingDataError, match=message):
            opened(declared(tmp_path, "{kind: npz, path: x.npz}"))

    @pytest.mark.parametrize(
        ("names", "fields", "message"),
        [
            (
                "x_train y_train",
                "",
                "no array 'inputs' and 'targets'. Known: x_train, y_train. Name them by inputs and",
            ),
            ("inputs y", "", "no array 'targets'. Known: inputs, y. Name it by targets in"),
            ("images labels", ", inputs: image", "no array 'image' and 'targets'. Known"),
            ("images masks", "", "no array 'inputs' and 'targets'"),
            (
                "images labels x_test y_test",
                "",
                "has several pairs of arrays, images and labels, x_test and y_test; st",
            ),
        ],
    )
    def test_all_missing_arrays_are_named_at_once(self, tmp_path: Path, names: str, fields: str, message: str) -> None:
        np.savez(tmp_path / "x.npz", **dict.fromkeys(names.split(), np.zeros(3)))
        with pytest.raises(DeclarationError, match=message):
            opened(declared(tmp_path, f"{{kind: npz, path: x.npz{fields}}}"))

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
    def test_the_only_usual_pair_is_taken_as_if_it_were_named(
        self, tmp_path: Path, names: str, others: str, fields: str
    ) -> None:
        (images, labels), (x, y) = scans(12), names.split()
        # Keras and MedMNIST have labels (N, 1).
        np.savez(tmp_path / "x.npz", **{x: images, y: labels[:, None]}, **dict.fromkeys(others.split(), np.zeros(2)))
        found = opened(declared(tmp_path, f"{{kind: npz, path: x.npz{fields}}}"))
        assert (
            found.identity
            == opened(declared(tmp_path, f"{{kind: npz, path: x.npz, inputs: {x}, targets: {y}}}")).identity
        )
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

    @pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 broken", pickle.dumps({})])
    def test_another_file_is_refused(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "x.npz").write_bytes(content)
        with pytest.raises(MissingDataError, match="is not an npz file"):
            opened(declared(tmp_path, "{kind: npz, path: x.npz}"))

    def test_a_single_array_and_no_file_are_refused(self, tmp_path: Path) -> None:
        np.save(tmp_path / "x.npy", np.zeros(3))
        with pytest.raises(MissingDataError, match="has a single array"):
            opened(declared(tmp_path, "{kind: npz, path: x.npy}"))
        with pytest.raises(MissingDataError, match="does not exist"):
            opened(declared(tmp_path, "{kind: npz, path: y.npz}"))
        with pytest.raises(MissingDataError, match=r"cannot read .*: it is a device"):
            opened(declared(tmp_path, "{kind: npz, path: /dev/zero}"))

    def test_labels_beyond_the_stated_classes_are_refused(self, tmp_path: Path) -> None:
        write_arrays(tmp_path / "x.npz")
        with pytest.raises(DeclarationError, match=r"has the label 3 .* num_classes is 3"):
            opened(declared(tmp_path, "{kind: npz, path: x.npz, num_classes: 3}"))
        assert opened(declared(tmp_path, "{kind: npz, path: x.npz, num_classes: 9}")).num_classes == 9


class TestItems:
    @pytest.mark.parametrize("form", ["image", "bytes", "floats"])
    def test_images_and_tensors_are_the_same_pixels(self, tmp_path: Path, form: str) -> None:
        dataset = opened(declared(tmp_path, TARGET[:-1] + f", arguments: {{form: {form}}}}}"))
        assert torch.equal(dataset.batch(0, 12).inputs, opened(items_of(tmp_path)).batch(0, 12).inputs)

    @pytest.mark.parametrize(
        ("form", "message"),
        [
            ("nothing", "item 0 of .*: must be a pair of image and label, got ndarray"),
            ("text", "item 0 of .*: must have a whole number for a label, got str"),
            ("grey levels", r"item 0 of .*: must have uint8 values, or floats in \[0, 1\]"),
            ("flat", r"item 0 of .*: must have an image of Pillow's, or a tensor .* got Tensor \(32, 32\)"),
        ],
    )
    def test_items_that_are_no_images_and_labels_are_refused(self, tmp_path: Path, form: str, message: str) -> None:
        with pytest.raises(MissingDataError, match=message):
            opened(declared(tmp_path, TARGET[:-1] + f", arguments: {{form: {form}}}}}"))

    @pytest.mark.parametrize(
        ("entry", "error", "message"),
        [
            ("{kind: torchvision, target: 'test_datasets_user:Absent'}", DeclarationError, "is not a class"),
            ("{kind: torchvision, target: 'no_such_module:X'}", DeclarationError, "no module 'no_such_module'"),
            (TARGET[:-1] + ", arguments: {size: 3}}", MissingDataError, "raised TypeError.*Check its arguments"),
            (
                "{kind: torchvision, target: 'torchvision.datasets:MNIST', arguments: {root: absent, train: false}}",
                MissingDataError,
                "raised RuntimeError: Dataset not found",
            ),
        ],
    )
    def test_a_class_that_cannot_be_made_is_named(
        self, tmp_path: Path, entry: str, error: type[RobenchError], message: str
    ) -> None:
        with pytest.raises(error, match=message):
            opened(declared(tmp_path, entry))

    def test_torchvisions_own_image_folder_agrees_with_robenchs(self, tmp_path: Path) -> None:
        mine = opened(folder_of(tmp_path))
        entry = "{kind: torchvision, target: 'torchvision.datasets:ImageFolder', arguments: {root: data}}"
        theirs = opened(declared(tmp_path, entry))

        def content(dataset: Any) -> list[tuple[int, bytes]]:
            batch = dataset.batch(0, len(dataset))
            return sorted(
                (int(label), image.numpy().tobytes()) for image, label in zip(batch.inputs, batch.targets, strict=True)
            )

        assert content(mine) == content(theirs)

    def test_download_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(DeclarationError, match="must not have download: robench downloads nothing"):
            declared(tmp_path, TARGET[:-1] + ", arguments: {download: true}}")


class TestPython:
    @pytest.mark.parametrize(
        ("entry", "message"),
        [
            ("{kind: python, target: 'my_data_module:OTHER'}", "has the name 'digits-a'; give the entry the same name"),
            ("{kind: python, target: 'my_data_module:NUMBER'}", "is of type int, wanted an instance of robench"),
            ("{kind: python, target: 'my_data_module:ABSENT'}", "there is no ABSENT in my_data_module"),
            ("{kind: python, target: 'my_data_module:MINE', arguments: {a: 1}}", "arguments must be left out"),
            ("{kind: python, target: 'no_such_module:X'}", "no module 'no_such_module'"),
            ("{kind: python, target: nonsense}", "target: must be package.module:NAME, got nonsense"),
        ],
    )
    def test_a_target_that_is_no_dataset_is_a_problem_of_its_entry(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str, message: str
    ) -> None:
        (tmp_path / "my_data_module.py").write_text(MODULE)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "my_data_module", raising=False)
        with pytest.raises(DeclarationError, match=rf"(?s)line 2: datasets.mine.*{message}"):
            declared(tmp_path, entry)


def test_equal_declarations_are_one_key_of_a_mapping(tmp_path: Path) -> None:
    """Runs open each dataset once, by its declaration."""
    first, second = (declared(tmp_path, TARGET[:-1] + ", arguments: {count: 11}}") for _ in range(2))
    assert len({first, second, items_of(tmp_path)}) == 2
    assert pickle.loads(pickle.dumps(first)) == first
    assert replace(first, title="T") != first  # type: ignore[type-var]  # a dataclass
