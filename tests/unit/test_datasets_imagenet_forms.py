"""ImageNet's images are the same examples in whichever form people have them, and bad input is named in one line."""

import hashlib
import io
import logging
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import image_forms
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # likewise
import pytest
import torch
from image_forms import CLASSES, KIT, TRUTH, pictures, write_kit, write_tar
from PIL import Image

from robench.core.errors import ExampleError, MissingDataError
from robench.datasets import DATASETS
from robench.datasets.findings import Verification
from robench.datasets.imagenet_folder import layout_of
from robench.datasets.imagenet_impl import ImagenetFolder
from robench.datasets.verification import verify
from robench.declarations.preprocessing import ImagePreprocessing

SMALL = ImagePreprocessing(mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5), resize=40, crop=32)
# Where the names of files survive, with the form that verification names.
NAMED = {
    image_forms.class_folders: "class folders",
    image_forms.loose_files: "loose images",
    image_forms.loose_files_with_classes: "loose images",
    image_forms.published_tar: "archive of loose images",
    image_forms.tar_of_class_folders: "archive of class folders",
    image_forms.parquet: "Parquet shards",
    image_forms.webdataset: "WebDataset shards",
    image_forms.webdataset_by_key: "WebDataset shards",
}
NAMELESS = {image_forms.nameless_parquet: "Parquet shards", image_forms.nameless_webdataset: "WebDataset shards"}


def opened(root: Path, name: str = "imagenet-1k", decode_workers: int = 0) -> ImagenetFolder:
    return ImagenetFolder(DATASETS[name], root, SMALL, decode_workers)


def refused(root: Path, name: str = "imagenet-1k") -> str:
    """The message of a dataset that is refused, which is one line."""
    with pytest.raises(MissingDataError) as caught:
        opened(root, name)
    assert len(caught.value.lines) == 1
    (verified,) = verify(name, root)
    assert [(each.kind, each.message) for each in verified.findings] == [("wrong-file", str(caught.value))]
    return str(caught.value)


def expected_pixels(content: bytes) -> torch.Tensor:
    """The central 32 pixels of an image of 56 x 48 after its shorter side became 40."""
    with Image.open(io.BytesIO(content)) as image:
        resized = image.convert("RGB").resize((46, 40), Image.Resampling.BICUBIC)
    return torch.from_numpy(np.asarray(resized)[4:36, 7:39].copy()).permute(2, 0, 1) / 255


@pytest.mark.parametrize("form", NAMED, ids=lambda form: form.__name__)
def test_every_form_has_the_same_ids_labels_pixels_and_fingerprint(tmp_path: Path, form: Callable[..., None]) -> None:
    form(tmp_path)
    dataset = opened(tmp_path)
    by_id = {each.path.removesuffix(".JPEG"): each for each in pictures()}
    assert list(dataset.ids) == sorted(by_id, key=lambda name: hashlib.sha256(name.encode()).digest())
    batch = dataset.batch(0, 40)
    assert batch.targets.tolist() == [by_id[each].label for each in dataset.ids]
    assert torch.equal(batch.inputs, torch.stack([expected_pixels(by_id[each].content) for each in dataset.ids]))
    lines = sorted(f"{name}\t.JPEG\t{len(each.content)}\n" for name, each in by_id.items())
    assert dataset.identity.fingerprint == hashlib.sha256("".join(lines).encode()).hexdigest()
    (verified,) = verify("imagenet-1k", tmp_path, decode=True)
    assert (verified.form, verified.has_own_ids) == (NAMED[form], False)
    assert (verified.num_images, verified.num_classes, verified.is_decoded) == (40, 4, True)
    assert {each.kind for each in verified.findings} <= {"wrong-count", "missing-class"}


@pytest.mark.parametrize("form", NAMELESS, ids=lambda form: form.__name__)
def test_a_form_without_names_has_ids_and_a_fingerprint_of_its_own(tmp_path: Path, form: Callable[..., None]) -> None:
    form(tmp_path / "nameless")
    image_forms.class_folders(tmp_path / "folders")
    dataset, named = opened(tmp_path / "nameless"), opened(tmp_path / "folders")
    assert len(set(dataset.ids)) == 40
    assert not set(dataset.ids) & set(named.ids)
    assert dataset.identity.fingerprint != named.identity.fingerprint
    ours = {hashlib.sha256(dataset[number][0].numpy().tobytes()).digest(): dataset[number][1] for number in range(40)}
    assert ours == {
        hashlib.sha256(expected_pixels(each.content).numpy().tobytes()).digest(): each.label for each in pictures()
    }
    (verified,) = verify("imagenet-1k", tmp_path / "nameless")
    assert (verified.form, verified.has_own_ids) == (NAMELESS[form], True)


def test_own_ids_name_class_shard_and_row_or_key(tmp_path: Path) -> None:
    image_forms.nameless_parquet(tmp_path / "p")
    image_forms.nameless_webdataset(tmp_path / "w")
    last = pictures()[39].wordnet_id
    assert f"{last}/validation-00001-of-00002-000014" in opened(tmp_path / "p").ids
    assert f"{last}/imagenet1k-validation-01-000039" in opened(tmp_path / "w").ids


@pytest.mark.parametrize("place", ["imagenet-1k", "imagenet-1k/data"])
@pytest.mark.parametrize("form", [image_forms.published_tar, image_forms.webdataset, image_forms.parquet])
def test_archives_and_shards_may_be_in_either_folder(tmp_path: Path, form: Callable[..., None], place: str) -> None:
    form(tmp_path / "made")
    for path in [*(tmp_path / "made").rglob("*.tar*"), *(tmp_path / "made").rglob("*.parquet")]:
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        path.rename(tmp_path / place / path.name)
    assert len(opened(tmp_path)) == 40


def test_shards_may_be_in_a_folder_of_their_split(tmp_path: Path) -> None:
    image_forms.parquet(tmp_path)
    (tmp_path / "imagenet-1k" / "data").rename(tmp_path / "imagenet-1k" / "validation")
    assert len(opened(tmp_path)) == 40


def test_classes_of_a_subset_are_chosen_in_every_form(tmp_path: Path) -> None:
    found = []
    for form in (image_forms.class_folders, image_forms.published_tar, image_forms.parquet, image_forms.webdataset):
        form(tmp_path / form.__name__)
        found.append(opened(tmp_path / form.__name__, "imagenet-1k-r-classes"))
    classes = {each.split("/")[0] for each in found[0].ids}
    assert classes == set(CLASSES) & set(layout_of(DATASETS["imagenet-r"]).classes)
    assert len({each.identity.fingerprint for each in found}) == 1


class TestOrder:
    """Several forms at once: the first of a documented order, and one line that says so."""

    def test_the_first_form_is_read_and_others_are_named(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        forms = [*NAMED]
        # A file of each form less than before, from the last in the order to the first.
        for form in reversed(forms):
            if form not in (image_forms.webdataset_by_key, image_forms.loose_files_with_classes):
                form(tmp_path)
        order = ["loose images", "archive of class folders", "archive of loose images", "WebDataset shards"]
        with caplog.at_level(logging.WARNING, logger="robench.datasets"):
            for _ in range(2):
                opened(tmp_path)
        (said,) = [each for each in caplog.messages if "several forms" in each]
        assert "class folders are read" in said
        positions = [said.index(f"{each} in {tmp_path}") for each in [*order, "Parquet shards"]]
        assert positions == sorted(positions)

    def test_what_is_wrong_with_a_form_that_is_not_read_does_not_matter(self, tmp_path: Path) -> None:
        image_forms.class_folders(tmp_path)
        (tmp_path / "imagenet-1k" / "val.tar").write_text("not a tar")
        assert len(opened(tmp_path)) == 40

    def test_shards_of_one_folder_are_read_and_hidden_files_are_not(self, tmp_path: Path) -> None:
        image_forms.webdataset(tmp_path)
        shards = [*(tmp_path / "imagenet-1k").iterdir()]
        (tmp_path / "imagenet-1k" / "data").mkdir()
        for shard in shards:
            (tmp_path / "imagenet-1k" / "data" / shard.name).write_bytes(shard.read_bytes())
            # As copying from a Mac leaves them.
            shard.with_name(f"._{shard.name}").write_bytes(b"no archive")
        assert len(opened(tmp_path)) == 40

    def test_training_shards_are_no_validation_images(self, tmp_path: Path) -> None:
        image_forms.webdataset(tmp_path)
        for path in (tmp_path / "imagenet-1k").iterdir():
            path.rename(path.with_name(path.name.replace("validation", "train")))
        with pytest.raises(MissingDataError, match=r"not found\. Tried:"):
            opened(tmp_path)

    def test_images_without_labels_say_what_is_missing(self, tmp_path: Path) -> None:
        image_forms.published_tar(tmp_path)
        (tmp_path / "imagenet-1k" / f"{KIT}.tar.gz").unlink()
        with pytest.raises(MissingDataError) as caught:
            opened(tmp_path)
        archive = tmp_path / "imagenet-1k" / "ILSVRC2012_img_val.tar"
        assert f"  {archive}: images without labels; put {KIT}.tar.gz beside it" in caught.value.lines


class TestOtherSets:
    """ImageNet-A, -R, -O, -Sketch, -V2 and -C from the files as published."""

    @pytest.mark.parametrize(
        ("name", "archive", "top"),
        [
            ("imagenet-a", "imagenet-a.tar", "imagenet-a"),
            ("imagenet-r", "imagenet-r/imagenet-r.tar", "./imagenet-r"),
            ("imagenet-o", "imagenet-o/imagenet-o.tar", "imagenet-o"),
            ("imagenet-sketch", "imagenet-sketch/ImageNet-Sketch.zip", "sketch"),
            ("imagenet-v2", "imagenet-v2/imagenetv2-matched-frequency.tar", "imagenetv2-matched-frequency-format-val"),
            ("imagenet-c/fog/2", "imagenet-c/weather.tar", "fog/2"),
            ("imagenet-c/speckle_noise/5", "ImageNet-C/extra.tar", "./speckle_noise/5"),
        ],
    )
    def test_archives_are_read_as_their_folders(self, tmp_path: Path, name: str, archive: str, top: str) -> None:
        layout = layout_of(DATASETS[name])
        classes = [*layout.classes][:: len(layout.classes) // 4][:4]
        names = {f"{classes[each.number % 4]}/{each.name}": each.content for each in pictures()}
        for path, content in names.items():
            image_forms.write(tmp_path / "folders" / layout.places[0] / path, content)
        place = tmp_path / "packed" / archive
        others = [("README.txt", b"text"), (f"{top}/README.txt", b"text"), ("fog/3/n01440764/x.JPEG", b"another type")]
        members = [*others[: 3 if "fog" in top else 2], *((f"{top}/{path}", each) for path, each in names.items())]
        (write_zip if place.suffix == ".zip" else write_tar)(place, members)
        expected, found = opened(tmp_path / "folders", name), opened(tmp_path / "packed", name)
        assert (found.ids, found.identity) == (expected.ids, expected.identity)
        assert torch.equal(found.batch(0, 40).inputs, expected.batch(0, 40).inputs)
        assert torch.equal(found.batch(0, 40).targets, expected.batch(0, 40).targets)
        assert next(iter(verify(name, tmp_path / "packed"))).form == "archive of class folders"

    def test_a_tar_compressed_as_a_whole_is_named_with_what_to_do(self, tmp_path: Path) -> None:
        name = "imagenetv2-matched-frequency.tar"
        write_tar(tmp_path / "imagenet-v2" / f"{name}.gz", [("x/0/y.JPEG", b"z")], "w:gz")
        with pytest.raises(MissingDataError) as caught:
            opened(tmp_path, "imagenet-v2")
        compressed = tmp_path / "imagenet-v2" / f"{name}.gz"
        assert f"  {compressed}: compressed as a whole; decompress it by gunzip" in caught.value.lines
        compressed.rename(tmp_path / "imagenet-v2" / name)
        assert f"{name} is a tar.gz by its content" in refused(tmp_path, "imagenet-v2")

    def test_an_archive_without_the_type_has_no_image(self, tmp_path: Path) -> None:
        write_tar(tmp_path / "imagenet-c" / "weather.tar", [("fog/1/n01440764/x.JPEG", b"x")])
        with pytest.raises(MissingDataError, match=r"no image of dataset 'imagenet-c/fog/2' in .*weather.tar"):
            opened(tmp_path, "imagenet-c/fog/2")


def write_zip(path: Path, members: list[tuple[str, bytes]], compression: int = zipfile.ZIP_DEFLATED) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", compression) as file:
        file.mkdir("sketch")
        for name, content in members:
            file.writestr(name, content)


def whole_but(dataset: ImagenetFolder, broken: str) -> str:
    """Check that one example alone cannot be read, and return the message."""
    position = dataset.ids.index(broken)
    with pytest.raises(ExampleError) as caught:
        dataset.batch(position, position + 1)
    assert len(caught.value.lines) == 1
    others = [number for number in range(len(dataset)) if number != position]
    assert all(dataset[number][0].shape == (3, 32, 32) for number in others)
    return str(caught.value)


class TestBadInput:
    def test_a_truncated_tar(self, tmp_path: Path) -> None:
        image_forms.published_tar(tmp_path)
        archive = tmp_path / "imagenet-1k" / "ILSVRC2012_img_val.tar"
        archive.write_bytes(archive.read_bytes()[:30_000])
        assert f"archive {archive} is damaged or not a tar or zip file" in refused(tmp_path)

    def test_a_tar_that_is_cut_after_it_was_indexed_keeps_its_first_images(self, tmp_path: Path) -> None:
        image_forms.published_tar(tmp_path)
        archive = tmp_path / "imagenet-1k" / "ILSVRC2012_img_val.tar"
        dataset, last = opened(tmp_path), pictures()[39]
        with tarfile.open(archive) as tar:
            start = tar.getmember(last.name).offset_data
        os.truncate(archive, start + 100)
        message = whole_but(dataset, last.path.removesuffix(".JPEG"))
        assert f"{last.path} in {archive}: it has 100 bytes there, and {len(last.content):,} in the index" in message

    def test_a_shard_that_is_damaged_inside(self, tmp_path: Path) -> None:
        image_forms.parquet(tmp_path)
        shard = tmp_path / "imagenet-1k" / "data" / "validation-00001-of-00002.parquet"
        content = bytearray(shard.read_bytes())
        content[4:400] = bytes(396)
        shard.write_bytes(content)
        assert f"{shard} is not a whole Parquet file" in refused(tmp_path)

    @pytest.mark.parametrize(
        "columns",
        [
            *({"image": [{"bytes": b"x", "path": "x"}]}, {"label": [1]}, {"image": [b"x"], "label": [1]}),
            *({"image": [{"bytes": "x"}], "label": [1]}, {"image": [{"bytes": b"x"}], "label": ["cat"]}),
        ],
    )
    def test_a_shard_of_other_columns(self, tmp_path: Path, columns: dict[str, list[Any]]) -> None:
        image_forms.write_parquet(tmp_path, columns)
        expected = "expected image, a struct with bytes, and label, a whole number"
        assert f"has the columns {', '.join(columns)}; {expected}" in refused(tmp_path)

    @pytest.mark.parametrize("label", [-1, 1000, None])
    def test_labels_outside_the_classes(self, tmp_path: Path, label: int | None) -> None:
        rows = image_forms.parquet_rows(label=lambda each: label if each.number == 30 else each.label)
        image_forms.write_parquet(tmp_path, rows)
        said = "no label" if label is None else f"the label {label}"
        shard = tmp_path / "imagenet-1k" / "data" / "validation-00001-of-00002.parquet"
        assert f"image 000004 in {shard} has {said}; labels are" in refused(tmp_path)

    def test_labels_in_another_order_than_that_of_wordnet_ids(self, tmp_path: Path) -> None:
        image_forms.write_parquet(tmp_path, image_forms.parquet_rows(label=lambda each: 999 - each.label))
        assert f"and {pictures()[0].wordnet_id} in its name" in refused(tmp_path)

    @pytest.mark.parametrize(
        ("others", "found"),
        [
            ([], "image a in"),
            *(([("a.cls", content)], "a.cls or a.json in") for content in (b"cat", b"")),
            *(([("a.json", content)], "a.cls or a.json in") for content in (b"{", b"[]")),
            ([("a.cls", b"1000")], "has the label 1000"),
            ([("a.png", b"x"), ("a.cls", b"0")], "two images 'a' (.jpg and .png)"),
            ([("a.cls", b"0"), ("a.jpg", b"y")], "two members 'a.jpg'"),
        ],
    )
    def test_a_webdataset_that_lacks_something(self, tmp_path: Path, others: Any, found: str) -> None:
        members = [("a.jpg", b"x"), *others]
        image_forms.write_webdataset(tmp_path, lambda one: members if one.number == 9 else image_forms.members_of(one))
        assert found in (message := refused(tmp_path))
        assert "imagenet1k-validation-00.tar" in message

    def test_images_only_some_of_which_have_their_class_in_the_name(self, tmp_path: Path) -> None:
        image_forms.loose_files_with_classes(tmp_path)
        write_kit(tmp_path)
        first = pictures()[0]
        place = tmp_path / "imagenet-1k"
        (place / f"{first.stem}_{first.wordnet_id}.JPEG").rename(place / first.name)
        assert f"only some images in {place} have a WordNet id in their name" in refused(tmp_path)

    @pytest.mark.parametrize(("change", "found"), [("fewer", "39 lines"), ("more", "41 lines")])
    def test_a_ground_truth_of_another_length(self, tmp_path: Path, change: str, found: str) -> None:
        image_forms.loose_files(tmp_path)
        lines = "".join(f"{CLASSES[each.wordnet_id][1]}\n" for each in pictures())
        write_kit(tmp_path, lines[: lines.rindex("\n", 0, -1) + 1] if change == "fewer" else f"{lines}449\n")
        assert "val holds 40 images, and the ground truth in" in (message := refused(tmp_path))
        assert found in message

    def test_a_ground_truth_of_as_many_lines_for_other_numbers(self, tmp_path: Path) -> None:
        image_forms.loose_files(tmp_path)
        first = tmp_path / "imagenet-1k" / "val" / pictures()[0].name
        first.rename(first.with_name("ILSVRC2012_val_00000041.JPEG"))
        assert "expected a line for each image, by the number in its name" in refused(tmp_path)

    @pytest.mark.parametrize(
        ("name", "content", "found"),
        [
            (TRUTH, b"449\nsix\n", "(KeyError: 'six')"),
            (TRUTH, b"449\n7\n", "(KeyError: '7')"),
            ("meta.mat", b"not a table", "get it anew from image-net.org"),
            ("meta.mat", None, "(KeyError: 'meta.mat')"),
        ],
    )
    def test_a_kit_that_is_damaged(self, tmp_path: Path, name: str, content: bytes | None, found: str) -> None:
        image_forms.loose_files(tmp_path)
        path = tmp_path / "imagenet-1k" / KIT / "data" / name
        path.unlink() if content is None else path.write_bytes(content)
        assert found in refused(tmp_path)

    def test_two_examples_of_one_name_in_different_shards(self, tmp_path: Path) -> None:
        same = pictures()[0]
        rows = image_forms.parquet_rows(
            path=lambda each: same.name if each.number == 40 else each.name,
            label=lambda each: same.label if each.number == 40 else each.label,
        )
        image_forms.write_parquet(tmp_path, rows)
        message = refused(tmp_path)
        assert "validation-00000-of-00002.parquet and " in message
        assert "are the same example" in message

    @pytest.mark.parametrize("content", [None, b"", b"no image"])
    def test_a_row_without_an_image_is_one_example(self, tmp_path: Path, content: bytes | None) -> None:
        rows = image_forms.parquet_rows(bytes=lambda each: content if each.number == 8 else each.content)
        image_forms.write_parquet(tmp_path, rows)
        broken = pictures()[7].path.removesuffix(".JPEG")
        message = whole_but(opened(tmp_path), broken)
        assert "it begins with b'no image'" in message if content else "has zero bytes" in message
        (verified,) = verify("imagenet-1k", tmp_path, decode=True)
        kinds = {each.kind: each.message for each in verified.findings}
        assert pictures()[7].name in kinds["no-image" if content else "empty-file"]

    @pytest.mark.parametrize("damage", ["content", "local name"])
    def test_a_zip_that_contradicts_its_directory_is_one_example(self, tmp_path: Path, damage: str) -> None:
        archive = tmp_path / "imagenet-sketch" / "ImageNet-Sketch.zip"
        names = {f"n01440764/sketch_{each.number}": each.content for each in pictures()[:3]}
        write_zip(archive, [(f"sketch/{name}.JPEG", each) for name, each in names.items()], zipfile.ZIP_STORED)
        content = archive.read_bytes()
        position = content.index(b"sketch_2.JPEG")
        changed = position if damage == "local name" else position + 200
        archive.write_bytes(content[:changed] + b"??" + content[changed + 2 :])
        message = whole_but(opened(tmp_path, "imagenet-sketch"), "n01440764/sketch_2")
        assert f"n01440764/sketch_2.JPEG in {archive}: " in message

    def test_another_archive_by_the_name_of_a_zip(self, tmp_path: Path) -> None:
        write_tar(tmp_path / "imagenet-sketch" / "ImageNet-Sketch.zip", [("sketch/n01440764/x.JPEG", b"x")])
        assert "ImageNet-Sketch.zip is a tar by its content" in refused(tmp_path, "imagenet-sketch")


class TestIndex:
    """The index beside a file saves reading it, and is trusted only as long as the file is the same."""

    @staticmethod
    def index(file: Path) -> Path:
        return file.with_name(f".{file.name}.robench-index")

    def test_an_index_is_kept_and_read(self, tmp_path: Path) -> None:
        image_forms.parquet(tmp_path)
        before = opened(tmp_path)
        shard = tmp_path / "imagenet-1k" / "data" / "validation-00000-of-00002.parquet"
        table = pq.read_table(self.index(shard))
        assert table.schema.metadata
        place = table.schema.get_field_index("num_bytes")
        shorter = table.set_column(place, "num_bytes", pa.array([1] * len(table), pa.int64()))
        pq.write_table(shorter, self.index(shard))
        forget()
        assert opened(tmp_path).identity.fingerprint != before.identity.fingerprint

    @pytest.mark.parametrize("change", ["another file", "damaged", "not writable"])
    def test_an_index_that_does_not_fit_is_made_anew(self, tmp_path: Path, change: str, monkeypatch: Any) -> None:
        image_forms.published_tar(tmp_path)
        archive = tmp_path / "imagenet-1k" / "ILSVRC2012_img_val.tar"
        expected = opened(tmp_path).identity
        forget()
        match change:
            case "another file":
                whole = archive.read_bytes()
                write_tar(archive, [(each.name, each.content + b"x" * 600) for each in pictures()])
                assert opened(tmp_path).identity != expected
                archive.write_bytes(whole)
            case "damaged":
                self.index(archive).write_bytes(b"no index")
            case "not writable":
                self.index(archive).unlink()
                # A folder in its place: also root cannot write there.
                self.index(archive).mkdir()
        assert opened(tmp_path).identity == expected


def forget() -> None:
    """Forget what is in memory of indexed files, as a new process."""
    from robench.datasets import packed_index

    packed_index._index.cache_clear()


def test_an_archive_of_small_pieces_is_never_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image_forms.published_tar(tmp_path)
    dataset = opened(tmp_path)
    read: list[int] = []
    original = os.pread

    def counted(descriptor: int, size: int, start: int) -> bytes:
        read.append(size)
        return original(descriptor, size, start)

    monkeypatch.setattr(os, "pread", counted)
    dataset.batch(0, 3)
    sizes = {each.path.removesuffix(".JPEG"): len(each.content) for each in pictures()}
    assert read == [sizes[each] for each in dataset.ids[:3]]


def test_the_verification_of_a_packed_set_counts_classes(tmp_path: Path) -> None:
    image_forms.webdataset(tmp_path)
    (verified,) = verify("imagenet-1k", tmp_path)
    assert isinstance(verified, Verification)
    messages = [each.message for each in verified.findings]
    place = tmp_path / "imagenet-1k"
    assert f"class n01440764 in {place} holds 10 images, wanted 50" in messages
    assert f"class n01443537 (index 1) has no image in {place}; restore it" in messages
    assert f"dataset 'imagenet-1k' in {place} holds 40 images of its classes, wanted 50,000" in messages
    assert verified.folder == place
