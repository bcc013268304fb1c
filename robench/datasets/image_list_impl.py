"""Opener of images and labels listed in a CSV file."""

from __future__ import annotations

import csv
import io
import os
import re
import stat
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

import numpy as np

from robench.core.errors import DeclarationError, MissingDataError, did_you_mean
from robench.core.files import read_regular
from robench.datasets.user_impl import FileImages, check_classes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from robench.datasets.image_list import ImageList
    from robench.datasets.user import UserDataset
    from robench.declarations.preprocessing import ImagePreprocessing

LARGEST_FILE: Final = 1 << 30
_NUMBER: Final = re.compile(r"[-+]?[0-9]{1,18}")


def open_list(declared: UserDataset, *, preprocessing: ImagePreprocessing, decode_workers: int) -> FileImages:
    """Open the images listed in a CSV file.

    Raises:
        MissingDataError: the file or an image is missing or unreadable, or a row is wrong; the message names the line.
        DeclarationError: it lacks the columns, has classes other than the entry's, or images differ in size.
    """
    content: ImageList = declared.content  # type: ignore[assignment]  # the format of this implementation
    root = content.place.parent
    lines: dict[str, int] = {}
    sizes, labels = list[int](), list[str]()
    for line, path, label in _rows(declared.name, content):
        where = f"dataset {declared.name!r}: {content.path}, line {line}"
        name = _relative(path, where)
        if not label:
            raise MissingDataError(f"{where}: {content.label_column} is empty; give every image a label")
        if (first := lines.setdefault(name, line)) != line:
            raise MissingDataError(f"{where}: {path} was listed before, in line {first}; list each image once")
        sizes.append(_num_bytes(root / name, where))
        labels.append(label)
    targets, num_classes = _numbered(declared, labels)
    check_classes(declared, np.asarray(targets, dtype=np.int64), num_classes, content.path)
    return FileImages(
        declared,
        root=root,
        names=list(lines),
        sizes=sizes,
        targets=targets,
        num_classes=num_classes,
        preprocessing=preprocessing,
        decode_workers=decode_workers,
    )


def _rows(name: str, content: ImageList) -> Iterator[tuple[int, str, str]]:
    """Yield line, path and label of each row."""
    title = f"dataset {name!r}: {content.path}"
    try:
        text = read_regular(content.place, LARGEST_FILE).decode("utf-8-sig")
    except FileNotFoundError:
        raise MissingDataError(f"{title} does not exist. Correct path in its entry, or put the file there") from None
    except OSError as error:
        raise MissingDataError(f"cannot read {content.path} of dataset {name!r}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise MissingDataError(f"{title} is not UTF-8 (byte {error.start}); save it as UTF-8") from error
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, [])
        columns = [_column(title, header, column) for column in (content.image_column, content.label_column)]
        for row in reader:
            if row and len(row) != len(header):
                raise MissingDataError(
                    f"{title}, line {reader.line_num}: {len(row)} columns, and the header has {len(header)}"
                )
            if row:
                yield reader.line_num, row[columns[0]], row[columns[1]].strip()
    except csv.Error as error:
        raise MissingDataError(f"{title}, line {reader.line_num}: {error}; expected a CSV file") from error


def _column(title: str, header: Sequence[str], column: str) -> int:
    if header.count(column) == 1:
        return header.index(column)
    if column in header:
        raise DeclarationError(f"{title} has {header.count(column)} columns {column!r}; give each its own name")
    hint = did_you_mean(column, header) if header else " It is empty."
    raise DeclarationError(f"{title} has no column {column!r}.{hint} Name it by image_column or label_column")


def _relative(path: str, where: str) -> str:
    """Return the path of an image with slashes and without ``..``."""
    # Lexically: a link below the folder may lead elsewhere, as its owner made it.
    name = os.path.normpath(path) if path else ""
    if not name or "\0" in name or name == ".":
        raise MissingDataError(f"{where}: the path of an image must name a file, got {path!r}")
    if PurePath(name).is_absolute() or PurePath(name).parts[0] == os.pardir:
        raise MissingDataError(
            f"{where}: {path} is not below the folder of the CSV file. Give paths relative to that folder; link or copy"
            " images that are elsewhere"
        )
    return name


def _num_bytes(path: Path, where: str) -> int:
    try:
        found = path.stat()
    except OSError as error:
        raise MissingDataError(f"{where}: cannot find image {path}: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode):
        raise MissingDataError(f"{where}: image {path} is not a regular file (a folder, a pipe, a device, ...)")
    return found.st_size


def _numbered(declared: UserDataset, labels: Sequence[str]) -> tuple[list[int], int]:
    """Return the class number of each label, and the number of classes."""
    stated = declared.num_classes
    if all(_NUMBER.fullmatch(label) for label in labels):
        targets = [int(label) for label in labels]
        return targets, stated or max(targets, default=0) + 1
    numbers = {label: number for number, label in enumerate(sorted(set(labels)))}
    if stated not in (None, len(numbers)):
        raise DeclarationError(
            f"dataset {declared.name!r} has {len(numbers)} different labels, and num_classes is {stated} in its entry;"
            " names are numbered in sorted order, so both must be equal. Give class numbers as labels instead"
        )
    return [numbers[label] for label in labels], len(numbers)
