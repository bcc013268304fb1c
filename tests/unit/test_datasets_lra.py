"""Sequences of tokens of other datasets, and of Long-Range Arena's published files: content, order, and bad files."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import cifar_files
import numpy as np
import pytest
import sentiment_files
from PIL import Image

from robench.core.errors import ExampleError, MissingDataError
from robench.datasets import DATASETS, open_dataset
from robench.datasets.cifar_impl import write_prepared
from robench.datasets.lra import LRA_IMAGE, LRA_PATHFINDER, LRA_RETRIEVAL, LRA_TEXT, TokenSet
from robench.datasets.tokens_impl import rows_of
from robench.datasets.verification import verify
from robench.testing import check_dataset

PAIRS = replace(LRA_RETRIEVAL, sizes=(4, 2, 3), num_examples=3, num_training_examples=4, length=12)
PATHS = replace(LRA_PATHFINDER, sizes=(6, 2, 2), num_examples=2, num_training_examples=6, side=4, length=16)
TABLE = "new_aan_pairs.test.tsv"
ROWS = (
    b"1.0\ta\tb\tOne document\tAnother\xff one\n",
    b"0.0\tc\td\tof many more bytes\tshort\n",
    b"1\te\tf\tx\ty\r\n",
)


def opened(declared: TokenSet, root: Path | None, split: str | None = None) -> Any:
    return declared.implemented()(declared, data_root=root, split=split or declared.evaluation_split)


def text(tokens: Any) -> bytes:
    return bytes(token - 1 for token in tokens.tolist() if token)


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """A data root with tables of pairs."""
    folder = tmp_path / str(PAIRS.folder)
    folder.mkdir(parents=True)
    for name, rows in (("train", ROWS + ROWS[:1]), ("eval", ROWS[:2]), ("test", ROWS)):
        (folder / f"new_aan_pairs.{name}.tsv").write_bytes(b"".join(rows))
    return tmp_path


@pytest.fixture
def paths(tmp_path: Path) -> Path:
    """A data root with ten images of Pathfinder: number n has grey levels from n on and the class n % 2."""
    folder = tmp_path / str(PATHS.folder)
    # Sorted as text, 10 would come before 2.
    for file, numbers in ((2, range(4)), (10, range(4, 10))):
        (folder / f"imgs/{file}").mkdir(parents=True)
        (folder / "metadata").mkdir(exist_ok=True)
        lines = [f"imgs/{file} sample_{number}.png {number} {number % 2} 1.8 3 ['0.75']" for number in numbers]
        (folder / f"metadata/{file}.npy").write_text("\n".join(lines) + "\n")
        for number in numbers:
            levels = np.arange(number, number + 16, dtype=np.uint8).reshape(4, 4)
            Image.fromarray(levels).save(folder / f"imgs/{file}/sample_{number}.png")
    # Files of others are left alone.
    for name in ("3.txt", "notes.npy"):
        (folder / "metadata" / name).write_text("no images\n")
    return tmp_path


class TestEmbedded:
    def test_pixels_of_digits_are_those_of_the_digits_in_their_order(self) -> None:
        pixels, digits = (open_dataset(it, data_root=None, preprocessing=None) for it in ("digits-pixels", "digits"))
        one, other = pixels.batch(0, 600), digits.batch(0, 600)
        assert one.ids == other.ids
        assert one.targets.equal(other.targets)
        # Corners of enlarged scans are corners of the scans.
        assert (one.inputs[:, 0] - 1).double().div(16).equal(other.inputs[:, 0, 0, 0].double())
        assert (one.inputs[:, 63] - 1).double().div(16).equal(other.inputs[:, 0, 31, 31].double())

    @pytest.mark.parametrize(("split", "other"), [("test", "test"), ("validation", "valid")])
    def test_bytes_of_paragraphs_are_their_first(self, split: str, other: str) -> None:
        found = open_dataset("sotu-bytes", data_root=None, preprocessing=None, split=split)
        eras = open_dataset("sotu-eras", data_root=None, preprocessing=None, split=other)
        batch, wanted = found.batch(0, 40), eras.batch(0, 40)
        assert batch.ids == wanted.ids
        assert batch.targets.equal(wanted.targets)
        for tokens, points in zip(batch.inputs, wanted.inputs, strict=True):
            whole = "".join(chr(point) for point in points if point >= 0)
            assert text(tokens) == whole.encode()[:256]


Grey = tuple[TokenSet, cifar_files.Published, Path]


class TestImages:
    @pytest.fixture
    def grey(self, tmp_path: Path) -> Grey:
        (tmp_path / "published").mkdir()
        published = cifar_files.publish(tmp_path / "published")
        folder = tmp_path / "cifar-10"
        folder.mkdir()
        write_prepared(folder, published.images)
        sizes = {"sizes": (36, 4, 20), "num_examples": 20, "num_training_examples": 36, "sha256s": ()}
        return replace(LRA_IMAGE, images=published.declared, **sizes), published, tmp_path

    @pytest.mark.parametrize(
        ("split", "part", "first"), [("train", "train", 0), ("validation", "train", 36), ("test", "test", 0)]
    )
    def test_grey_levels_are_those_of_pillow(self, grey: Grey, split: str, part: str, first: int) -> None:
        declared, published, root = grey
        dataset = opened(declared, root, split)
        batch = dataset.batch(0, len(dataset))
        assert sorted(batch.ids) == [f"cifar-10/{part}/{number:05d}" for number in range(first, first + len(dataset))]
        for example_id, tokens, target in zip(batch.ids, batch.inputs, batch.targets, strict=True):
            number = int(example_id.rpartition("/")[2])
            wanted = np.array(Image.fromarray(published.images[part].pixels[number]).convert("L")).reshape(-1)
            assert (tokens.numpy() - 1 == wanted).all()
            assert target == published.images[part].labels[number]

    def test_it_keeps_what_every_dataset_promises(self, grey: Grey) -> None:
        check_dataset(grey[0], data_root=grey[2])


class TestReviews:
    declared = replace(
        LRA_TEXT, reviews=sentiment_files.small_imdb(), sizes=(6, 6), num_examples=6, num_training_examples=6, length=20
    )

    def test_bytes_are_those_of_the_files(self, tmp_path: Path) -> None:
        root = sentiment_files.write_all(tmp_path)
        batch = opened(self.declared, root).batch(0, 6)
        for example_id, tokens, target in zip(batch.ids, batch.inputs, batch.targets, strict=True):
            content, _ = sentiment_files.REVIEWS[example_id.removeprefix("aclImdb/test/") + ".txt"]
            assert (text(tokens), int(target)) == (content.encode()[:20], int("/pos/" in example_id))
        check_dataset(self.declared, data_root=root)

    def test_without_files_they_are_those_of_imdb(self, tmp_path: Path) -> None:
        with pytest.raises(MissingDataError, match=r"not found.*\n.*aclImdb/test/neg: absent\nWanted: .* aclImdb_v1"):
            opened(self.declared, tmp_path)


class TestPairs:
    def test_both_documents_are_cut_to_their_first_bytes(self, pairs: Path) -> None:
        batch = opened(PAIRS, pairs).batch(0, 3)
        assert batch.inputs.shape == (3, 2, 12)
        found = {each: (list(map(text, rows)), int(label)) for each, rows, label in zip(*batch_of(batch), strict=True)}
        assert found == {
            "lra-retrieval/test/000000": ([b"One document", b"Another\xff one"], 1),
            "lra-retrieval/test/000001": ([b"of many more", b"short"], 0),
            "lra-retrieval/test/000002": ([b"x", b"y"], 1),
        }
        check_dataset(PAIRS, data_root=pairs)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"".join(ROWS[:2]), r"has 2 examples with 4 sequences and 2 classes, wanted 3 with 6 sequences"),
            (b"".join(ROWS)[:-6], "line 3 of .* has 3 columns .*, wanted 5: label, id1, id2, text1, text2"),
            (ROWS[0] + b"1.0\tc\td\tof many\t\n" + ROWS[2], "line 2 of .* has 5 columns .* and no empty text"),
            (ROWS[0] + b"2.0\tc\td\tof\tfew\n" + ROWS[2], "line 2 of .* begins with '2.0.*, with the label 0 or 1"),
            (b"".join(ROWS) + ROWS[0], "has 4 examples with 8 sequences"),
        ],
    )
    def test_cut_tables_and_single_documents_are_refused(self, pairs: Path, content: bytes, message: str) -> None:
        (pairs / PAIRS.path_of("test")).write_bytes(content)
        with pytest.raises(MissingDataError, match=f"{message}.*Unpack the archive of Long-Range Arena again"):
            opened(PAIRS, pairs)

    def test_an_absent_table_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(MissingDataError, match=r"dataset 'lra-retrieval' not found\. Tried:") as caught:
            opened(PAIRS, tmp_path)
        assert str(tmp_path / PAIRS.path_of("test")) in str(caught.value)
        with pytest.raises(MissingDataError, match=r"needs a folder\. Give it with --data-root DIR"):
            opened(PAIRS, None)


def batch_of(batch: Any) -> tuple[Any, Any, Any]:
    return batch.ids, batch.inputs, batch.targets


class TestPathfinder:
    def test_splits_follow_each_other_by_the_numbers_of_the_files(self, paths: Path) -> None:
        for split, wanted in {"train": [0, 1, 2, 3, 4, 5], "validation": [6, 7], "test": [8, 9]}.items():
            assert sorted(int(each.rpartition("_")[2]) for each in opened(PATHS, paths, split).ids) == wanted
        batch = opened(PATHS, paths, "train").batch(0, 6)
        for example_id, tokens, target in zip(*batch_of(batch), strict=True):
            number = int(example_id.rpartition("_")[2])
            assert tokens.tolist() == list(range(number + 1, number + 17))
            assert target == number % 2
        check_dataset(PATHS, data_root=paths)

    def test_files_that_are_not_as_published_are_refused(self, paths: Path) -> None:
        folder = paths / str(PATHS.folder)
        image = folder / "imgs/10/sample_9.png"
        content = image.read_bytes()
        image.write_bytes(content[:40])
        with pytest.raises(ExampleError, match=r"sample_9\.png cannot be read"):
            opened(PATHS, paths).batch(0, 2)
        Image.new("RGB", (4, 4)).save(image)
        with pytest.raises(ExampleError, match=r"sample_9\.png has 4x4 pixels of mode RGB, wanted 4x4 of mode L"):
            opened(PATHS, paths).batch(0, 2)
        image.unlink()
        with pytest.raises(MissingDataError, match=r"sample_9\.png is listed and cannot be read \(No such file"):
            opened(PATHS, paths)
        listed = folder / "metadata/2.npy"
        lines = listed.read_text()
        for wrong, message in {
            lines.partition("\n")[0]: r"lists 7 images, wanted 10",
            lines[:15]: r"line 1 of .*2\.npy is 'imgs/2 sample_0', wanted a folder, a file, a number and the class",
            lines.replace("imgs/2", "../2", 1): r"line 1 of .*2\.npy is '\.\./2 sample_0",
        }.items():
            listed.write_text(wrong)
            with pytest.raises(MissingDataError, match=message):
                opened(PATHS, paths)

    def test_an_absent_folder_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(MissingDataError, match=r"dataset 'lra-pathfinder' not found\. Tried:"):
            opened(PATHS, tmp_path)


class TestRows:
    @pytest.mark.parametrize(
        ("examples", "message"),
        [
            ([("a", 0, [b"\x01"]), ("b", 1, [b"\x01\x05"])], "has the token 6 in example 'b', wanted 1 to 5"),
            ([("a", 0, [b"\x01"]), ("b", 2, [b"\x02"])], "has classes from 0 to 2, wanted 0 to 1"),
            ([("a", 0, [b"\x01"]), ("b", 1, [b""])], "has example 'b' with a sequence of 0 tokens, wanted 1 to 4"),
            ([("a", 0, [b"\x01" * 5]), ("b", 1, [b"\x01"])], "example 'a' with a sequence of 5 tokens, wanted 1 to 4"),
        ],
    )
    def test_tokens_classes_and_lengths_outside_the_declaration_are_refused(
        self, examples: Any, message: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        declared = TokenSet(
            name="t",
            title="T",
            num_classes=2,
            num_examples=2,
            source="s",
            licence="l",
            splits=("test",),
            sizes=(2,),
            length=4,
            vocabulary_size=6,
            reader=f"{__name__}:READ",
        )
        monkeypatch.setitem(globals(), "READ", lambda *_: rows_of(examples, 10, "the file", "Make it again"))
        with pytest.raises(MissingDataError, match=f"dataset 't': the file .*{message}.*Make it again"):
            opened(declared, None)


def test_verification_counts_and_says_what_is_wrong(pairs: Path, paths: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DATASETS.builtin, "lra-retrieval", PAIRS)  # type: ignore[arg-type]  # a dict
    monkeypatch.setitem(DATASETS.builtin, "lra-pathfinder", PATHS)  # type: ignore[arg-type]  # a dict
    (pairs / PAIRS.path_of("validation")).write_bytes(ROWS[0])
    found = {(each.dataset, each.split): each for each in verify("lra-release", pairs)}
    assert [*found] == [(name, split) for name in ("lra-retrieval", "lra-pathfinder") for split in PAIRS.splits]
    counts = [(each.num_sequences, each.num_classes) for each in found.values()]
    assert counts == [(4, 2), (0, 0), (3, 2), (6, 2), (2, 2), (2, 2)]
    assert [key for key, each in found.items() if not each.is_whole] == [("lra-retrieval", "validation")]
    assert [each.kind for each in found["lra-retrieval", "validation"].findings] == ["wrong-file"]
