"""Files of texts below the data root: finding, reading and checking them; each problem is a message of one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from robench.core.errors import MissingDataError
from robench.core.files import read_regular
from robench.domains.code_points import CONTEXT_END

if TYPE_CHECKING:
    from pathlib import Path

    from robench.datasets.base import DatasetBase

_FORBIDDEN: Final = {"NUL": b"\0", "U+001E": CONTEXT_END.encode()}


def find_folder(declared: DatasetBase, data_root: Path | None, wanted: str, folder: str, archive: str) -> Path:
    """Return the path of a folder below the data root.

    Args:
        declared: the dataset.
        data_root: folder that contains its folder.
        wanted: path of what is read, below the data root, for messages.
        folder: path of the folder, below the data root.
        archive: name of the published archive that holds it.
    """
    title, how = f"dataset {declared.name!r}", _how(wanted, archive)
    if data_root is None:
        raise MissingDataError(f"{title} needs a folder. {how}")
    path = data_root.expanduser() / folder
    try:
        found = "" if path.is_dir() else "not a folder" if path.exists() else "absent"
    except OSError as error:
        # Such as a name that is too long.
        found = f"not readable ({error.strerror})"
    if found:
        raise MissingDataError(f"{title} not found: {path} is {found}. {how}")
    return path


def find_file(declared: DatasetBase, data_root: Path | None, wanted: str, archive: str, beside: str = "") -> Path:
    """Return the path of a file below the data root; arguments as those of ``find_folder``.

    Args:
        declared: the dataset.
        data_root: folder that contains its folder.
        wanted: path of the file below the data root.
        archive: name of the published archive that holds it.
        beside: ending of a file of other tokens, which is named if it is there instead.
    """
    folder, _, name = wanted.rpartition("/")
    path = find_folder(declared, data_root, wanted, folder, archive) / name
    if not path.exists():
        other = path.with_suffix(beside) if beside else path
        also = f", and beside it {other.name}, whose tokens are others" if other != path and other.exists() else ""
        raise MissingDataError(f"dataset {declared.name!r} not found: {path} is absent{also}. {_how(wanted, archive)}")
    return path


def read_file(declared: DatasetBase, path: Path, most_bytes: int) -> bytes:
    """Return the content of a regular file."""
    try:
        return read_regular(path, most_bytes)
    except OSError as error:
        raise MissingDataError(f"cannot read {path} of dataset {declared.name!r}: {error.strerror}") from error


def again(archive: str) -> str:
    """Return the advice to unpack an archive again."""
    return f"Unpack {archive} again"


def check_text(content: bytes, path: Path, advice: str) -> None:
    """Refuse a file without words, or with signs that stand for something else."""
    if not content or content.isspace():
        raise MissingDataError(f"{path} is empty: it has {len(content):,} bytes and no word. {advice}")
    for name, sign in _FORBIDDEN.items():
        if (place := content.find(sign)) >= 0:
            raise MissingDataError(
                f"{path} has the control character {name} at byte {place:,}, in line {line_of(content, place)}, wanted "
                f"text. {advice}"
            )


def check_lines(content: bytes, path: Path, advice: str) -> None:
    """Refuse what ``check_text`` refuses, and ends of lines of Windows."""
    check_text(content, path, advice)
    if (place := content.find(b"\r\n")) >= 0:
        raise MissingDataError(
            f"{path} has Windows line ends (CR LF), first in line {line_of(content, place)}, wanted LF alone. "
            f"{advice}, without conversion of text"
        )


def decoded_part(content: bytes, start: int, stop: int, path: Path, advice: str) -> str:
    """Return bytes [start, stop) of a file as text."""
    try:
        return content[start:stop].decode()
    except UnicodeDecodeError as error:
        place = start + error.start
        raise MissingDataError(
            f"{path} is not UTF-8: byte {place:,}, in line {line_of(content, place)}, is {content[place]:#04x}. "
            f"{advice}"
        ) from error


def line_of(content: bytes, place: int) -> int:
    r"""Return the number of the line that holds a byte, from 1.

    >>> line_of(b"one\ntwo\n", 4)
    2
    """
    return content.count(b"\n", 0, place) + 1


def _how(wanted: str, archive: str) -> str:
    return f"Wanted: DIR/{wanted}, from the archive {archive}. Give DIR by --data-root DIR or the variable ROBENCH_DATA"
