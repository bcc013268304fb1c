"""Unpacking of archives into a dataset's folder; nothing is written before the whole archive has been checked.

Files appear whole: each is written under another name and renamed, so that an interrupted unpacking leaves whole files
and is resumed by the same call, which keeps those of the right size. Modes, owners and times are not restored.

Unfinished files are in a work folder reserved from members, under a lock that the system releases when its owner ends
for any reason: a second concurrent unpacking into one folder is refused.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from shutil import copyfileobj
from typing import TYPE_CHECKING, Final

from robench.core.errors import MissingDataError, UsageError
from robench.datasets import DATASETS
from robench.datasets.archives import Limits, check_members, read_members, reporting_damage
from robench.datasets.downloading import FULL_DISK, md5_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from robench.datasets.archives import Member
    from robench.datasets.published import PublishedSet

# Allowance for files beside the images, and for repacked archives.
_SPARE_MEMBERS: Final = 10_000
_SPARE_FACTOR: Final = 2
WORK_FOLDER: Final = ".robench-unpacking"
# Errors of file systems without locks, where concurrent unpackings are not excluded.
_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """Numbers of files written, and of files already present."""

    folder: Path
    num_written: int
    num_kept: int


def limits_of(published: PublishedSet) -> Limits:
    """Return the limits of a set's archive: twice what it holds as published."""
    return Limits(
        max_bytes=_SPARE_FACTOR * (published.unpacked_bytes or published.num_bytes),
        max_members=_SPARE_FACTOR * (published.num_files or published.num_images) + _SPARE_MEMBERS,
    )


def unpack(archive: Path, published: PublishedSet, data_root: Path) -> Unpacked:
    """Unpack an archive of a set into its folder below ``data_root``, or resume doing so.

    The set's own folder at the top of the archive, such as ``imagenet-a/``, is left out.

    Raises:
        UsageError: there is no such archive, the set has none to unpack, another unpacking into the folder is under
            way, or it cannot be written.
        MissingDataError: the archive is damaged, unsafe, or of another dataset; nothing was written.
    """
    if not published.archives:
        raise UsageError(
            f"the archive of dataset {published.name!r} cannot be unpacked: it has no class folders. How to get them:"
            f" {published.where}"
        )
    files = [_placed(parts, published) for parts in check_members(archive, limits_of(published))]
    _check_belongs(archive, files, published)
    _check_md5(archive, published)
    target = Target(data_root.expanduser() / published.folder)
    try:
        with target.locked(), reporting_damage(archive):
            written = [_write(target, member, published) for member in read_members(archive)]
    except OSError as error:
        needed = published.unpacked_bytes or published.num_bytes
        raise cannot_write(error, target.folder, f"about {needed:,}") from error
    return Unpacked(folder=target.folder, num_written=written.count(True), num_kept=written.count(False))


def cannot_write(error: OSError, folder: Path, num_bytes: str) -> UsageError:
    """Return the error to raise for a folder that refused to be written; a full disk needs ``num_bytes`` bytes."""
    reason = f"cannot write {error.filename or folder}: {error.strerror or error}"
    if error.errno not in FULL_DISK:
        return UsageError(reason)
    return UsageError(f"{reason}. Make room for {num_bytes} bytes in {folder} and run the same command again")


def _check_md5(archive: Path, published: PublishedSet) -> None:
    """Refuse an archive that differs from the published ones, whose changed bytes a tar file would not reveal."""
    if published.md5s and (found := md5_of(archive)) not in published.md5s:
        raise MissingDataError(
            f"archive {archive} is damaged or not the published one: its MD5 is {found}, wanted"
            f" {' or '.join(published.md5s)}. Download it again: {published.where}"
        )


def _write(target: Target, member: Member, published: PublishedSet) -> bool | None:
    parts = _placed(member.parts, published, is_folder=member.is_folder)
    if member.is_folder:
        target.make(parts)
        return None
    return target.write(parts, member)


def _placed(parts: tuple[str, ...], published: PublishedSet, *, is_folder: bool = False) -> tuple[str, ...]:
    own = (published.folder, *published.other_folders)
    return parts[1:] if parts and parts[0] in own and (is_folder or len(parts) > 1) else parts


def _check_belongs(archive: Path, files: list[tuple[str, ...]], published: PublishedSet) -> None:
    if taken := next((parts for parts in files if parts[0].casefold() == WORK_FOLDER), None):
        raise MissingDataError(
            f"archive {archive} is refused: its member {'/'.join(taken)!r} lies in {WORK_FOLDER}, where unpacking keeps"
            f" what is unfinished. No published archive has one; download it again: {published.where}"
        )
    if len(set(files)) < len(files):
        raise MissingDataError(
            f"archive {archive} is refused: it holds the same file in a folder of dataset {published.name!r} and beside"
            f" it. Download it again: {published.where}"
        )
    folders = sorted({str(DATASETS[name].folder) for name in published.datasets})
    class_folder = re.compile(r"\d{1,3}" if published.has_numbered_classes else r"n\d{8}")
    if published.files:
        wanted = " or ".join(published.files)
        belongs = any(fnmatchcase("/".join(parts), pattern) for parts in files for pattern in published.files)
    else:
        wanted = str(Path(folders[0]).relative_to(published.folder) / "CLASS" / "NAME.JPEG")
        of_classes = [parts for parts in files if len(parts) >= 2 and class_folder.fullmatch(parts[-2])]
        belongs = any("/".join((published.folder, *parts[:-2])) in folders for parts in of_classes)
    if not belongs:
        raise MissingDataError(
            f"archive {archive} holds nothing of dataset {published.name!r}: it holds"
            f" {'/'.join(files[0]) if files else 'no file'}, wanted {wanted}. Its archives:"
            f" {', '.join(published.archives)}"
        )


class Target:
    """Target folder of an unpacking; links in it are not followed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._work = folder / WORK_FOLDER
        self._beside = self._work / "unfinished"
        self._lock = self._work / "lock"
        self._made: set[Path] = set()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Exclude other unpackings, and remove leftovers from the work folder.

        Raises:
            UsageError: another unpacking is in progress.
        """
        descriptor = self._acquired()
        try:
            self._beside.unlink(missing_ok=True)
            yield
        finally:
            # The lock is removed while held: a waiting process sees that it is gone, and creates a new one.
            for path in (self._beside, self._lock):
                path.unlink(missing_ok=True)
            os.close(descriptor)
            with suppress(OSError):
                self._work.rmdir()

    def write(self, parts: tuple[str, ...], member: Member) -> bool:
        """Write one file, and return whether it was necessary: an existing file of the same size is kept."""
        path = self.folder.joinpath(*parts)
        self._make(path.parent)
        if path.is_file() and not path.is_symlink() and path.stat().st_size == member.num_bytes:
            return False
        with member.open() as content, self._beside.open("wb") as file:
            copyfileobj(content, file)
        if self._beside.stat().st_size != member.num_bytes:
            raise EOFError(f"{'/'.join(parts)} is shorter than the {member.num_bytes:,} bytes that it declares")
        self._beside.replace(path)
        return True

    def make(self, parts: tuple[str, ...]) -> None:
        """Create a folder and its parents."""
        self._make(self.folder.joinpath(*parts))

    def _make(self, folder: Path) -> None:
        if folder in self._made:
            return
        if folder != self.folder:
            self._make(folder.parent)
            if folder.is_symlink():
                raise UsageError(f"{folder} is a link, which unpacking does not follow; remove it, or unpack elsewhere")
        folder.mkdir(parents=folder == self.folder, exist_ok=True)
        self._made.add(folder)

    def _acquired(self) -> int:
        """Return the descriptor of the acquired lock."""
        self._make(self._work)
        while True:
            try:
                descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
            except FileNotFoundError:
                # The previous holder has just removed the work folder.
                self._work.mkdir(exist_ok=True)
                continue
            try:
                _take(descriptor)
                if self._is_lock(descriptor):
                    return descriptor
            except BlockingIOError as error:
                os.close(descriptor)
                raise UsageError(
                    f"another unpacking into {self.folder} is in progress; wait until it ends and run the same command"
                    " again, which writes the missing files"
                ) from error
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _is_lock(self, descriptor: int) -> bool:
        """Return whether a lock is still the file of that name, which a previous holder may have removed."""
        try:
            return os.path.samestat(os.fstat(descriptor), os.lstat(self._lock))
        except FileNotFoundError:
            return False


def _take(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
