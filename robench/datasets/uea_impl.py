"""Opener of the sets of the UEA archive: standardised series of one length, padded on the right."""

import hashlib
from functools import lru_cache
from pathlib import Path

from robench.core.errors import MissingDataError
from robench.datasets.prepared import check_present, folder_of
from robench.datasets.series_in_memory import SeriesInMemory, standardised
from robench.datasets.ts_files import TsFile, parse_ts, read_ts
from robench.datasets.uea import PACKAGED, TRAIN_SPLIT, UeaSet


def open_series(declared: UeaSet, *, data_root: Path | None, split: str, **unused: object) -> SeriesInMemory:
    """Open a split of a set of the UEA archive; the training split is read too, for its means and deviations."""
    declared.check_split(split)
    train = _read(declared, path_of(declared, data_root, TRAIN_SPLIT), TRAIN_SPLIT)
    path = path_of(declared, data_root, split)
    asked = train if split == TRAIN_SPLIT else _read(declared, path, split)
    if asked.classes != train.classes:
        raise MissingDataError(f"the files of dataset {declared.name!r} in {path.parent} list different classes")
    places = {label: place for place, label in enumerate(train.classes)}
    return SeriesInMemory(
        declared.name,
        [f"{declared.name}/{split}/{number:05d}" for number in range(len(asked.series))],
        [places[label] for label in asked.labels],
        standardised(asked.series, train.series),
        declared.num_steps,
    )


def path_of(declared: UeaSet, data_root: Path | None, split: str) -> Path:
    """Return the path of a split's file, which may be absent."""
    how = f", and fill it with 'robench data prepare {declared.name}'"
    return folder_of(declared, data_root, how) / declared.file_of(split)


def check_file(declared: UeaSet, path: Path) -> None:
    """Refuse a split's file that does not exist."""
    archive = "" if declared.name in PACKAGED else f" --archive {declared.problem}.zip"
    command = f"robench data prepare {declared.name}{archive} --data-root {path.parent.parent}"
    check_present(declared, [path], f"Run '{command}'")


def published_split(declared: UeaSet, split: str, content: bytes, title: str) -> TsFile:
    """Return the content of a split's published file after comparing its sizes, and its SHA-256 where one is known."""
    found = parse_ts(content, title)
    _check_sizes(declared, found, split, title)
    digest = hashlib.sha256(content).hexdigest()
    if digest != (wanted := dict(declared.sha256s).get(split, digest)):
        raise MissingDataError(
            f"{title} is not {declared.file_of(split)} as published: its SHA-256 is {digest}, wanted {wanted}"
        )
    return found


def _read(declared: UeaSet, path: Path, split: str) -> TsFile:
    check_file(declared, path)
    found = _cached(path, path.stat().st_mtime_ns)
    _check_sizes(declared, found, split, str(path))
    return found


def _check_sizes(declared: UeaSet, found: TsFile, split: str, title: str) -> None:
    """Refuse other numbers of series, channels and classes, and longer series, than those published."""
    wanted = declared.num_examples_of(split)
    longest, channels = max(map(len, found.series)), found.series[0].shape[1]
    if len(found.series) != wanted or channels != declared.num_channels or longest > declared.num_steps:
        raise MissingDataError(
            f"{title} has {len(found.series)} series of {channels} channels and up to {longest} steps, wanted {wanted}"
            f" of {declared.num_channels} and up to {declared.num_steps}: it is not {declared.problem} as published"
        )
    if len(found.classes) != declared.num_classes:
        raise MissingDataError(f"{title} lists {len(found.classes)} classes, wanted {declared.num_classes}")


@lru_cache(maxsize=4)
def _cached(path: Path, changed: int) -> TsFile:
    """Read a file once in a process, until it changes."""
    del changed
    return read_ts(path)
