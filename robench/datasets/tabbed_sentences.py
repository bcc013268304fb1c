"""Sentences and their classes from a table with tabs, as GLUE's: a header, and rows without quoting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from robench.core.errors import MissingDataError
from robench.core.inert import clipped
from robench.datasets.labelled_files import Example, check_number
from robench.datasets.text_files import again, check_lines, decoded_part, find_file, read_file

if TYPE_CHECKING:
    from pathlib import Path

    from robench.datasets.sentiment import TabbedSentences

# Ten times the largest published file.
MOST_BYTES: Final = 1 << 26
_HEADER: Final = "sentence\tlabel"


def read_sentences(declared: TabbedSentences, data_root: Path | None, split: str) -> list[Example]:
    """Return ids, sentences and classes in the order of the file; ids count rows from 0.

    Raises:
        MissingDataError: there is no such file, or it is not the published one.
    """
    path = find_file(declared, data_root, declared.path_of(split), declared.archive)
    content, advice = read_file(declared, path, MOST_BYTES), again(declared.archive)
    check_lines(content, path, advice)
    header, *rows = decoded_part(content, 0, len(content), path, advice).removesuffix("\n").split("\n")
    if header != _HEADER:
        raise MissingDataError(f"line 1 of {path} is '{clipped(header)}', wanted the header {_HEADER!r}. {advice}")
    classes = {str(label): label for label in range(declared.num_classes)}
    examples = []
    for place, row in enumerate(rows):
        sentence, label = _fields(row, classes, f"line {place + 2} of {path}", advice)
        examples.append((f"{declared.folder}/{split}/{place:05d}", sentence, label))
    check_number(declared, split, len(examples), path)
    return examples


def _fields(row: str, classes: dict[str, int], where: str, advice: str) -> tuple[str, int]:
    fields = row.split("\t")
    if len(fields) != 2:
        found = f"has {len(fields) - 1} tabs in '{clipped(row)}'"
        raise MissingDataError(f"{where} {found}, wanted a sentence, one tab and its class. {advice}")
    sentence, label = fields[0].strip(), fields[1]
    if label not in classes:
        raise MissingDataError(f"{where} has the class '{clipped(label)}', wanted {' or '.join(classes)}. {advice}")
    if not sentence:
        raise MissingDataError(f"{where} has an empty sentence, wanted words. {advice}")
    return sentence, classes[label]
