"""Openers of users' texts: files of lines or documents, and tables in CSV, JSON Lines or Parquet.

Examples are in the order of the SHA-256 of their ids. A document's id is the path of its file, that of a line has the
number of the line behind it, and row 42 of a table is ``DATASET/000042``.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from robench.core.errors import MissingDataError
from robench.core.files import open_regular
from robench.core.inert import clipped
from robench.core.protocols import Dataset
from robench.datasets.base import TEST_SPLIT
from robench.datasets.image_files_impl import class_folders, files_below, open_list
from robench.datasets.labels import numbered_labels
from robench.datasets.order import hash_positions
from robench.datasets.text_formats import LINES, TextFiles, TextFormat, TextTable
from robench.datasets.texts import LabelledTexts, Texts, with_spaced_words
from robench.datasets.user import UserDataset
from robench.datasets.user_formats import CsvTable
from robench.datasets.user_impl import (
    check_classes,
    column_of,
    csv_rows,
    decoded_file,
    numbered_ids,
    reading,
)
from robench.domains.code_points import CONTEXT_END

SUFFIX = ".txt"
_CONTROL = {"\0": "NUL", CONTEXT_END: "U+001E"}
_ADVICE = "Remove it, or put words there"


class Labelled(NamedTuple):
    """Text of a split; ``place`` names it in messages, and ``label`` is that of a classifier, or ``""``."""

    example_id: str
    text: str
    label: str
    place: str


class ClassifiedTexts(LabelledTexts):
    """Texts with classes, and the number and names of the classes of all splits."""

    def __init__(
        self, name: str, texts: Sequence[tuple[str, str, int]], num_classes: int, class_names: Sequence[str] | None
    ) -> None:
        super().__init__(name, texts)
        self.num_classes, self.class_names = num_classes, class_names


def open_csv(declared: UserDataset, **options: Any) -> Dataset:
    """Open a split of a CSV file of texts, images or other inputs; see ``user_impl.open_user`` for the options."""
    content: CsvTable = declared.content  # type: ignore[assignment]  # the format of this implementation
    return (open_list if content.text_column is None else open_text_table)(declared, **options)


def open_text_files(declared: UserDataset, *, split: str = TEST_SPLIT, **unused: object) -> Dataset:
    """Open a split of text files."""
    content: TextFiles = declared.content  # type: ignore[assignment]  # the format of this implementation
    return _opened(declared, content, split, lambda path, split: _files(declared, content, Path(path)))


def open_text_table(declared: UserDataset, *, split: str = TEST_SPLIT, **unused: object) -> Dataset:
    """Open a split of a table of texts."""
    content: TextTable = declared.content  # type: ignore[assignment]  # the formats of this implementation
    return _opened(declared, content, split, lambda path, split: _table(declared, content, path, split))


def _opened(
    declared: UserDataset, content: TextFormat, split: str, read: Callable[[str, str], Iterator[Labelled]]
) -> Dataset:
    """Return the texts of a split; classifiers number the labels of all splits alike."""
    title = f"dataset {declared.name!r}"
    paths = content.paths if content.has_labels else {split: content.paths[split]}
    found = {name: list(read(path, name)) for name, path in paths.items()}
    asked = found[split]
    if not asked:
        raise MissingDataError(f"{title} has no text: {content.paths[split]} is empty. Check the path in its entry")
    texts = [(each.example_id, _checked(title, each, content.spaced)) for each in asked]
    order = hash_positions([example_id for example_id, _ in texts])
    if not content.has_labels:
        return Texts(declared.name, [texts[place] for place in order])
    numbers, num_classes, class_names = numbered_labels(
        declared, {name: [each.label for each in some] for name, some in found.items()}
    )
    for name, part in numbers.items():
        check_classes(declared, np.asarray(part, dtype=np.int64), num_classes, content.paths[name])
    examples = [(*texts[place], numbers[split][place]) for place in order]
    return ClassifiedTexts(declared.name, examples, num_classes, class_names)


def _checked(title: str, found: Labelled, is_spaced: bool) -> str:
    """Return the text with line feeds at the ends of lines; refuse one without words, or with placeholder signs."""
    where = f"{title}: {found.place}"
    text = found.text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip():
        raise MissingDataError(f"{where} has a text without words. {_ADVICE}")
    for sign, name in _CONTROL.items():
        if sign in text:
            raise MissingDataError(f"{where} has the control character {name}, wanted text. Remove the character")
    if not text.isascii() and any("\ud800" <= sign <= "\udfff" for sign in text):
        raise MissingDataError(f"{where} has half a character (a surrogate), wanted text. Save it as UTF-8")
    return with_spaced_words(text) if is_spaced else text


def _files(declared: UserDataset, content: TextFiles, root: Path) -> Iterator[Labelled]:
    """Yield the texts of a file, of the files of a folder, or of those of class folders."""
    title = f"dataset {declared.name!r}"
    try:
        if content.has_labels:
            found = [
                (each, name) for name in class_folders(root, title, (SUFFIX,)) for each in _names(root, name, title)
            ]
        elif root.is_dir():
            found = [(each, "") for each in _names(root, ".", title)]
        else:
            found, root = [(root.name, "")], root.parent
    except OSError as error:
        raise MissingDataError(f"cannot read {error.filename} of {title}: {error.strerror}") from error
    for name, label in found:
        path = root / name
        text = decoded_file(declared.name, str(path), content.encoding)
        if content.examples != LINES:
            yield Labelled(name, text, label, str(path))
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                yield Labelled(f"{name}:{number}", line, label, f"{path}, line {number}")


def _names(root: Path, folder: str, title: str) -> list[str]:
    """Return the sorted paths of the text files below a folder of ``root``, relative to ``root``."""
    names = sorted(name.removeprefix("./") for name, _ in files_below(root, folder, title, (SUFFIX,)))
    if not names:
        raise MissingDataError(f"{title}: {root / folder} has no file *{SUFFIX}. Put texts there, or correct its path")
    return names


def _table(declared: UserDataset, content: TextTable, path: str, split: str) -> Iterator[Labelled]:
    """Yield the texts of a table's rows."""
    rows = list(_READERS[content.kind](declared.name, content, path))
    title = f"dataset {declared.name!r}"
    ids = numbered_ids(declared.name if split == TEST_SPLIT else f"{declared.name}/{split}", len(rows))
    for example_id, (line, row) in zip(ids, rows, strict=True):
        place = f"{path}, {line}"
        text = row[content.text_column]
        if not isinstance(text, str):
            raise MissingDataError(f"{title}: {place} has {_shown(text)} in {content.text_column!r}, wanted a text")
        label = _label(row, content, f"{title}: {place}") if content.has_labels else ""
        yield Labelled(example_id, text, label, place)


def _label(row: Mapping[str | None, Any], content: TextTable, where: str) -> str:
    column = content.label_column
    label = row[column]
    # pandas writes whole numbers as floats once a value is missing.
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    if isinstance(label, bool) or not isinstance(label, str | int):
        raise MissingDataError(f"{where} has {_shown(label)} in {column!r}, wanted a text or a whole number")
    if not str(label).strip():
        raise MissingDataError(f"{where}: {column} is empty; give every text a label")
    return str(label).strip()


def _shown(value: object) -> str:
    return f"'{clipped(str(value))}' ({type(value).__name__})" if value is not None else "nothing"


# Place in the file and values by column.
Row = tuple[str, Mapping[str | None, Any]]


def _columns(declared_name: str, content: TextTable, path: str, header: Sequence[str]) -> list[tuple[str, int]]:
    """Return names and positions of the columns to read."""
    title = f"dataset {declared_name!r}: {path}"
    wanted = [content.text_column, content.label_column] if content.has_labels else [content.text_column]
    found = [str(name) for name in wanted]
    return [(name, column_of(title, header, name, "text_column or label_column")) for name in found]


def _csv(name: str, content: TextTable, path: str) -> Iterator[Row]:
    assert isinstance(content, CsvTable)
    rows = csv_rows(name, path, content.encoding, content.delimiter)
    _, header = next(rows)
    columns = _columns(name, content, path, header)
    for line, row in rows:
        yield f"line {line}", {column: row[place] for column, place in columns}


def _json_lines(name: str, content: TextTable, path: str) -> Iterator[Row]:
    for number, line in enumerate(decoded_file(name, path, content.encoding).split("\n"), 1):
        if not line.strip():
            continue
        title = f"dataset {name!r}: {path}, line {number}"
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise MissingDataError(f"{title} is not JSON ({error}). Write one object a line") from error
        if not isinstance(found, dict):
            raise MissingDataError(f'{title} is {_shown(found)}, wanted an object such as {{"text": ...}}')
        columns = _columns(name, content, f"{path}, line {number}", list(found))
        yield f"line {number}", {column: found[column] for column, _ in columns}


def _parquet(name: str, content: TextTable, path: str) -> Iterator[Row]:
    # Here because pyarrow is heavy.
    from robench.datasets.parquet_files import ParquetRows

    with reading(name, path), open_regular(Path(path)) as opened:
        file = ParquetRows(opened, f"dataset {name!r}: {path}")
        columns = [column for column, _ in _columns(name, content, path, [*file.kinds])]
        groups = (file.read(group, columns).to_pylist() for group in range(len(file.ends)))
        for number, row in enumerate(chain.from_iterable(groups)):
            yield f"row {number}", row


_READERS: Mapping[str, Callable[[str, TextTable, str], Iterator[Row]]] = {
    "csv": _csv,
    "jsonl": _json_lines,
    "parquet": _parquet,
}
