"""Which images a folder holds and of which classes: labels follow the WordNet id, and gaps are said."""

import logging
import os
from dataclasses import replace
from pathlib import Path

import pytest
from torchvision.datasets import ImageFolder  # type: ignore[import-untyped]  # ships no types

from robench.core.errors import MissingDataError
from robench.datasets.imagenet_folder import TRAIN, VALIDATION, ImageSource, Layout, candidates, class_indices
from robench.datasets.imagenet_forms import find_images

# Class indices as every ImageNet model since AlexNet prints them.
KNOWN = {"n01440764": 0, "n01443537": 1, "n02099601": 207, "n02123045": 281, "n02510455": 388, "n15075141": 999}


def fill(place: Path, wordnet_ids: object = tuple(KNOWN), per_class: int = 2) -> Path:
    for wordnet_id in wordnet_ids:  # type: ignore[attr-defined]  # any iterable
        for number in range(per_class):
            touch(place / wordnet_id / f"ILSVRC2012_val_{number:08d}.JPEG", "pixels" * (number + 1))
    return place


def touch(path: Path, content: str = "pixels") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def targets_of(images: ImageSource) -> dict[str, int]:
    """The class of each image by its folder's name."""
    return dict(zip((name.split("/")[0] for name in images.ids), images.targets.tolist(), strict=True))


def message_of(data_root: Path | None) -> str:
    with pytest.raises(MissingDataError) as caught:
        find_images(data_root)
    assert caught.value.exit_code == 4
    return str(caught.value)


def test_the_classes_are_in_the_order_of_ilsvrc() -> None:
    indices = class_indices()
    assert list(indices) == sorted(indices)
    assert list(indices.values()) == list(range(1000))
    assert KNOWN.items() <= indices.items()


def test_labels_follow_the_folder_s_name_where_folders_are_missing(tmp_path: Path) -> None:
    images = find_images(fill(tmp_path))
    assert targets_of(images) == KNOWN
    # What trusting the folder's position would make of the same tree.
    assert ImageFolder(str(tmp_path)).class_to_idx["n15075141"] == 5


def test_an_example_is_named_by_class_and_file(tmp_path: Path) -> None:
    images = find_images(fill(tmp_path))
    number = images.ids.index("n02099601/ILSVRC2012_val_00000001")
    assert images.stored(number) == tmp_path / "n02099601" / "ILSVRC2012_val_00000001.JPEG"
    assert (images.suffixes[number], images.sizes[number], images.targets[number]) == (".JPEG", 12, 207)
    assert (images.form, images.is_named) == ("class folders", True)


def test_the_first_place_that_has_classes_counts(tmp_path: Path) -> None:
    (tmp_path / "imagenet-1k" / "val").mkdir(parents=True)
    for place in reversed(candidates(tmp_path)):
        fill(place)
        assert find_images(tmp_path).place == place


def test_class_folders_may_be_links(tmp_path: Path) -> None:
    fill(tmp_path / "disk")
    (tmp_path / "imagenet-1k").symlink_to(tmp_path / "disk")
    assert len(find_images(tmp_path)) == 12


def test_what_is_no_image_is_passed_over(tmp_path: Path) -> None:
    fill(tmp_path)
    for name in ("n01440764/._ILSVRC2012_val_00000000.JPEG", "n01440764/Thumbs.db", "n01440764/notes.txt"):
        touch(tmp_path / name)
    for name in (".cache/n01440764/x.JPEG", "readme.JPEG", "n01440764/deeper.JPEG/x.JPEG", "n0144076/x.JPEG"):
        touch(tmp_path / name)
    assert len(find_images(tmp_path)) == 12


@pytest.mark.parametrize("suffix", [".JPEG", ".jpg", ".PNG", ".webp", ".bmp", ".tif"])
def test_images_of_every_usual_suffix_count(tmp_path: Path, suffix: str) -> None:
    touch(tmp_path / "n01440764" / f"x{suffix}")
    assert find_images(tmp_path).ids == ("n01440764/x",)


def test_an_absent_root_is_answered_with_all_that_was_tried(tmp_path: Path) -> None:
    message = message_of(tmp_path / "nowhere")
    for place in candidates(tmp_path / "nowhere"):
        assert f"{place}: absent" in message
    for wanted in ("--data-root DIR", "ROBENCH_DATA", "DIR/imagenet-1k/val/n01440764/ILSVRC2012_val_00000293.JPEG"):
        assert wanted in message


def test_images_that_were_never_sorted_into_classes_are_pointed_out(tmp_path: Path) -> None:
    for number in range(3):
        touch(tmp_path / "val" / f"ILSVRC2012_val_{number:08d}.JPEG")
    message = message_of(tmp_path)
    assert f"{tmp_path / 'val'}: 3 images outside class folders" in message
    assert f"{tmp_path}: no class folders" in message


def test_what_is_wrong_with_class_folders_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "val" / "n01440764"
    folder.mkdir(parents=True)
    assert f"no image of dataset 'imagenet-1k' in {tmp_path / 'val'}, found as class folders" in message_of(tmp_path)
    for suffix in (".JPEG", ".png"):
        touch(folder / f"x{suffix}")
    message = message_of(tmp_path)
    assert "x.JPEG" in message
    assert "x.png" in message
    (folder / "x.png").unlink()
    (folder / "gone.JPEG").symlink_to(tmp_path / "nothing")
    assert f"cannot read {folder / 'gone.JPEG'}" in message_of(tmp_path)


ONE_EACH = replace(VALIDATION, images_per_class=1, num_images=1000)


def warnings_of(data_root: Path, caplog: pytest.LogCaptureFixture, layout: Layout = VALIDATION) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="robench.datasets"):
        find_images(data_root, layout)
    return [record.getMessage() for record in caplog.records if record.name == "robench.datasets"]


def test_a_partial_tree_works_with_one_warning_that_counts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (message,) = warnings_of(fill(tmp_path), caplog)
    assert "12 images of 6 classes, not 50,000 of 1000 with 50 each" in message
    assert str(tmp_path) in message


def test_a_whole_tree_gets_no_warning_but_one_image_too_many_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert warnings_of(fill(tmp_path, class_indices(), per_class=1), caplog, ONE_EACH) == []
    touch(tmp_path / "n02099601" / "extra.JPEG")
    (message,) = warnings_of(tmp_path, caplog, ONE_EACH)
    assert "1,001 images of 1000 classes" in message


class TestTrainingImages:
    """The training split lies in a folder of that name, beside the validation images or alone."""

    @pytest.mark.parametrize("below", ["imagenet-1k/train", "train"])
    def test_each_usual_place_is_found(self, tmp_path: Path, below: str) -> None:
        fill(tmp_path / below)
        fill(tmp_path / "imagenet-1k" / "val", per_class=1)
        assert find_images(tmp_path, TRAIN).place == tmp_path / below
        assert find_images(tmp_path).place == tmp_path / "imagenet-1k" / "val"

    def test_class_folders_outside_a_folder_of_that_name_are_no_training_images(self, tmp_path: Path) -> None:
        fill(tmp_path)
        fill(tmp_path / "imagenet-1k")
        with pytest.raises(MissingDataError) as caught:
            find_images(tmp_path, TRAIN)
        lines = str(caught.value).splitlines()
        assert lines[0] == "training set of dataset 'imagenet-1k' not found. Tried:"
        assert lines[1:3] == [f"  {place}: absent" for place in candidates(tmp_path, TRAIN)]
        assert "DIR/imagenet-1k/train/n01440764/n01440764_10026.JPEG" in lines[3]
        assert "1,281,167 images" in lines[3]

    def test_a_partial_set_is_said_to_be_one(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        (message,) = warnings_of(fill(tmp_path / "train").parent, caplog, TRAIN)
        assert "is not the whole training set: 12 images of 6 classes, not 1,281,167 of 1000" in message
        assert "What is trained on it compares with nothing published" in message


class TestSelections:
    """Some classes of the validation images, beside folders of the others."""

    ONLY = replace(VALIDATION, dataset="some", classes={"n01440764": 0, "n02099601": 207}, passes_over_others=True)

    def test_folders_of_other_classes_are_passed_over(self, tmp_path: Path) -> None:
        images = find_images(fill(tmp_path), self.ONLY)
        assert set(images.targets.tolist()) == {0, 207}


class TestNumberedClasses:
    """Folders called 0 to 999, which sort otherwise as text."""

    NUMBERED = replace(VALIDATION, dataset="numbered", classes={str(index): index for index in range(1000)})

    def test_the_label_is_the_number(self, tmp_path: Path) -> None:
        images = find_images(fill(tmp_path, ["0", "2", "10", "999"]), self.NUMBERED)
        assert targets_of(images) == {"0": 0, "2": 2, "10": 10, "999": 999}
        # What sorting as text makes of the same tree.
        assert ImageFolder(str(tmp_path)).class_to_idx == {"0": 0, "10": 1, "2": 2, "999": 3}

    def test_the_advice_says_how_folders_are_called(self, tmp_path: Path) -> None:
        with pytest.raises(MissingDataError, match="class folders named by number"):
            find_images(tmp_path, self.NUMBERED)


def test_an_image_whose_name_is_no_utf8_is_refused_by_name(tmp_path: Path) -> None:
    place = fill(tmp_path / "imagenet-1k" / "val")
    (place / "n01440764" / os.fsdecode(b"\xff.JPEG")).write_bytes(b"pixels")
    message = message_of(tmp_path)
    assert "the name of the image '\\udcff.JPEG'" in message
    assert message.endswith("is not UTF-8, as its id must be; rename it")
    assert message.isprintable()
