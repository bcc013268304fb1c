"""Openers of users' image files: class folders, and lists in CSV files.

Folders are listed without reading a file: 10^6 images in seconds. Links are followed, as by torchvision's ImageFolder;
one that leads back to a folder around it is refused.
"""

import os
import stat
from array import array
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path, PurePath
from typing import Final

import numpy as np

from robench.core.errors import DeclarationError, MissingDataError
from robench.datasets.base import TEST_SPLIT
from robench.datasets.imagenet_folder import SUFFIXES, is_text, misnamed
from robench.datasets.labels import numbered_labels, unknown_class
from robench.datasets.user import UserDataset
from robench.datasets.user_formats import IMAGE_COLUMN, CsvTable, ImageFolder
from robench.datasets.user_impl import FileImages, check_classes, column_of, csv_rows
from robench.declarations.preprocessing import ImagePreprocessing

# More than any published set has; links may make a small tree look endless.
MOST_IMAGES: Final = 20_000_000
_SHOWN: Final = 5
# Device and inode of each of the folders around a folder.
_Around = frozenset[tuple[int, int]]


def open_class_folders(
    declared: UserDataset, *, preprocessing: ImagePreprocessing, decode_workers: int, **unused: object
) -> FileImages:
    """Open the images of a folder with a subfolder for each class."""
    content: ImageFolder = declared.content  # type: ignore[assignment]  # the format of this implementation
    root, title = content.place, f"dataset {declared.name!r}"
    try:
        folders = class_folders(root, title)
        classes = declared.class_names or folders
        numbers = {name: number for number, name in enumerate(classes)}
        names, sizes, targets, empty = list[str](), array("q"), array("q"), list[str]()
        for name in folders:
            if name not in numbers:
                raise unknown_class(f"{title} in {root}", name, classes)
            before = len(names)
            for image, num_bytes in files_below(root, name, title):
                names.append(image)
                sizes.append(num_bytes)
                targets.append(numbers[name])
                if len(names) > MOST_IMAGES:
                    raise MissingDataError(f"{title} in {root} has more than {MOST_IMAGES:,} images; check its links")
            empty += [name] if len(names) == before else []
    except OSError as error:
        raise MissingDataError(f"cannot read {error.filename} of {title}: {error.strerror}") from error
    _refuse_empty(title, root, empty)
    if content.num_classes not in (None, len(classes)):
        raise DeclarationError(
            f"{title} has {len(classes)} class folders in {root}, and num_classes is {content.num_classes} in its"
            " entry; class numbers follow the sorted folders, so both must be equal. State class_names if a class of"
            " the model has no folder"
        )
    check_classes(declared, np.asarray(targets, dtype=np.int64), len(classes), str(root))
    found = FileImages(
        declared,
        root=root,
        names=names,
        sizes=sizes,
        targets=targets,
        num_classes=len(classes),
        preprocessing=preprocessing,
        decode_workers=decode_workers,
    )
    found.class_names = classes
    return found


def class_folders(root: Path, title: str, suffixes: Collection[str] = SUFFIXES) -> list[str]:
    """Return the names of the class folders of files with one of the suffixes, sorted as text."""
    if not root.is_dir():
        found = "is not a folder" if root.exists() else "does not exist"
        raise MissingDataError(f"{title}: {root} {found}. Correct path in its entry, or put the class folders there")
    with os.scandir(root) as entries:
        visible = [entry for entry in entries if not entry.name.startswith(".")]
        classes = sorted(entry.name for entry in visible if entry.is_dir())
        loose = sum(1 for entry in visible if _suffix(entry.name) in suffixes and not entry.is_dir())
    if not classes:
        files = "images" if suffixes == SUFFIXES else "files"
        holds = f"{loose:,} {files} outside class folders" if loose else "no class folders"
        example = f"{root}/cat/1{'.png' if suffixes == SUFFIXES else min(suffixes)}"
        raise MissingDataError(f"{title}: {root} holds {holds}. Expected a folder for each class, such as {example}")
    return classes


def files_below(root: Path, name: str, title: str, suffixes: Collection[str] = SUFFIXES) -> Iterator[tuple[str, int]]:
    """Yield the path, relative to ``root``, and the size in bytes of each file below one of its folders, in any order.

    Files have one of the suffixes, those of images by default. The folder ``.`` is the root itself.
    """
    around_it = frozenset[tuple[int, int]]() if name == "." else frozenset([_place(root)])
    waiting: list[tuple[str, _Around, bool]] = [(name, around_it, True)]
    while waiting:
        relative, around, is_checked = waiting.pop()
        folder = root / relative
        place = _place(folder)
        if is_checked and place in around:
            raise MissingDataError(f"{title}: the link {folder} leads back to an enclosing folder; remove it")
        inside = around | {place}
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir():
                    waiting.append((f"{relative}/{entry.name}", inside, entry.is_symlink()))
                elif _suffix(entry.name) in suffixes:
                    yield f"{relative}/{entry.name}", _num_bytes(entry, folder, relative, title)


def _num_bytes(entry: os.DirEntry[str], folder: Path, relative: str, title: str) -> int:
    name = f"{relative}/{entry.name}"
    if not name.isascii() and not is_text(name):
        raise MissingDataError(misnamed(folder / entry.name))
    try:
        found = entry.stat()
    except FileNotFoundError:
        raise MissingDataError(
            f"{title}: the link {entry.path} leads nowhere; restore its target or remove it"
        ) from None
    if not stat.S_ISREG(found.st_mode):
        raise MissingDataError(f"{title}: image {entry.path} is not a regular file (a pipe, a device, ...); remove it")
    return found.st_size


def _place(folder: Path) -> tuple[int, int]:
    found = folder.stat()
    return found.st_dev, found.st_ino


def _suffix(name: str) -> str:
    _, dot, ending = name.rpartition(".")
    return (dot + ending).lower() if dot else ""


def _refuse_empty(title: str, root: Path, empty: Sequence[str]) -> None:
    if not empty:
        return
    shown = ", ".join(str(root / name) for name in empty[:_SHOWN]) + (", ..." if len(empty) > _SHOWN else "")
    raise MissingDataError(
        f"{title} has {len(empty)} class folder{'s' * (len(empty) > 1)} without an image: {shown}. Put images there, or"
        " remove the folder if it is not a class"
    )


def open_list(
    declared: UserDataset, *, preprocessing: ImagePreprocessing, decode_workers: int, **unused: object
) -> FileImages:
    """Open the images listed in a CSV file."""
    content: CsvTable = declared.content  # type: ignore[assignment]  # the format of this implementation
    root = content.place.parent
    lines: dict[str, int] = {}
    sizes, labels = list[int](), list[str]()
    for line, path, label in _rows(declared.name, content):
        where = f"dataset {declared.name!r}: {content.path}, line {line}"
        name = relative_name(path, where)
        if not label:
            raise MissingDataError(f"{where}: {content.label_column} is empty; give every image a label")
        if (first := lines.setdefault(name, line)) != line:
            raise MissingDataError(f"{where}: {path} was listed before, in line {first}; list each image once")
        sizes.append(size_on_disk(root / name, where))
        labels.append(label)
    numbers, num_classes, class_names = numbered_labels(declared, {TEST_SPLIT: labels})
    targets = numbers[TEST_SPLIT]
    check_classes(declared, np.asarray(targets, dtype=np.int64), num_classes, content.path)
    found = FileImages(
        declared,
        root=root,
        names=list(lines),
        sizes=sizes,
        targets=targets,
        num_classes=num_classes,
        preprocessing=preprocessing,
        decode_workers=decode_workers,
    )
    found.class_names = class_names
    return found


def _rows(name: str, content: CsvTable) -> Iterator[tuple[int, str, str]]:
    """Yield line, path and label of each row."""
    rows = csv_rows(name, content.path, content.encoding, content.delimiter)
    _, header = next(rows)
    title, fields = f"dataset {name!r}: {content.path}", "image_column, label_column or text_column"
    wanted = content.image_column or IMAGE_COLUMN, content.label_column
    columns = [column_of(title, header, column, fields) for column in wanted]
    for line, row in rows:
        yield line, row[columns[0]], row[columns[1]].strip()


def relative_name(path: str, where: str, what: str = "image") -> str:
    """Return the path of a list's image, or of ``what``, with slashes and without ``..``; ``where`` names the row."""
    # Lexically: a link below the folder may lead elsewhere, as its owner made it.
    name = os.path.normpath(path) if path else ""
    if not name or "\0" in name or name == ".":
        raise MissingDataError(f"{where}: the path of the {what} must name a file, got {path!r}")
    if PurePath(name).is_absolute() or PurePath(name).parts[0] == os.pardir:
        raise MissingDataError(
            f"{where}: {path} is not below the folder of the CSV file. Give paths relative to that folder; link or copy"
            f" {what}s that are elsewhere"
        )
    return name


def size_on_disk(path: Path, where: str, what: str = "image") -> int:
    """Return the size of a list's image, or of ``what``, in bytes; ``where`` names the row."""
    try:
        found = path.stat()
    except OSError as error:
        raise MissingDataError(f"{where}: cannot find {what} {path}: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode):
        raise MissingDataError(f"{where}: {what} {path} is not a regular file (a folder, a pipe, a device, ...)")
    return found.st_size
