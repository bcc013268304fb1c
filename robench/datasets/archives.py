"""Safe reading of downloaded archives: tar, tar.gz or zip, recognised by their first bytes.

An archive determines names, types and sizes of the written files, so a malicious one could write anywhere or fill the
disk (Common Weakness Enumeration 22, 59 and 409). Here a member is a regular file or a folder, its name stays below the
folder that it is unpacked into, no two are the same (on a file system that ignores case, either), and the declared
sizes have a limit. Anything else causes the whole archive to be refused.
"""

import gzip
import re
import stat
import struct
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Literal, cast

from robench.core.errors import MissingDataError, UsageError
from robench.core.files import open_regular

_DRIVE: Final = re.compile(r"[A-Za-z]:")
# No tar header needs more; a larger one would be read into memory whole.
_LONGEST_HEADER: Final = 1 << 20
# Zeros that pad the last block of a tape.
_LONGEST_PADDING: Final = 1 << 20
# Maximum length of a file or folder name on the usual file systems, in bytes.
_LONGEST_NAME: Final = 255

# Errors of the standard library on damaged archives; the last line is caused by forged headers.
_DAMAGE: Final = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError, struct.error),
    *(ValueError, OverflowError, RecursionError, NotImplementedError, IndexError, KeyError, MemoryError),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """File or folder in an archive; ``parts`` are the names of the enclosing folders, and its own.

    ``open`` returns the content, while the archive is being read, in its order. ``start`` is the first byte of the
    content in a tar after decompression.
    """

    parts: tuple[str, ...]
    is_folder: bool
    num_bytes: int
    open: Callable[[], IO[bytes]]
    kind: Literal["tar", "tar.gz", "zip"] = "tar"
    start: int = 0


def read_members(archive: Path) -> Iterator[Member]:
    """Yield the members in the archive's order."""
    try:
        open_regular(archive).close()
    except OSError as error:
        raise UsageError(f"cannot read archive {archive}: {error.strerror}") from error
    with reporting_damage(archive):
        for member in _zip_members(archive) if zipfile.is_zipfile(archive) else _tar_members(archive):
            if member.num_bytes < 0 or not (member.parts or member.is_folder):
                raise _refused(archive, "/".join(member.parts), "has a negative size, or no name")
            yield member


@contextmanager
def reporting_damage(archive: Path) -> Iterator[None]:
    """Convert errors that libraries raise on damaged archives to one that names the archive."""
    try:
        yield
    except _DAMAGE as error:
        raise MissingDataError(
            f"archive {archive} is damaged or not a tar or zip file: {error}. Get it anew"
        ) from error


def check_members(archive: Path, *, max_bytes: int, max_members: int) -> list[tuple[str, ...]]:
    """Read all of an archive's members without writing anything; return the names of its files."""
    # By name without case.
    files: dict[str, tuple[str, ...]] = {}
    folders: set[tuple[str, ...]] = set()
    num_bytes = 0
    for count, member in enumerate(read_members(archive), 1):
        parts, num_bytes = member.parts, num_bytes + member.num_bytes
        if count > max_members or num_bytes > max_bytes:
            raise MissingDataError(
                f"archive {archive} declares more than this dataset can have ({max_members:,} members,"
                f" {max_bytes:,} bytes); nothing was unpacked. Is it another archive?"
            )
        folders.update(parts[:end] for end in range(1, len(parts) + member.is_folder))
        if member.is_folder:
            continue
        if (first := files.setdefault(_folded(parts), parts)) is not parts:
            elsewhere = f"is the same file as {'/'.join(first)!r} where a file system ignores case"
            raise _refused(archive, "/".join(parts), "is there twice" if first == parts else elsewhere)
    if clash := next((parts for parts in files.values() if parts in folders), None):
        raise _refused(archive, "/".join(clash), "is there twice, as a file and as a folder")
    return list(files.values())


def _zip_members(archive: Path) -> Iterator[Member]:
    with zipfile.ZipFile(archive) as file:
        for info in file.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _refused(archive, info.filename, "is neither a regular file nor a folder")
            if not info.filename:
                raise _refused(archive, "", "has no name")
            if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise _refused(archive, info.filename, "is encrypted, or compressed in an unusual way")
            yield Member(
                parts=_parts(archive, info.filename),
                is_folder=info.is_dir(),
                num_bytes=0 if info.is_dir() else info.file_size,
                open=lambda info=info: file.open(info),  # type: ignore[misc]  # mypy knows no default of a lambda
                kind="zip",
            )


def _tar_members(archive: Path) -> Iterator[Member]:
    with _opened(archive) as content, tarfile.TarFile(fileobj=cast("IO[bytes]", _ShortReads(content))) as file:
        while (info := file.next()) is not None:
            # Otherwise all members, possibly a million, stay in memory.
            file.members.clear()  # type: ignore[attr-defined]  # typeshed leaves it out
            if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE) or info.issparse():
                raise _refused(archive, info.name, "is neither a regular file nor a folder")
            yield Member(
                parts=_parts(archive, info.name),
                is_folder=info.isdir(),
                num_bytes=info.size if info.isreg() else 0,
                open=lambda info=info: cast("IO[bytes]", file.extractfile(info)),  # type: ignore[misc]  # as above
                kind="tar.gz" if isinstance(content, gzip.GzipFile) else "tar",
                start=info.offset_data,
            )

        # A damaged header silently ends a tar file; reading to the end also makes gzip verify its checksum.
        content.seek(file.offset)
        rest = content.read(_LONGEST_PADDING + 1)
        if len(rest) > _LONGEST_PADDING or rest.strip(b"\0"):
            raise tarfile.ReadError("data that is not a member follows its last member")


@contextmanager
def _opened(archive: Path) -> Iterator[IO[bytes]]:
    with open_regular(archive) as file:
        is_compressed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not is_compressed:
            yield file
            return
        with gzip.GzipFile(fileobj=file) as unzipped:
            yield cast("IO[bytes]", unzipped)


class _ShortReads:
    """File wrapper that refuses reads of sizes that only a forged header requests."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int) -> bytes:
        if size > _LONGEST_HEADER:
            raise tarfile.ReadError(f"a header claims to have {size:,} bytes")
        return self._file.read(size)


def _parts(archive: Path, name: str) -> tuple[str, ...]:
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if name.startswith("/") or _DRIVE.match(name):
        raise _refused(archive, name, "is an absolute name")
    if ".." in parts or "\\" in name or "\0" in name:
        raise _refused(archive, name, "would leave the folder that it is unpacked into")
    if not name.isprintable():
        raise _refused(archive, name, "has characters that cannot be printed, or is not UTF-8")
    if any(len(part.encode()) > _LONGEST_NAME for part in parts):
        raise _refused(archive, f"{name[:60]}...", f"has a name of more than {_LONGEST_NAME} bytes")
    return parts


def _folded(parts: tuple[str, ...]) -> str:
    name = "/".join(parts)
    return name.lower() if name.isascii() else unicodedata.normalize("NFC", name).casefold()


def _refused(archive: Path, name: str, reason: str) -> MissingDataError:
    return MissingDataError(
        f"archive {archive} is refused: its member {name!r} {reason}. Published archives contain no such member;"
        " download it again from its authors"
    )
