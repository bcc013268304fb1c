"""Users' texts: files of lines or documents, and tables in three formats; their splits, and what is refused."""

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from user_data import declared, opened

from robench.core.errors import MissingDataError
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


def read(root: Path, entry: str, split: str | None = None) -> Any:
    return opened(declared(root, entry), split)


def table_of(root: Path, kind: str, split: str) -> Any:
    for name, rows in (("test", TEST), ("train", TRAIN)):
        WRITERS[kind](root / f"{name}.{kind}", rows)
    return read(root, f"{{kind: {kind}, path: test.{kind}, train: train.{kind}, {COLUMNS}}}", split)


def content(dataset: Any) -> dict[str, tuple[str, int]]:
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
    assert test.num_classes == train.num_classes == 3
    assert test.identity == table_of(tmp_path, "csv", "test").identity
    check_dataset(declared(tmp_path, f"{{kind: {kind}, path: test.{kind}, {COLUMNS}}}"))


def test_the_encoding_is_the_entrys_and_changes_no_key(tmp_path: Path) -> None:
    write_csv(tmp_path / "wide.csv", TEST, "utf-16")
    wide = read(tmp_path, f"{{kind: csv, path: wide.csv, encoding: utf-16, {COLUMNS}}}")
    write_csv(tmp_path / "marked.csv", TEST, "utf-8-sig")
    assert wide.identity == read(tmp_path, f"{{kind: csv, path: marked.csv, {COLUMNS}}}").identity
    with pytest.raises(MissingDataError, match=r"wide\.csv is not UTF-8 \(byte 0\); save it as UTF-8, or state"):
        read(tmp_path, f"{{kind: csv, path: wide.csv, {COLUMNS}}}")


def write_folders(root: Path) -> None:
    for name, text in {"bad/b.txt": "No.\r\nNever.\r\n", "good/x/a.txt": "Yes.", "good/c.TXT": "Well, yes."}.items():
        (root / "texts" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "texts" / name).write_bytes(text.encode())
    (root / "texts" / "good" / "notes.md").write_text("no text")


def test_class_folders_documents_and_lines(tmp_path: Path) -> None:
    write_folders(tmp_path)
    labelled = read(tmp_path, "{kind: texts, path: texts, task: classification}")
    documents = {"bad/b.txt": "No.\nNever.\n", "good/c.TXT": "Well, yes.", "good/x/a.txt": "Yes."}
    assert content(labelled) == {name: (text, int(name > "c")) for name, text in documents.items()}
    unlabelled = read(tmp_path, "{kind: texts, path: texts}")
    assert dict(zip(unlabelled.ids, unlabelled.texts, strict=True)) == documents
    lines = read(tmp_path, "{kind: texts, path: texts/bad/b.txt, examples: lines}")
    assert dict(zip(lines.ids, lines.texts, strict=True)) == {"b.txt:1": "No.", "b.txt:2": "Never."}


def test_spaced_texts_have_blanks_around_signs(tmp_path: Path) -> None:
    write_csv(tmp_path / "t.csv", TEST)
    entry = f"{{kind: csv, path: t.csv, {COLUMNS}, spaced: true, task: language-modeling}}"
    dataset = read(tmp_path, entry)
    assert isinstance(dataset, Texts)
    assert dataset.texts[dataset.ids.index("mine/000000")] == "A fine day , said Zoë .\n"


def test_verify_reads_each_split_and_names_the_first_problem(tmp_path: Path) -> None:
    write_csv(tmp_path / "test.csv", TEST)
    write_jsonl(tmp_path / "test.jsonl", TEST)
    entry = declared(tmp_path, f"{{kind: csv, path: test.csv, valid: absent.csv, task: language-modeling, {COLUMNS}}}")
    found = list(verify("mine", None, datasets={"mine": entry}))
    assert [(each.split, each.num_texts, each.is_whole) for each in found] == [("test", 3, True), ("valid", 0, False)]
    assert "absent.csv does not exist" in found[1].findings[0].message
