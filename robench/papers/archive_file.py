"""Archives of results: a results folder as one compressed file, a tenth of the room of thousands of small ones.

The file is a tar archive under xz, with names in order and no times, owners or modes, so that the same results give the
same bytes under one release of the library.
"""

from __future__ import annotations

import io
import re
import tarfile
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from robench.core.errors import StoreError, UsageError
from robench.core.files import write_whole, writing
from robench.core.inert import printable
from robench.store import FolderStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from robench.core.records import Record

SUFFIX = ".tar.xz"
# A measurement's folder, and a file in it.
_MEMBER = re.compile(r"records/[0-9a-f]{32}/[0-9A-Za-z_][0-9A-Za-z_.-]{0,80}")
_LARGEST_MEMBER = 1 << 30


def is_archive(path: Path) -> bool:
    """Return whether a path is that of an archive, by its suffix."""
    return path.name.endswith(SUFFIX)


def packed(results: Path) -> bytes:
    """Return the content of the file of a results folder, whose failures and temporary files are left out."""
    file = io.BytesIO()
    names = sorted(path.relative_to(results).as_posix() for path in results.glob("records/*/*"))
    with tarfile.open(fileobj=file, mode="w:xz", format=tarfile.USTAR_FORMAT) as archive:
        for name in names:
            if _MEMBER.fullmatch(name):
                content = (results / name).read_bytes()
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


def add_records(records: Iterable[Record], archive: Path) -> tuple[int, int]:
    """Add records to an archive, which is made where there is none; return their number and the file's size in bytes.

    A record that is there already stays as it is.

    Raises:
        UsageError: the path does not end in the suffix of archives.
        StoreError: the archive cannot be read or written.
    """
    if not is_archive(archive):
        raise UsageError(f"--archive must be a file ending in {SUFFIX}, got {archive.name!r}")
    kept = unpacked(archive) if archive.exists() else TemporaryDirectory(prefix="robench-archive-")
    with kept as folder:
        store = FolderStore(Path(folder))
        count = 0
        for record in records:
            store.put(record)
            count += 1
        content = packed(Path(folder))
    with writing(archive):
        write_whole(archive, content)
    return count, len(content)


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """Unpack a file into a temporary results folder, which is removed in the end; nothing else is written.

    Raises:
        StoreError: it cannot be read, is no such file, or has a member that is no result.
    """
    # Imported here: a Python that was built without it can do without archives.
    import lzma

    try:
        # As a whole, since tarfile takes a broken stream for the end of the archive.
        content = lzma.decompress(path.read_bytes())
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise StoreError(f"{path} cannot be read as an archive of results ({error}); restore it") from error
    with TemporaryDirectory(prefix="robench-archive-") as name:
        folder = Path(name)
        try:
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                for member in archive:
                    _unpack(archive, member, folder, path)
        except (OSError, tarfile.TarError) as error:
            raise StoreError(f"{path} cannot be read as an archive of results ({error}); restore it") from error
        yield folder


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path, path: Path) -> None:
    if not (member.isreg() and _MEMBER.fullmatch(member.name) and member.size <= _LARGEST_MEMBER):
        raise StoreError(f"{path} has {printable(member.name)!r}, which is no file of results; restore the archive")
    content = archive.extractfile(member)
    assert content is not None  # it is a regular file
    place = folder / PurePosixPath(member.name)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content.read())
