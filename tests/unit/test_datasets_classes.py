"""Order of the classes of users' datasets: as stated or as text, in timm's reader too, and what is said of them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from timm.data.readers.reader_factory import create_reader
from user_data import declared, opened, scans, write_arrays, write_folder

from robench.core.errors import DeclarationError
from robench.datasets.findings import Verification
from robench.datasets.verification import verify
from robench.training.class_order import in_robench_order

# Text has 10 and 11 before 2, timm's natural order has not.
NUMBERS = [str(number) for number in range(12)]


def write_classes(root: Path, names: Sequence[str]) -> Path:
    """Write a grey image for each class."""
    for number, name in enumerate(names):
        (root / name).mkdir(parents=True)
        Image.fromarray(np.full((4, 4), number, np.uint8)).save(root / name / "x.png")
    return root


def classes_of(root: Path, entry: str) -> dict[str, int]:
    """Return the class of each example's folder, or of the number in its id."""
    dataset = opened(declared(root, entry))
    targets = dataset.batch(0, len(dataset)).targets.tolist()
    return {each.partition("/")[0]: target for each, target in zip(dataset.ids, targets, strict=True)}


def verified(root: Path, entry: str, *, decode: bool = False) -> Verification:
    (found,) = verify("mine", None, decode=decode, datasets={"mine": declared(root, entry)})
    return found


def messages(found: Verification) -> list[str]:
    assert found.is_whole
    return [each.message for each in found.findings]


def test_class_folders_are_in_the_order_of_text_or_of_the_entry(tmp_path: Path) -> None:
    write_classes(tmp_path / "data", NUMBERS)
    assert classes_of(tmp_path, "{kind: image-folder, path: data}") == {n: i for i, n in enumerate(sorted(NUMBERS))}
    entry = f"{{kind: image-folder, path: data, class_names: [{', '.join(map(repr, NUMBERS))}]}}"
    assert classes_of(tmp_path, entry) == {name: int(name) for name in NUMBERS}
    with pytest.raises(DeclarationError, match="has the class '0', which is not in class_names of its entry"):
        classes_of(tmp_path, entry.replace("'0', ", ""))
    with pytest.raises(DeclarationError, match="class_names: must be 13 names, as many as num_classes, got 12"):
        classes_of(tmp_path, entry[:-1] + ", num_classes: 13}")


def test_a_class_of_the_entry_without_a_folder_keeps_its_number_and_is_named(tmp_path: Path) -> None:
    write_folder(tmp_path / "data", num_images=8)
    entry = "{kind: image-folder, path: data, class_names: [one, four, zero, three, two]}"
    assert classes_of(tmp_path, entry) == {"one": 0, "zero": 2, "three": 3, "two": 4}
    found = verified(tmp_path, entry)
    assert found.classes == (("one", 2), ("four", 0), ("zero", 2), ("three", 2), ("two", 2))
    assert messages(found) == ["1 class has no example: 1 ('four')"]


@pytest.mark.parametrize(
    ("entry", "written"),
    [
        ("{kind: csv, path: t, text_column: text", "text,label\na,10\nb,2\nc,1\n"),
        ("{kind: csv, path: t, text_column: text", "text,label\na,10.0\nb,2.0\nc,1.0\n"),
        ("{kind: jsonl, path: t", '{"text": "a", "label": 10}\n{"text": "b", "label": 2}\n{"text": "c", "label": 1}\n'),
        ("{kind: series-csv, path: t", "series,step,x,label\na,0,1,10\nb,0,2,2\nc,0,3,1\n"),
        ("{kind: ts, path: t", "@classLabel true 1 10 2\n@data\n1,2:10\n2,3:2\n4,5:1\n"),
    ],
)
def test_names_of_tables_are_in_the_order_of_the_entry(tmp_path: Path, entry: str, written: str) -> None:
    (tmp_path / "t").write_text(written)
    dataset = opened(declared(tmp_path, f"{entry}, class_names: ['1', '2', '5', '10']}}"))
    found = dict(zip(dataset.ids, dataset.batch(0, 3).targets.tolist(), strict=True))
    assert [found[each] for each in sorted(found)] == [3, 1, 0]
    assert dataset.num_classes == 4


def test_class_names_of_a_table_of_numbers_name_them_and_unknown_names_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("text,label\na,1\nb,0\n")
    entry = "{kind: csv, path: t, text_column: text, class_names: [bad, good, mixed]}"
    assert verified(tmp_path, entry).classes == (("bad", 1), ("good", 1), ("mixed", 0))
    (tmp_path / "t").write_text("text,label\na,good\nb,goood\n")
    with pytest.raises(DeclarationError, match=r"has the class 'goood', .* Did you mean 'good'"):
        classes_of(tmp_path, entry)


def test_verify_says_how_names_with_numbers_are_sorted_and_that_labels_begin_at_1(tmp_path: Path) -> None:
    write_classes(tmp_path / "data", ["class 1", "class 2", "class 10"])
    found = verified(tmp_path, "{kind: image-folder, path: data}")
    assert [name for name, _ in found.classes] == ["class 1", "class 10", "class 2"]
    (message,) = messages(found)
    assert "sorted as text" in message
    assert "class 1 is 'class 10', and by number it would be 'class 2'" in message
    write_arrays(tmp_path / "x.npz", targets=np.arange(12) % 3 + 1)
    found = verified(tmp_path, "{kind: npz, path: x.npz}")
    assert found.classes == (("0", 0), ("1", 4), ("2", 4), ("3", 4))
    assert messages(found) == ["1 class has no example: 0. Labels seem to begin at 1, and class numbers begin at 0"]


@pytest.mark.parametrize("kind", ["folders", "npz"])
def test_a_class_that_no_mask_has_is_named(tmp_path: Path, kind: str) -> None:
    images, _ = scans(3)
    masks = np.zeros((3, 32, 32), np.uint8)
    masks[1:, 4:] = 2
    masks[0, :4] = 255
    fields = "class_names: [road, sky, tree], ignore_index: 255}"
    if kind == "npz":
        np.savez(tmp_path / "x.npz", inputs=images, targets=masks)
        found = verified(tmp_path, f"{{kind: npz, task: segmentation, path: x.npz, {fields}")
    else:
        for folder, arrays in (("images", images), ("masks", masks)):
            (tmp_path / folder).mkdir()
            for number, array in enumerate(arrays):
                Image.fromarray(array).save(tmp_path / folder / f"{number}.png")
        found = verified(tmp_path, f"{{kind: image-masks, path: images, masks: masks, {fields}", decode=True)
    assert found.classes == (("road", 3), ("sky", 0), ("tree", 2))
    assert messages(found) == ["1 class has no example: 1 ('sky')"]


@pytest.mark.parametrize("order", [None, NUMBERS, ["12", *reversed(NUMBERS)]])
def test_timms_reader_numbers_classes_as_robench_does(tmp_path: Path, order: list[str] | None) -> None:
    write_classes(tmp_path / "data", NUMBERS)
    stated = "" if order is None else f", class_names: [{', '.join(map(repr, order))}]"
    wanted = classes_of(tmp_path, f"{{kind: image-folder, path: data{stated}}}")

    def found(**arguments: str) -> dict[str, int]:
        reader = create_reader("", str(tmp_path / "data"), **arguments)
        return {reader.filename(place).partition("/")[0]: target for place, (_, target) in enumerate(reader.samples)}

    with in_robench_order([["a", "b"], *([] if order is None else [order])]):
        assert found() == wanted
        # A class map of the script decides.
        (tmp_path / "map.txt").write_text("\n".join(NUMBERS))
        assert found(class_map=str(tmp_path / "map.txt")) == {name: int(name) for name in NUMBERS}
    assert found() == {name: int(name) for name in NUMBERS}
    with in_robench_order([NUMBERS, sorted(NUMBERS)]), pytest.raises(DeclarationError, match="several entries"):
        found()


def kinds(found: Verification) -> dict[str, str]:
    assert found.is_whole
    return {each.kind: each.message for each in found.findings}


def test_files_left_out_are_counted_by_ending_and_odd_folders_are_noted(tmp_path: Path) -> None:
    write_classes(tmp_path / "data", ["@eaDir", "cat", "train"])
    for name in ("cat/a.gif", "cat/b.GIF", "train/c.jfif", "notes", ".hidden.gif"):
        (tmp_path / "data" / name).write_bytes(b"x")
    found = verified(tmp_path, "{kind: image-folder, path: data}")
    assert "ending: 1 without an ending, 2 .gif, 1 .jfif; read are .bmp, " in kinds(found)["other-file"]
    of_system, of_split = (each.message for each in found.findings if each.kind == "odd-class")
    assert "@eaDir is read as a class" in of_system
    assert "train is read as a class" in of_split
    (tmp_path / "data" / "train" / "x.txt").write_text("Words")
    assert "2 .gif" in kinds(verified(tmp_path, "{kind: texts, path: data}"))["other-file"]


@pytest.mark.parametrize("highest", [4095, 32768])
def test_images_of_16_bits_without_the_upper_half_are_noted(tmp_path: Path, highest: int) -> None:
    write_classes(tmp_path / "data", ["a", "b"])
    for name, level in (("a", 100), ("b", highest)):
        Image.fromarray(np.full((4, 4), level, np.uint16)).save(tmp_path / "data" / name / "x.png")
    found = verified(tmp_path, "{kind: image-folder, path: data}", decode=True).findings
    is_dark = ["no value is in the upper half" in each.message for each in found if each.kind == "16-bit-image"]
    assert sorted(is_dark) == [highest == 4095, True]


def test_images_of_several_sizes_are_noted_with_the_smallest_and_the_largest(tmp_path: Path) -> None:
    write_classes(tmp_path / "data", ["a", "b"])
    for name, shape in (("a/x", (30, 40)), ("b/x", (60, 50)), ("b/z", (44, 33)), ("b/w", (30, 40))):
        Image.fromarray(np.zeros(shape, np.uint8)).save(tmp_path / "data" / f"{name}.png")
    found = verified(tmp_path, "{kind: image-folder, path: data}")
    assert (found.num_images, found.is_whole) == (4, True)
    assert "3 sizes, from 40x30 to 50x60 pixels: measure models that resize" in kinds(found)["several-sizes"]
    assert kinds(verified(tmp_path, "{kind: image-folder, path: data, image_size: 8}")) == {}


def test_an_exif_orientation_is_ignored_and_said(tmp_path: Path) -> None:
    write_classes(tmp_path / "data", ["a", "b"])
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / "data" / "a" / "x.png", exif=exif)
    found = kinds(verified(tmp_path, "{kind: image-folder, path: data}", decode=True))
    assert "a/x.png has an EXIF orientation, which is ignored" in found["turned-image"]
    assert set(found) == {"turned-image"}
