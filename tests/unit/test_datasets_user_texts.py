"""Users' texts: files of lines or documents, and tables in three formats; their splits, and what is refused."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from user_data import declared

from robench.core.errors import DeclarationError, MissingDataError, RobenchError, UsageError
from robench.core.protocols import Dataset
from robench.datasets import open_dataset
from robench.datasets.order import hash_order
from robench.datasets.texts import Texts
from robench.datasets.verification import verify
from robench.testing import check_dataset

Rows = list[tuple[str, str]]
# Labels of the test split lack the class "mixed", which is between the others in the order of the names.
TEST: Rows = [("A fine day,\nsaid Zoë.", "good"), ('He said "no", twice', "bad"), ("Ends with a blank ", "good")]
TRAIN: Rows = [("Neither good nor bad", "mixed"), ("Bad", "bad"), ("Good", "good")]


def write_csv(path: Path, rows: Rows, encoding: str = "utf-8") -> None:
    with path.open("w", newline="", encoding=encoding) as file:
        csv.writer(file).writerows([("id", "review", "verdict"), *((n, *row) for n, row in enumerate(rows))])


def write_jsonl(path: Path, rows: Rows) -> None:
    lines = [json.dumps({"verdict": label, "more": [], "review": text}) for text, label in rows]
    path.write_text("\n\n".join(lines) + "\n")


def write_parquet(path: Path, rows: Rows) -> None:
    texts, labels = zip(*rows, strict=True)
    pq.write_table(pa.table({"verdict": labels, "review": texts, "extra": [1] * len(rows)}), path)


WRITERS = {"csv": write_csv, "jsonl": write_jsonl, "parquet": write_parquet}
COLUMNS = "text_column: review, label_column: verdict"


def opened(root: Path, entry: str, split: str | None = None) -> Dataset:
    return open_dataset(declared(root, entry), data_root=None, preprocessing=None, split=split)


def table_of(root: Path, kind: str, split: str) -> Dataset:
    for name, rows in (("test", TEST), ("train", TRAIN)):
        WRITERS[kind](root / f"{name}.{kind}", rows)
    return opened(root, f"{{kind: {kind}, path: test.{kind}, train: train.{kind}, {COLUMNS}}}", split)


def content(dataset: Dataset) -> dict[str, tuple[str, int]]:
    assert isinstance(dataset, Texts)
    return {
        each: (text, int(dataset[place][1]))
        for place, (each, text) in enumerate(zip(dataset.ids, dataset.texts, strict=True))
    }


@pytest.mark.parametrize("kind", WRITERS)
def test_tables_give_texts_and_classes_of_all_splits(tmp_path: Path, kind: str) -> None:
    test, train = (table_of(tmp_path, kind, split) for split in ("test", "train"))
    numbers = {"bad": 0, "good": 1, "mixed": 2}
    assert content(test) == {f"mine/{n:06d}": (text, numbers[label]) for n, (text, label) in enumerate(TEST)}
    assert content(train) == {f"mine/train/{n:06d}": (text, numbers[label]) for n, (text, label) in enumerate(TRAIN)}
    assert list(test.ids) == hash_order(test.ids)
    assert test.num_classes == train.num_classes == 3  # type: ignore[attr-defined]  # classified datasets have it
    assert test.identity == table_of(tmp_path, "csv", "test").identity
    check_dataset(declared(tmp_path, f"{{kind: {kind}, path: test.{kind}, {COLUMNS}}}"))


def test_the_encoding_is_the_entrys_and_changes_no_key(tmp_path: Path) -> None:
    write_csv(tmp_path / "wide.csv", TEST, "utf-16")
    wide = opened(tmp_path, f"{{kind: csv, path: wide.csv, encoding: utf-16, {COLUMNS}}}")
    write_csv(tmp_path / "marked.csv", TEST, "utf-8-sig")
    assert wide.identity == opened(tmp_path, f"{{kind: csv, path: marked.csv, {COLUMNS}}}").identity
    with pytest.raises(MissingDataError, match=r"wide\.csv is not UTF-8 \(byte 0\); save it as UTF-8, or state"):
        opened(tmp_path, f"{{kind: csv, path: wide.csv, {COLUMNS}}}")


def write_folders(root: Path) -> None:
    for name, text in {"bad/b.txt": "No.\r\nNever.\r\n", "good/x/a.txt": "Yes.", "good/c.TXT": "Well, yes."}.items():
        (root / "texts" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "texts" / name).write_bytes(text.encode())
    (root / "texts" / "good" / "notes.md").write_text("no text")


def test_class_folders_documents_and_lines(tmp_path: Path) -> None:
    write_folders(tmp_path)
    labelled = opened(tmp_path, "{kind: texts, path: texts, task: classification}")
    documents = {"bad/b.txt": "No.\nNever.\n", "good/c.TXT": "Well, yes.", "good/x/a.txt": "Yes."}
    assert content(labelled) == {name: (text, int(name > "c")) for name, text in documents.items()}
    unlabelled = opened(tmp_path, "{kind: texts, path: texts}")
    assert isinstance(unlabelled, Texts)
    assert dict(zip(unlabelled.ids, unlabelled.texts, strict=True)) == documents
    lines = opened(tmp_path, "{kind: texts, path: texts/bad/b.txt, examples: lines}")
    assert isinstance(lines, Texts)
    assert dict(zip(lines.ids, lines.texts, strict=True)) == {"b.txt:1": "No.", "b.txt:2": "Never."}


def test_spaced_texts_have_blanks_around_signs(tmp_path: Path) -> None:
    write_csv(tmp_path / "t.csv", TEST)
    entry = f"{{kind: csv, path: t.csv, {COLUMNS}, spaced: true, task: language-modeling}}"
    dataset = opened(tmp_path, entry)
    assert isinstance(dataset, Texts)
    assert dataset.texts[dataset.ids.index("mine/000000")] == "A fine day , said Zoë .\n"


def test_verify_reads_each_split_and_names_the_first_problem(tmp_path: Path) -> None:
    write_csv(tmp_path / "test.csv", TEST)
    write_jsonl(tmp_path / "test.jsonl", TEST)
    entry = declared(tmp_path, f"{{kind: csv, path: test.csv, valid: absent.csv, task: language-modeling, {COLUMNS}}}")
    found = list(verify("mine", None, datasets={"mine": entry}))
    assert [(each.split, each.num_texts, each.is_whole) for each in found] == [("test", 3, True), ("valid", 0, False)]
    assert "absent.csv does not exist" in found[1].findings[0].message


REFUSED: Sequence[tuple[str, bytes, str]] = (
    ("csv", b"review\nonly texts\n", "has no column 'verdict'"),
    ("csv", b"review,verdict\n ,good\nx,bad\n", r"t\.csv, line 2 has a text without words. Remove it"),
    ("csv", b"review,verdict\nx,\ny,bad\n", r"line 2: verdict is empty; give every text a label"),
    ("csv", b"review,verdict\nx,a\ny,a\n", "has only one class"),
    ("csv", b"review,verdict\n", "has no text"),
    ("csv", b"", "has no column 'review'. It is empty"),
    ("csv", b"review,verdict\nx\x1ey,a\nz,b\n", r"line 2 has the control character U\+001E, wanted text"),
    ("jsonl", b'{"review": "x", "verdict": "a"}\n{"review"\n', r"t\.jsonl, line 2 is not JSON"),
    ("jsonl", b"[" * 100_000, r"line 1 is not JSON"),
    ("jsonl", b'["x"]\n', r"line 1 is '\['x'\]' \(list\), wanted an object"),
    ("jsonl", b'{"review": 3, "verdict": "a"}\n', r"line 1 has '3' \(int\) in 'review', wanted a text"),
    (
        "jsonl",
        b'{"review": "x", "verdict": true}\n',
        r"has 'True' \(bool\) in 'verdict', wanted a text or a whole number",
    ),
    ("jsonl", b'{"review": "x"}\n', r"line 1 has no column 'verdict'"),
    ("jsonl", b'{"review": "\\ud800", "verdict": "a"}\n', r"line 1 has half a character \(a surrogate\)"),
    ("parquet", b"PAR1 and no more", "is not a whole Parquet file"),
)


@pytest.mark.parametrize(("kind", "written", "message"), REFUSED, ids=lambda each: str(each)[:24])
def test_what_cannot_be_read_is_named_with_its_place(tmp_path: Path, kind: str, written: bytes, message: str) -> None:
    (tmp_path / f"t.{kind}").write_bytes(written)
    with pytest.raises(RobenchError, match=message) as caught:
        opened(tmp_path, f"{{kind: {kind}, path: t.{kind}, {COLUMNS}}}")
    assert isinstance(caught.value, MissingDataError | DeclarationError)


def test_null_texts_of_parquet_and_absent_files(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["x", None], "label": [0, 1]}), tmp_path / "t.parquet")
    with pytest.raises(MissingDataError, match=r"t\.parquet, row 1 has nothing in 'text', wanted a text"):
        opened(tmp_path, "{kind: parquet, path: t.parquet}")
    with pytest.raises(MissingDataError, match=r"none\.parquet does not exist"):
        opened(tmp_path, "{kind: parquet, path: none.parquet}")
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingDataError, match=r"has no file \*\.txt"):
        opened(tmp_path, "{kind: texts, path: empty}")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            "{kind: csv, path: t.csv, text_column: a, image_size: 8, image_column: b}",
            "image_column: must be left out",
        ),
        ("{kind: csv, path: t.csv, train: u.csv}", "train: must be left out without text_column"),
        ("{kind: csv, path: t.csv, text_column: label}", "label_column: must differ from text_column, got 'label'"),
        (
            "{kind: jsonl, path: t, encoding: klingon}",
            "encoding: must be an encoding of texts such as utf-8, got 'k",
        ),
        ("{kind: jsonl, path: t, encoding: rot13}", "encoding: must be an encoding of texts"),
        ("{kind: parquet, path: t, encoding: utf-16}", "encoding: must be left out for parquet"),
        ("{kind: texts, path: t, valid: ''}", "valid: must name a file or folder, got ''"),
    ],
)
def test_fields_that_contradict_each_other(tmp_path: Path, entry: str, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        declared(tmp_path, entry)


def test_a_split_without_a_path(tmp_path: Path) -> None:
    write_csv(tmp_path / "t.csv", TEST)
    with pytest.raises(UsageError, match="has no split 'train'"):
        opened(tmp_path, f"{{kind: csv, path: t.csv, {COLUMNS}}}", "train")
