"""Labels of users' tables: numbers in any spelling are class numbers in every format, or the table is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from user_data import declared

from robench.core.errors import DeclarationError, MissingDataError, RobenchError
from robench.datasets import open_dataset

# More than ten classes, so that the order of numbers is not that of their texts.
NUMBERS = [11, 2, 10, 1, 0, 5, 3, 4, 9, 8, 7, 6]
SPELLINGS = ("{:.1f}", "{:.18e}", "{}.", "+{}", "{:03d}")


def write_table(root: Path, kind: str, labels: list[Any], split: str = "test") -> None:
    """Write a table with a row for each label, as csv or series-csv, or jsonl or parquet, which keep types."""
    if kind == "parquet":
        pq.write_table(pa.table({"text": [f"Words {n}" for n in range(len(labels))], "label": labels}), root / split)
        return
    rows = [f"{{}}{n},{label}" for n, label in enumerate(labels)]
    written = {
        "texts": ["text,label", *(row.format("Words ") for row in rows)],
        "images": ["path,label", *(f"{n}.png,{label}" for n, label in enumerate(labels))],
        "series-csv": ["series,step,x,label", *(f"{n},0,{n}.5,{label}" for n, label in enumerate(labels))],
        "jsonl": [json.dumps({"text": f"Words {n}", "label": label}) for n, label in enumerate(labels)],
    }[kind]
    (root / split).write_text("\n".join(written) + "\n")
    for number in range(len(labels) if kind == "images" else 0):
        Image.fromarray(np.full((4, 4), number, np.uint8)).save(root / f"{number}.png")


def targets_of(root: Path, kind: str, fields: str = "", split: str | None = None) -> list[int]:
    """Return the classes of a table in the order of its rows."""
    named = {"texts": "csv, text_column: text", "images": "csv"}.get(kind, kind)
    entry = declared(root, f"{{kind: {named}, path: test{fields}}}")
    dataset = open_dataset(entry, data_root=None, preprocessing=None, split=split)
    found = dict(zip(dataset.ids, dataset.batch(0, len(dataset)).targets.tolist(), strict=True))
    return [found[each] for each in sorted(found, key=lambda each: int(Path(each).stem))]


KINDS = ("texts", "images", "series-csv", "jsonl", "parquet")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_whole_numbers_in_any_spelling_are_class_numbers(tmp_path: Path, kind: str, spelling: str) -> None:
    write_table(tmp_path, kind, [spelling.format(number) for number in NUMBERS])
    assert targets_of(tmp_path, kind) == NUMBERS


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_floats_of_typed_tables_are_class_numbers_if_they_are_whole(tmp_path: Path, kind: str) -> None:
    write_table(tmp_path, kind, [float(number) for number in NUMBERS])
    assert targets_of(tmp_path, kind) == NUMBERS
    for wrong in (float("nan"), 0.5):
        write_table(tmp_path, kind, [0.0, wrong])
        with pytest.raises(MissingDataError, match=rf"has '{wrong}' \(float\) in 'label', wanted a text or a whole"):
            targets_of(tmp_path, kind)


@pytest.mark.parametrize("kind", ["texts", "series-csv", "jsonl", "parquet"])
def test_splits_may_differ_in_the_spelling_of_numbers_but_not_in_kind(tmp_path: Path, kind: str) -> None:
    write_table(tmp_path, kind, [str(number) for number in NUMBERS])
    write_table(tmp_path, kind, [f"{number}.0" for number in NUMBERS], "train")
    for split in ("test", "train"):
        assert targets_of(tmp_path, kind, ", train: train", split) == NUMBERS
    write_table(tmp_path, kind, ["cat", "dog"], "train")
    with pytest.raises(MissingDataError, match="numbers as labels in its test split, and names such as 'cat' in its"):
        targets_of(tmp_path, kind, ", train: train")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["0.0", "nan", "1.0"], "has the label 'nan' in its test split, where all other labels are numbers; expected"),
        (["0", "1.5", "2"], r"has the label '1\.5' in its test split, which is a number and not a whole one; expected"),
    ],
)
def test_what_is_no_class_number_is_refused(tmp_path: Path, kind: str, labels: list[str], message: str) -> None:
    write_table(tmp_path, kind, labels)
    with pytest.raises(MissingDataError, match=message):
        targets_of(tmp_path, kind)


@pytest.mark.parametrize(
    ("labels", "numbers"),
    [
        (["2", "10", "other"], [1, 0, 2]),  # one name makes all of them names
        (["v1.0", "nan", "b"], [2, 1, 0]),
        (["1e999", "12345678901234567890123"], [1, 0]),  # no class numbers: ids
    ],
)
def test_other_labels_are_names_in_their_order(tmp_path: Path, labels: list[str], numbers: list[int]) -> None:
    write_table(tmp_path, "texts", labels)
    assert targets_of(tmp_path, "texts") == numbers


@pytest.mark.parametrize("kind", ["texts", "images", "series-csv"])
@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_columns_of_any_delimiter_are_read_and_it_is_proposed(tmp_path: Path, kind: str, delimiter: str) -> None:
    write_table(tmp_path, kind, NUMBERS)
    (tmp_path / "test").write_text((tmp_path / "test").read_text().replace(",", delimiter))
    field = f"delimiter: {json.dumps(delimiter)}"
    with pytest.raises(DeclarationError, match="no column") as caught:
        targets_of(tmp_path, kind)
    assert f"state {field} in the dataset's entry" in str(caught.value)
    assert targets_of(tmp_path, kind, f", {field}") == NUMBERS


def test_a_quoted_header_of_another_delimiter_is_explained_too(tmp_path: Path) -> None:
    (tmp_path / "test").write_text('"text";"label"\n"A, b";0\n"C; d";1\n')
    with pytest.raises(RobenchError, match=r'line 1: .*expected a CSV file. .* state delimiter: ";" in'):
        targets_of(tmp_path, "texts")
    assert targets_of(tmp_path, "texts", ', delimiter: ";"') == [0, 1]
    with pytest.raises(DeclarationError, match=r"delimiter: must be one character .* got '\\t\\t'"):
        targets_of(tmp_path, "texts", r', delimiter: "\t\t"')


def test_a_text_may_be_longer_than_the_limit_of_pythons_csv(tmp_path: Path) -> None:
    texts = ["a" * 131_072, "b" * 200_000]
    (tmp_path / "test").write_text("text,label\n" + "".join(f"{text},{n}\n" for n, text in enumerate(texts)))
    assert targets_of(tmp_path, "texts") == [0, 1]
