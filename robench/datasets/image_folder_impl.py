"""Opener of class folders of images, listed without reading a file: 10^6 of them in seconds.

Links are followed, as by torchvision's ImageFolder; one that leads back to a folder around it is refused.
"""

from __future__ import annotations

import os
import stat
from array import array
from typing import TYPE_CHECKING, Final

import numpy as np

from robench.core.errors import DeclarationError, MissingDataError
from robench.datasets.imagenet_folder import SUFFIXES, is_text, misnamed
from robench.datasets.user_impl import FileImages, check_classes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from robench.datasets.image_folder import ImageFolder
    from robench.datasets.user import UserDataset
    from robench.declarations.preprocessing import ImagePreprocessing

# More than any published set has; links may make a small tree look endless.
MOST_IMAGES: Final = 20_000_000
_SHOWN: Final = 5

# Device and inode of a folder, and the same of the folders around it.
_Chain = tuple[int, int, "_Chain | None"]


def open_class_folders(declared: UserDataset, *, preprocessing: ImagePreprocessing, decode_workers: int) -> FileImages:
    """Open the images of a folder with a subfolder for each class.

    Raises:
        MissingDataError: there is no such folder, it cannot be read, or has no or empty class folders.
        DeclarationError: the number of classes differs from the entry's, or images differ in size.
    """
    content: ImageFolder = declared.content  # type: ignore[assignment]  # the format of this implementation
    root, title = content.place, f"dataset {declared.name!r}"
    try:
        classes = class_folders(root, title)
        names, sizes, targets = list[str](), array("q"), array("q")
        for target, name in enumerate(classes):
            for image, num_bytes in images_below(root, name, title):
                names.append(image)
                sizes.append(num_bytes)
                targets.append(target)
                if len(names) > MOST_IMAGES:
                    raise MissingDataError(f"{title} in {root} has more than {MOST_IMAGES:,} images; check its links")
    except OSError as error:
        raise MissingDataError(f"cannot read {error.filename} of {title}: {error.strerror}") from error
    labels = np.asarray(targets, dtype=np.int64)
    _refuse_empty(title, root, classes, labels)
    if content.num_classes not in (None, len(classes)):
        raise DeclarationError(
            f"{title} has {len(classes)} class folders in {root}, and num_classes is {content.num_classes} in its"
            " entry; class numbers follow the sorted folders, so both must be equal"
        )
    check_classes(declared, labels, len(classes), str(root))
    return FileImages(
        declared,
        root=root,
        names=names,
        sizes=sizes,
        targets=targets,
        num_classes=len(classes),
        preprocessing=preprocessing,
        decode_workers=decode_workers,
    )


def class_folders(root: Path, title: str) -> list[str]:
    """Return the names of the class folders, sorted as text.

    Raises:
        MissingDataError: there is no such folder, or it has no folders.
        OSError: it cannot be read.
    """
    if not root.is_dir():
        found = "is not a folder" if root.exists() else "does not exist"
        raise MissingDataError(f"{title}: {root} {found}. Correct path in its entry, or put the class folders there")
    with os.scandir(root) as entries:
        visible = [entry for entry in entries if not entry.name.startswith(".")]
        classes = sorted(entry.name for entry in visible if entry.is_dir())
        loose = sum(1 for entry in visible if _suffix(entry.name) in SUFFIXES and not entry.is_dir())
    if not classes:
        holds = f"{loose:,} images outside class folders" if loose else "no class folders"
        raise MissingDataError(
            f"{title}: {root} holds {holds}. Expected a folder for each class, such as {root}/cat/1.png"
        )
    return classes


def images_below(root: Path, name: str, title: str) -> Iterator[tuple[str, int]]:
    """Yield the path, relative to ``root``, and the size in bytes of each image below a class folder, in any order.

    Raises:
        MissingDataError: an image is not a regular file, a name is not UTF-8, or a link leads back to an enclosing
            folder.
        OSError: a folder or the target of a link cannot be read.
    """
    waiting: list[tuple[str, _Chain | None, bool]] = [(name, _chain(root, None), True)]
    while waiting:
        relative, around, is_checked = waiting.pop()
        folder = root / relative
        chain = _chain(folder, around)
        if is_checked and _leads_back(chain):
            raise MissingDataError(f"{title}: the link {folder} leads back to an enclosing folder; remove it")
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir():
                    waiting.append((f"{relative}/{entry.name}", chain, entry.is_symlink()))
                elif _suffix(entry.name) in SUFFIXES:
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


def _chain(folder: Path, around: _Chain | None) -> _Chain:
    found = folder.stat()
    return found.st_dev, found.st_ino, around


def _leads_back(chain: _Chain) -> bool:
    around = chain[2]
    while around is not None:
        if around[:2] == chain[:2]:
            return True
        around = around[2]
    return False


def _suffix(name: str) -> str:
    _, dot, ending = name.rpartition(".")
    return (dot + ending).lower() if dot else ""


def _refuse_empty(
    title: str, root: Path, classes: list[str], targets: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> None:
    counts = np.bincount(targets, minlength=len(classes))
    empty = [name for name, count in zip(classes, counts, strict=True) if not count]
    if not empty:
        return
    shown = ", ".join(str(root / name) for name in empty[:_SHOWN]) + (", ..." if len(empty) > _SHOWN else "")
    raise MissingDataError(
        f"{title} has {len(empty)} class folder{'s' * (len(empty) > 1)} without an image: {shown}. Put images there, or"
        " remove the folder if it is not a class"
    )
