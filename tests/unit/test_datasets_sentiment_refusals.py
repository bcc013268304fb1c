"""Files that are not those of SST-2, SST-5 and IMDb: each has a message of one line with place, finding and advice."""

import os
from pathlib import Path

import pytest
from sentiment_files import REVIEWS, SENTENCES, SMALL, small_imdb, small_sst2, table, trees, write_all

from robench.core.errors import MissingDataError
from robench.datasets import open_dataset
from robench.datasets.published_texts import LabelledFiles
from robench.datasets.sentiment_impl import MOST_BYTES, MOST_REVIEW_BYTES

PATHS = {
    "sst2": "SST-2/dev.tsv",
    "sst2/test": "trees/test.txt",
    "sst5": "trees/test.txt",
    "imdb": "aclImdb/test/pos/1_10.txt",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_all(tmp_path)


def refused(declared: LabelledFiles, root: Path | None) -> tuple[str, ...]:
    with pytest.raises(MissingDataError) as caught:
        open_dataset(declared, data_root=root, preprocessing=None)
    return caught.value.lines


def refusal(declared: LabelledFiles, root: Path | None) -> str:
    (line,) = refused(declared, root)
    assert line.isprintable()
    return line


GIVE = "Give DIR by --data-root DIR or the variable ROBENCH_DATA"
HEADER = b"sentence\tlabel\n"
SECOND = SENTENCES[1][0].encode() + b"\t0\n"
LATIN_1 = table().replace("é".encode(), b"\xe9")
CUT = trees() + b"(2 \xe2"
FIRST_TREE, OTHER_TREES = trees().split(b"\n", 1)
WINDOWS = "PATH has Windows line ends (CR LF), wanted LF alone."
# Rows of a table that are none.
NO_ROWS = {
    "row without tab": b"bad 0",
    "row of two tabs": b"b\ta\t0",
    "empty row": b"",
    "escape sequence": b"\x1b[31m",
    "long row": b"bad " * 10_000,
    "unknown class": b"bad\t2",
    "no class": b"bad\t",
    "class and a blank": b"bad\t1 ",
    "class in other digits": "bad\t\u0661".encode(),
    "empty sentence": b" \t1",
    "other white space": "\u2003\t1".encode(),
}
NO_TREES = {
    "empty line": b"\n(1 bad)",
    "open tree": b"(1 (2 a) (2 b)",
    "two trees": b"(1 a) (2 b)",
    "closed twice": b"(1 a))",
    "word and nodes": b"(1 (2 a) b)",
    "no blank": b"(1 (2 a)(2 b))",
    "no class of a node": b"(1 (a) (2 b))",
    "no word of a node": b"(1 (2 ) (2 b))",
    "class above 4": b"(5 a)",
    "class of a leaf": b"(1 (x a) (2 b))",
    "trees of syntax": b"(S (NP it) (VP is))",
    "no words": "(2 \u00a0)".encode(),
    "deep tree": b"(2 " + b"(2 " * 100_000,
    "sign for a node": b"(1 * (2 a))",
}
# By name: dataset, content of its file, and a part of the message.
DAMAGED = {
    "empty table": ("sst2", b"", "PATH is empty: it has 0 bytes and no word."),
    "blank table": ("sst2", b" \n\n", "PATH is empty: it has 3 bytes and no word."),
    "header alone": ("sst2", HEADER, "PATH has 0 sentences, wanted 4 as published of the dev split of sst2."),
    "no header": ("sst2", SECOND, "line 1 of PATH is 'unflinchingly bleak and desperate \\t0', wanted the header"),
    "other columns": ("sst2", b"label\tsentence\n0\tbad\n", "1 of PATH is 'label\\tsentence', wanted the header 'se"),
    "byte order mark": ("sst2", b"\xef\xbb\xbf" + table(), "line 1 of PATH is '\\ufeffsentence\\tlabel', wanted the"),
    "Windows line ends": ("sst2", table().replace(b"\n", b"\r\n"), WINDOWS),
    "one Windows line end": ("sst2", HEADER + SECOND + b"bad\t0\r\n", WINDOWS),
    "not UTF-8": ("sst2", LATIN_1, f"PATH is not UTF-8 at byte {LATIN_1.index(0xE9):,}."),
    "NUL": ("sst2", HEADER + b"b\0d\t0\n", "PATH has the control character NUL, wanted text."),
    "U+001E": ("sst2", HEADER + b"bad\x1e\t0\n", "PATH has the control character U+001E, wanted text."),
    **{name: ("sst2", HEADER + SECOND + row + b"\n", "line 3 of PATH is '") for name, row in NO_ROWS.items()},
    "a row less": ("sst2", table(SENTENCES[:3]), "PATH has 3 sentences, wanted 4 as published of the dev split of"),
    "a row more": ("sst2", table() + SECOND, "PATH has 5 sentences, wanted 4 as published of the dev split of sst2."),
    "no trees": ("sst5", b"", "PATH is empty: it has 0 bytes and no word."),
    "trees of Windows": ("sst5", trees().replace(b"\n", b"\r\n"), WINDOWS),
    "trees not UTF-8": ("sst5", CUT, f"PATH is not UTF-8 at byte {len(CUT) - 1:,}."),
    "no tree": ("sst5", trees() + b"text\n", "line 7 of PATH is 'text', wanted such as (3 (2 A) (3 (3 go"),
    **{name: ("sst5", line + b"\n", "line 1 of PATH is '") for name, line in NO_TREES.items()},
    "a tree less": ("sst5", OTHER_TREES, "PATH has 5 sentences, wanted 6 as published of the test split of sst5."),
    "a neutral tree less": ("sst5", trees().rsplit(b"(2 (2", 1)[0], "PATH has 5 sentences, wanted 6 as published of"),
    "a tree less of two classes": ("sst2/test", OTHER_TREES, "PATH has 3 sentences that are not neutral, wanted 4 as"),
    "empty review": ("imdb", b"", "PATH is empty: it has 0 bytes and no word."),
    "review of breaks": ("imdb", b"<br /><br />", "PATH is empty: it has 12 bytes and no word."),
    "review not UTF-8": ("imdb", b"so-so\ncaf\xe9", "PATH is not UTF-8 at byte 9."),
    "U+001E in a review": ("imdb", b"\x1e a", "PATH has the control character U+001E, wanted text."),
}


class TestContent:
    @pytest.mark.parametrize("case", DAMAGED)
    def test_a_damaged_file_has_its_message(self, root: Path, case: str) -> None:
        name, content, message = DAMAGED[case]
        path = root / PATHS[name]
        path.write_bytes(content)
        line = refusal(SMALL[name](), root)
        assert message.replace("PATH", str(path)) in line
        archive = SMALL[name]().archive
        assert line.endswith((f". Unpack {archive} again", f". Unpack {archive} again, without conversion of text"))
        assert len(line) < 500

    @pytest.mark.parametrize("name", SMALL)
    def test_published_sizes_are_wanted_of_the_published_datasets(self, root: Path, name: str) -> None:
        message = r"wanted (872|1,821|2,210|12,500) as published of the (dev|test) split"
        with pytest.raises(MissingDataError, match=message):
            open_dataset(name, data_root=root, preprocessing=None)


class TestFiles:
    @pytest.mark.parametrize("name", ["sst2", "sst2/test", "sst5"])
    def test_a_missing_folder_and_a_missing_file_are_told_apart(self, root: Path, name: str) -> None:
        path = root / PATHS[name]
        archive = SMALL[name]().archive
        how = f"Wanted: DIR/{PATHS[name]}, from the archive {archive}. {GIVE}"
        first = f"dataset {name!r} not found. Tried:"
        path.unlink()
        assert refused(SMALL[name](), root) == (first, f"  {path}: absent", f"Unpack {archive} again")
        path.parent.rename(root / "elsewhere")
        assert refused(SMALL[name](), root) == (first, f"  {path.parent}: absent", how)
        path.parent.touch()
        assert refused(SMALL[name](), root) == (first, f"  {path.parent}: not a folder", how)
        assert refusal(SMALL[name](), None) == f"dataset {name!r} needs a folder. {how}"
        assert refused(SMALL[name](), root / ("x" * 300))[1].endswith(": File name too long")

    @pytest.mark.parametrize("name", SMALL)
    def test_what_is_no_regular_file_is_named(self, root: Path, name: str) -> None:
        path = root / PATHS[name]
        path.unlink()
        os.mkfifo(path)
        found = refusal(SMALL[name](), root)
        assert found.startswith(f"cannot read {path} of dataset {name!r}: it is a named pipe, not")
        path.unlink()
        path.mkdir()
        assert refusal(SMALL[name](), root) == f"cannot read {path} of dataset {name!r}: Is a directory"

    @pytest.mark.parametrize("name", ["sst2", "sst5", "imdb"])
    def test_a_file_beyond_all_published_ones_is_not_read(self, root: Path, name: str) -> None:
        most = MOST_REVIEW_BYTES if name == "imdb" else MOST_BYTES
        with (root / PATHS[name]).open("wb") as file:
            file.truncate(most + 1)
        assert refusal(SMALL[name](), root).endswith(f"it has {most + 1:,} bytes, at most {most:,} are read")

    def test_a_link_to_nothing_is_absent(self, root: Path) -> None:
        path = root / PATHS["sst2"]
        path.unlink()
        path.symlink_to(root / "nowhere")
        assert refused(small_sst2(), root)[1] == f"  {path}: absent"


class TestReviewFolders:
    @pytest.mark.parametrize("missing", ["aclImdb", "aclImdb/test", "aclImdb/test/neg", "aclImdb/test/pos"])
    def test_a_missing_folder_is_named(self, root: Path, missing: str) -> None:
        (root / missing).rename(root / "elsewhere")
        below = missing if missing.endswith(("neg", "pos")) else "aclImdb/test/neg"
        assert refused(small_imdb(), root)[1:] == (
            f"  {root / below}: absent",
            f"Wanted: DIR/{below}/NUMBER_RATING.txt, from the archive aclImdb_v1.tar.gz. {GIVE}",
        )

    def test_no_data_root_is_said(self) -> None:
        assert refusal(small_imdb(), None).startswith("dataset 'imdb' needs a folder. Wanted: DIR/aclImdb/test/neg/NUM")

    @pytest.mark.parametrize("change", ["fewer", "more", "0.txt", "0_7\n.txt"])
    def test_another_number_of_reviews_is_refused_before_any_is_read(self, root: Path, change: str) -> None:
        folder = root / "aclImdb" / "test" / "pos"
        (root / "aclImdb" / "test" / "neg" / "0_3.txt").write_bytes(b"\xff")
        if change == "fewer":
            (folder / "1_10.txt").unlink()
        elif change == "more":
            (folder / "3_9.txt").write_text("good")
        else:
            (folder / "0_7.txt").rename(folder / change)
        found = "4 reviews NUMBER_RATING.txt" if change == "more" else "2 reviews NUMBER_RATING.txt"
        found += " and 1 other entries" if change.startswith("0") else ""
        line = refusal(small_imdb(), root)
        assert (
            line
            == f"{folder} has {found}, wanted 3 as published of the test split of imdb. Unpack aclImdb_v1.tar.gz again"
        )

    @pytest.mark.parametrize(
        ("name", "rating", "wanted"), [("neg/1_1.txt", 9, "1 to 4"), ("pos/0_7.txt", 6, "7 to 10")]
    )
    def test_a_rating_of_the_other_class_is_refused(self, root: Path, name: str, rating: int, wanted: str) -> None:
        path = root / "aclImdb" / "test" / name
        moved = path.rename(path.with_name(f"5_{rating}.txt"))
        assert refusal(small_imdb(), root) == (
            f"{moved} has the rating {rating} by its name, wanted {wanted} in {path.parent.name}. Unpack "
            "aclImdb_v1.tar.gz again"
        )

    def test_folders_that_changed_places_are_refused(self, root: Path) -> None:
        test = root / "aclImdb" / "test"
        (test / "neg").rename(test / "x")
        (test / "pos").rename(test / "neg")
        (test / "x").rename(test / "pos")
        assert "has the rating 7 by its name, wanted 1 to 4 in neg" in refusal(small_imdb(), root)

    def test_a_folder_that_cannot_be_listed_is_named(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(self: Path) -> None:
            raise PermissionError(13, "Permission denied", str(self))

        monkeypatch.setattr(Path, "iterdir", refuse)
        folder = root / "aclImdb" / "test" / "neg"
        assert refusal(small_imdb(), root) == f"cannot read {folder} of dataset 'imdb': Permission denied"

    def test_line_ends_within_reviews_do_not_matter(self, root: Path) -> None:
        before = open_dataset(small_imdb(), data_root=root, preprocessing=None).identity
        for name, (content, _) in REVIEWS.items():
            changed = content.replace(" ", "\r\n").replace("<br\r\n/>", "<br />")
            (root / "aclImdb" / "test" / name).write_bytes(changed.encode())
        assert open_dataset(small_imdb(), data_root=root, preprocessing=None).identity == before
