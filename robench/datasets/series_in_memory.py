"""Time series in arrays, in a fixed order and padded to one length: those of files, and of programs' own."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from robench.core.errors import ContractError, MissingDataError
from robench.datasets.in_memory import OrderedExamples
from robench.datasets.ts_files import interpolated
from robench.datasets.user_impl import numbered_ids
from robench.domains import DOMAINS
from robench.domains.series import SERIES
from robench.domains.series_impl import padded


class SeriesInMemory(OrderedExamples):
    """Series in the order of the ids' SHA-256, padded to one length.

    The fingerprint is a SHA-256 over ids, classes and padded values.

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


class ClassifiedSeries(SeriesInMemory):
    """Series with their number of classes (``core.protocols.ClassifiedDataset``); see ``dataset_of_series``."""

    def __init__(self, name: str, ids: Sequence[str], targets: Sequence[int], *given: Any, num_classes: int) -> None:
        super().__init__(name, ids, targets, *given)
        self.num_classes = num_classes
        try:
            DOMAINS[SERIES.name].rules.check_clean(self._values, name)
        except ContractError as error:
            raise MissingDataError(str(error)) from error


def dataset_of_series(
    name: str,
    series: Sequence[ArrayLike],
    targets: Sequence[int],
    *,
    training: Sequence[ArrayLike] | None = None,
    num_steps: int | None = None,
    num_classes: int | None = None,
    ids: Sequence[str] | None = None,
) -> ClassifiedSeries:
    """Return series in memory as a dataset.

    Args:
        name: of the dataset.
        series: arrays (T, C) of finite numbers, which may differ in T.
        targets: class of each, from 0.
        training: series by whose means and deviations ``series`` are standardised; None to take them as they are.
        num_steps: length to pad to; None for that of the longest one of ``series`` and ``training``.
        num_classes: number of classes; None for the largest target plus one.
        ids: one id per series; by default series 42 has the id ``name/000042``.

    Raises:
        MissingDataError: there are no series, or arrays of other shapes, NaN or infinite values; the message names the
            first such series.
    """
    title = f"dataset {name!r}"
    arrays = checked_series(series, f"{title}: series")
    learned = None if training is None else checked_series(training, f"{title}: training series")
    labels = [int(each) for each in targets]
    given = numbered_ids(name, len(arrays)) if ids is None else list(ids)
    if not len(arrays) == len(labels) == len(given) == len(set(given)):
        found = f"{len(arrays)} series, {len(labels)} targets and {len(set(given))} different ids"
        raise MissingDataError(f"{title} has {found}, wanted a target and an id for each series")
    found_classes = max(labels) + 1 if num_classes is None else num_classes
    if min(labels) < 0 or max(labels) >= found_classes:
        found = f"targets from {min(labels)} to {max(labels)}"
        raise MissingDataError(f"{title} has {found}, wanted classes 0 to {found_classes - 1}")
    if learned is not None and learned[0].shape[1] != arrays[0].shape[1]:
        found = f"series of {arrays[0].shape[1]} channels, and training series of {learned[0].shape[1]}"
        raise MissingDataError(f"{title} has {found}, wanted equal numbers")
    steps = length_of(title, [*arrays, *(learned or [])], num_steps)
    values = as_given(arrays) if learned is None else standardised(arrays, learned)
    return ClassifiedSeries(name, given, labels, values, steps, num_classes=found_classes)


def checked_series(series: Sequence[ArrayLike], title: str) -> list[NDArray[np.float64]]:
    """Return arrays (T, C) of finite numbers and one number of channels as float64; refuse all others."""
    arrays: list[NDArray[np.float64]] = []
    for number, each in enumerate(series):
        try:
            array = np.asarray(each, dtype=np.float64)
        except (TypeError, ValueError):
            raise MissingDataError(
                f"{title} {number} is not an array of numbers, wanted one (steps, channels)"
            ) from None
        if array.ndim != 2 or 0 in array.shape:
            raise MissingDataError(f"{title} {number} has the shape {array.shape}, wanted (steps, channels)")
        if array.shape[1] != (arrays or [array])[0].shape[1]:
            wanted = f"{arrays[0].shape[1]}, as series 0"
            raise MissingDataError(f"{title} {number} has {array.shape[1]} channels, wanted {wanted}")
        if not (is_finite := np.isfinite(array)).all():
            step, channel = np.argwhere(~is_finite)[0]
            where = f"at step {step} in channel {channel}"
            raise MissingDataError(f"{title} {number} has {array[step, channel]} {where}, wanted finite numbers")
        arrays.append(array)
    if not arrays:
        raise MissingDataError(f"{title} are absent: there are 0, wanted at least one")
    return arrays


def length_of(title: str, series: Sequence[NDArray[np.float64]], num_steps: int | None) -> int:
    """Return the length to pad series to, ``num_steps`` or that of the longest one."""
    longest = max(map(len, series))
    if num_steps is not None and num_steps < longest:
        raise MissingDataError(f"{title} has a series of {longest} steps, wanted at most num_steps, {num_steps}")
    return num_steps or longest


def as_given(series: Sequence[NDArray[np.float64]]) -> list[NDArray[np.float32]]:
    """Return series (T, C) as float32, with missing values interpolated."""
    # A value beyond float32 becomes infinite, which the domain refuses.
    with np.errstate(over="ignore"):
        return [interpolated(each).astype(np.float32) for each in series]


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
