"""An archive becomes the folder of a dataset: nothing is written before all of the archive was checked.

Files appear whole: each is written under another name and renamed, so that an interrupted unpacking leaves whole files
and is taken up by the same call, which keeps those of the right size. Modes, owners and times are not taken over.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfileobj
from typing import TYPE_CHECKING, Final

from robench.core.errors import MissingDataError, UsageError
from robench.datasets.archives import Limits, check_members, read_members, reporting_damage
from robench.declarations.datasets import DATASETS

if TYPE_CHECKING:
    from robench.datasets.archives import Member
    from robench.datasets.published import PublishedSet

# Room for files beside the images, and for archives that were packed anew.
_SPARE_MEMBERS: Final = 10_000
_SPARE_FACTOR: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """What an unpacking did: files written, and files that were there already."""

    folder: Path
    num_written: int
    num_kept: int


def limits_of(published: PublishedSet) -> Limits:
    """Return how much an archive of a set may declare to hold: twice what its authors publish."""
    return Limits(
        max_bytes=_SPARE_FACTOR * published.num_bytes,
        max_members=_SPARE_FACTOR * published.num_images + _SPARE_MEMBERS,
    )


def unpack(archive: Path, published: PublishedSet, data_root: Path) -> Unpacked:
    """Unpack an archive of a set into its folder below ``data_root``, or go on with it.

    The set's own folder at the top of the archive, such as ``imagenet-a/``, is left out.

    Raises:
        UsageError: there is no such archive, the set has none to unpack, or the folder cannot be written.
        MissingDataError: the archive is damaged, unsafe, or of another dataset; nothing was written.
    """
    if not published.archives:
        raise UsageError(
            f"the archive of dataset {published.name!r} cannot be unpacked: it has no class folders. How to get them:"
            f" {published.where}"
        )
    files = [_placed(parts, published) for parts in check_members(archive, limits_of(published))]
    _check_belongs(archive, files, published)
    target = _Target(data_root.expanduser() / published.folder)
    try:
        with reporting_damage(archive):
            written = [_write(target, member, published) for member in read_members(archive)]
    except OSError as error:
        raise UsageError(f"cannot write {error.filename or target.folder}: {error.strerror or error}") from error
    finally:
        target.clear()
    return Unpacked(folder=target.folder, num_written=written.count(True), num_kept=written.count(False))


def _write(target: _Target, member: Member, published: PublishedSet) -> bool | None:
    parts = _placed(member.parts, published, is_folder=member.is_folder)
    if member.is_folder:
        target.make(parts)
        return None
    return target.write(parts, member)


def _placed(parts: tuple[str, ...], published: PublishedSet, *, is_folder: bool = False) -> tuple[str, ...]:
    own = (published.folder, *published.other_folders)
    return parts[1:] if parts and parts[0] in own and (is_folder or len(parts) > 1) else parts


def _check_belongs(archive: Path, files: list[tuple[str, ...]], published: PublishedSet) -> None:
    if len(set(files)) < len(files):
        raise MissingDataError(
            f"archive {archive} is refused: it holds the same file in a folder of dataset {published.name!r} and beside"
            f" it. Get it anew: {published.where}"
        )
    folders = sorted({str(DATASETS[name].folder) for name in published.datasets})
    class_folder = re.compile(r"\d{1,3}" if published.has_numbered_classes else r"n\d{8}")
    if any(
        len(parts) >= 2 and class_folder.fullmatch(parts[-2]) and "/".join((published.folder, *parts[:-2])) in folders
        for parts in files
    ):
        return
    wanted = Path(folders[0]).relative_to(published.folder) / "CLASS" / "NAME.JPEG"
    raise MissingDataError(
        f"archive {archive} holds nothing of dataset {published.name!r}: it holds"
        f" {'/'.join(files[0]) if files else 'no file'}, wanted {wanted}. Its archives: {', '.join(published.archives)}"
    )


class _Target:
    """The folder that is unpacked into; no link in it is followed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._beside = folder / f".{os.getpid()}.unpacking"
        self._made: set[Path] = set()

    def write(self, parts: tuple[str, ...], member: Member) -> bool:
        """Write one file, and return whether it had to be: one of its size is taken to be it."""
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
        """Make a folder and those that it is in."""
        self._make(self.folder.joinpath(*parts))

    def clear(self) -> None:
        """Remove what an unpacking that was killed, or this one, left half written."""
        for leftover in self.folder.glob(".*.unpacking"):
            leftover.unlink(missing_ok=True)

    def _make(self, folder: Path) -> None:
        if folder in self._made:
            return
        if folder != self.folder:
            self._make(folder.parent)
            if folder.is_symlink():
                raise UsageError(f"{folder} is a link, and unpacking follows none; remove it, or unpack elsewhere")
        folder.mkdir(parents=folder == self.folder, exist_ok=True)
        self._made.add(folder)
