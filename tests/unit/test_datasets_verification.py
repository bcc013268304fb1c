"""Verification tells each way in which a dataset can differ from what was published, by kind and by message."""

import io
import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from PIL import Image

from robench.core.errors import UnknownNameError
from robench.datasets import DATASETS, verification
from robench.datasets.findings import HARMLESS, Verification
from robench.datasets.image_verification import verify_images
from robench.datasets.imagenet_folder import Layout, layout_of
from robench.datasets.verification import verify

FOLDERS = ("imagenet-1k", "imagenet-o", "imagenet-v2", "imagenet-c/jpeg_compression/5", "imagenet-1k-r-classes")


HTML = b"<html>not found</html>"


@cache
def encoded(kind: str = "JPEG", mode: str = "RGB") -> bytes:
    file = io.BytesIO()
    Image.new(mode, (16, 16)).save(file, kind)
    return file.getvalue()


def small(name: str, per_class: int | None = 1) -> Layout:
    """The layout of a dataset, of which one image a class is all."""
    layout = layout_of(DATASETS[name])
    return replace(layout, num_images=len(layout.classes), images_per_class=per_class)


def fill(data_root: Path, layout: Layout) -> Path:
    """Write one image of every class, and return the folder of the classes."""
    place = data_root / layout.places[0]
    for name in layout.classes:
        (place / name).mkdir(parents=True)
        (place / name / "x.JPEG").write_bytes(encoded())
    return place


Read = Callable[..., list[tuple[str, str]]]


def told(found: Verification) -> list[tuple[str, str]]:
    return [(finding.kind, finding.message) for finding in found.findings]


@pytest.mark.parametrize("name", FOLDERS)
def test_a_whole_set_is_found_to_be_whole(tmp_path: Path, name: str) -> None:
    layout = small(name)
    place = fill(tmp_path, layout)
    found = verify_images(layout, tmp_path)
    assert (told(found), found.is_whole, found.folder) == ([], True, place)
    assert (found.num_images, found.num_classes) == (len(layout.classes), len(layout.classes))


@pytest.mark.parametrize("name", ["imagenet-o", "imagenet-v2"])
def test_a_missing_class_is_named_with_its_index(tmp_path: Path, name: str) -> None:
    layout = small(name)
    place = fill(tmp_path, layout)
    gone, index = list(layout.classes.items())[7]
    (place / gone / "x.JPEG").unlink()
    found = verify_images(layout, tmp_path)
    assert told(found)[0] == ("missing-class", f"class {gone} (index {index}) has no image in {place}; restore it")
    assert [kind for kind, _ in told(found)] == ["missing-class", "wrong-count"]
    assert not found.is_whole


@pytest.mark.parametrize(
    ("name", "extra", "message"),
    [
        ("imagenet-a", "n01440764", "is not a class of imagenet-a (which has 200)"),
        ("imagenet-o", "n01498041", "is not a class of imagenet-o (which has 200)"),
        ("imagenet-1k", "n00004475", "is not a class of ImageNet-1k"),
        ("imagenet-v2", "1000", "is not a class of imagenet-v2 (whose folders are called 0 to 999)"),
        ("imagenet-1k-a-classes", "n00004475", "is not a class of imagenet-1k-a-classes"),
    ],
)
def test_an_extra_class_is_named(tmp_path: Path, name: str, extra: str, message: str) -> None:
    layout = small(name)
    place = fill(tmp_path, layout)
    (place / extra).mkdir()
    ((kind, said),) = told(verify_images(layout, tmp_path))
    assert kind == "wrong-file"
    assert said.startswith(f"{place / extra} {message}")


class TestFiles:
    """Damages to one folder of a set that is otherwise whole."""

    @pytest.fixture
    def layout(self) -> Layout:
        return small("imagenet-o", per_class=None)

    @pytest.fixture
    def folder(self, tmp_path: Path, layout: Layout) -> Path:
        return fill(tmp_path, layout) / "n01443537"

    @pytest.fixture
    def read(self, tmp_path: Path, layout: Layout) -> Read:
        return lambda **changes: told(verify_images(replace(layout, **changes), tmp_path, decode=True))

    def test_a_wrong_count_says_both_numbers(self, folder: Path, read: Read) -> None:
        (folder / "y.JPEG").write_bytes(encoded())
        place = folder.parent
        total = f"dataset 'imagenet-o' in {place} holds 201 images of its classes, wanted 200"
        assert read() == [("wrong-count", total)]
        each = f"class {folder.name} in {place} holds 2 images, wanted 1"
        assert read(images_per_class=1) == [("wrong-count", each), ("wrong-count", total)]

    @pytest.mark.parametrize(
        ("content", "kind", "message"),
        [
            (encoded()[:-80], "corrupt-image", "cannot read image PATH: "),
            (HTML, "no-image", "cannot read image PATH: it is not recognised as an image, it begins with b'<html>"),
            (encoded(mode="CMYK"), "cmyk-image", "converted to RGB"),
            # It is black.
            (encoded("PNG", "I;16"), "16-bit-image", "its upper 8 bits are kept, and no value is in the upper half"),
        ],
    )
    def test_what_reading_finds_is_told_apart(
        self, layout: Layout, tmp_path: Path, folder: Path, content: bytes, kind: str, message: str
    ) -> None:
        (folder / "x.JPEG").write_bytes(content)
        found = verify_images(layout, tmp_path, decode=True)
        ((found_kind, said),) = told(found)
        assert found_kind == kind
        assert message.replace("PATH", str(folder / "x.JPEG")) in said
        assert found.is_whole == (kind in HARMLESS)

    def test_an_empty_file_is_said_without_reading_any(self, tmp_path: Path, layout: Layout, folder: Path) -> None:
        (folder / "x.JPEG").write_bytes(b"")
        for decode in (False, True):
            found = verify_images(layout, tmp_path, decode=decode)
            assert told(found) == [("empty-file", f"image {folder / 'x.JPEG'} has zero bytes; restore it")]
            assert not found.is_whole

    def test_what_reading_shows_is_not_looked_for_unasked(self, tmp_path: Path, layout: Layout, folder: Path) -> None:
        (folder / "x.JPEG").write_text("text")
        found = verify_images(layout, tmp_path)
        assert (told(found), found.is_decoded) == ([], False)
        assert verify_images(layout, tmp_path, decode=True).is_decoded

    @pytest.mark.parametrize("name", ["Thumbs.db", "._x.JPEG", "README.txt"])
    def test_other_files_are_left_out(self, tmp_path: Path, layout: Layout, folder: Path, name: str) -> None:
        (folder / name).write_text("text")
        assert told(verify_images(layout, tmp_path)) == []


def test_a_dataset_that_is_not_there_is_absent(tmp_path: Path) -> None:
    (found,) = verify("imagenet-a", tmp_path)
    assert (found.is_absent, found.is_whole, found.folder) == (True, False, None)
    ((kind, message),) = told(found)
    assert kind == "absent"
    assert message.startswith("dataset 'imagenet-a' not found. Tried:")
    assert "7,500 images in 200 class folders named by WordNet id" in message


def test_a_set_is_verified_folder_by_folder(tmp_path: Path) -> None:
    fill(tmp_path, small("imagenet-c/fog/1"))
    found = {each.dataset: each for each in verify("imagenet-c", tmp_path)}
    assert list(found) == [name for name in DATASETS if name.startswith("imagenet-c/")]
    assert [name for name, each in found.items() if not each.is_absent] == ["imagenet-c/fog/1"]
    # One image a class is no ImageNet-C.
    assert {finding.kind for finding in found["imagenet-c/fog/1"].findings} == {"wrong-count"}


@pytest.mark.parametrize("name", [name for name, declared in DATASETS.items() if declared.folder is None])
def test_an_embedded_dataset_is_whole_everywhere(name: str) -> None:
    (found,) = verify(name, None)
    assert found.is_whole
    assert (found.num_texts or found.num_sequences or found.num_images) == DATASETS[name].num_examples


def test_an_embedded_dataset_of_another_size_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = replace(DATASETS["digits"], num_examples=601)
    monkeypatch.setattr(verification, "DATASETS", {"digits": declared})
    (found,) = verify("digits", None)
    assert told(found) == [("wrong-count", "dataset 'digits' has 600 examples here, wanted 601")]


def test_an_unknown_name_lists_sets_and_not_their_95_parts(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'imagenet-c'") as caught:
        list(verify("imagenet-cc", tmp_path))
    assert "gaussian_noise" not in str(caught.value)


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_regular_file_is_found_and_not_waited_for(tmp_path: Path, kind: str) -> None:
    layout = small("imagenet-a")
    place = fill(tmp_path, layout)
    image = place / next(iter(layout.classes)) / "x.JPEG"
    image.unlink()
    os.mkfifo(image) if kind == "pipe" else image.symlink_to("/dev/zero")
    for decode in (False, True):
        found = verify_images(layout, tmp_path, decode=decode)
        assert told(found) == [("empty-file", f"image {image} has zero bytes; restore it")]
