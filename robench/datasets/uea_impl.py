"""Opener of the sets of the UEA archive: standardised series of one length, padded on the right."""

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from robench.core.errors import MissingDataError
from robench.datasets.in_memory import OrderedImages
from robench.datasets.ts_files import TsFile, interpolated, read_ts
from robench.datasets.uea import TRAIN_SPLIT, UeaSet
from robench.domains.series import SERIES
from robench.domains.series_impl import padded


class SeriesInMemory(OrderedImages):
    """Series in the order of the ids' SHA-256, padded to one length.

    Args:
        name: of the dataset.
        ids: one id per series; ``targets``: its class.
        series: (T, C) each, of up to ``num_steps`` steps.
    """

    domain = SERIES.name

    def __init__(
        self,
        name: str,
        ids: Sequence[str],
        targets: Sequence[int],
        series: Sequence[NDArray[np.float32]],
        num_steps: int,
    ) -> None:
        classes = np.array(targets, dtype=np.int64)
        values = padded([torch.from_numpy(np.ascontiguousarray(each, dtype=np.float32)) for each in series], num_steps)
        digest = hashlib.sha256("\n".join(ids).encode() + classes.astype("<i8").tobytes())
        digest.update(values.numpy().astype("<f4", copy=False).tobytes())
        super().__init__(name, digest.hexdigest(), ids, classes)
        self._values = values[torch.from_numpy(np.asarray(self._order))]

    def _inputs(self, start: int, stop: int) -> torch.Tensor:
        # A copy, since a caller may write into it.
        return self._values[start:stop].clone()


def open_series(declared: UeaSet, *, data_root: Path | None, split: str, **unused: object) -> SeriesInMemory:
    """Open a split of a set of the UEA archive; the training split is read too, for its means and deviations."""
    declared.check_split(split)
    if data_root is None:
        raise MissingDataError(
            f"dataset {declared.name!r} needs a folder. Give it with --data-root DIR or the variable ROBENCH_DATA, and"
            f" fill it with 'robench data prepare {declared.name}'"
        )
    folder = data_root.expanduser() / str(declared.folder)
    train = _read(declared, folder, TRAIN_SPLIT)
    asked = train if split == TRAIN_SPLIT else _read(declared, folder, split)
    if asked.classes != train.classes:
        raise MissingDataError(f"the files of dataset {declared.name!r} in {folder} list different classes")
    places = {label: place for place, label in enumerate(train.classes)}
    return SeriesInMemory(
        declared.name,
        [f"{declared.name}/{split}/{number:05d}" for number in range(len(asked.series))],
        [places[label] for label in asked.labels],
        standardised(asked.series, train.series),
        declared.num_steps,
    )


def standardised(
    series: Sequence[NDArray[np.float64]], training: Sequence[NDArray[np.float64]]
) -> list[NDArray[np.float32]]:
    """Return series (T, C) less the mean of each channel over all steps of the training ones, over its deviation.

    Missing values are interpolated first. The deviation divides by the number of steps less one, as pandas does in the
    authors' code; a constant channel is zero.
    """
    steps = np.concatenate([interpolated(each) for each in training])
    mean, deviation = steps.mean(0), steps.std(0, ddof=1) if len(steps) > 1 else np.ones(steps.shape[1])
    deviation = np.where(deviation > 0, deviation, 1.0)
    return [((interpolated(each) - mean) / deviation).astype(np.float32) for each in series]


def _read(declared: UeaSet, folder: Path, split: str) -> TsFile:
    path = folder / declared.file_of(split)
    if not path.is_file():
        raise MissingDataError(
            f"dataset {declared.name!r} has no file {path}. Run 'robench data prepare {declared.name} --data-root"
            f" {folder.parent}', or unpack the set's archive there"
        )
    found = _cached(path, path.stat().st_mtime_ns)
    wanted = declared.num_examples_of(split)
    longest, channels = max(map(len, found.series)), found.series[0].shape[1]
    if len(found.series) != wanted or channels != declared.num_channels or longest > declared.num_steps:
        raise MissingDataError(
            f"{path} has {len(found.series)} series of {channels} channels and up to {longest} steps, wanted {wanted}"
            f" of {declared.num_channels} and up to {declared.num_steps}: it is not {declared.problem} as published"
        )
    if len(found.classes) != declared.num_classes:
        raise MissingDataError(f"{path} lists {len(found.classes)} classes, wanted {declared.num_classes}")
    return found


@cache
def _cached(path: Path, changed: int) -> TsFile:
    """Read a file once in a process, until it changes."""
    del changed
    return read_ts(path)
