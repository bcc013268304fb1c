"""Openers of users' time series: .ts files, CSV files with a row for each step, and arrays of an npz file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from robench.core.errors import DeclarationError, MissingDataError
from robench.core.inert import clipped
from robench.datasets.base import TEST_SPLIT
from robench.datasets.labels import numbered_labels
from robench.datasets.series_in_memory import ClassifiedSeries, as_given, length_of, standardised
from robench.datasets.ts_files import MISSING, finite, read_ts
from robench.datasets.uea import TRAIN_SPLIT
from robench.datasets.user import UserDataset
from robench.datasets.user_formats import Arrays, SeriesFormat, SeriesTable
from robench.datasets.user_impl import check_classes, column_of, csv_rows, numbered_ids

# Largest distance of a time from its even place, and of two intervals, in intervals: times in files are rounded.
_TOLERANCE: Final = 1 / 20
_REMEDY: Final = "resample them, such as by pandas. If order alone counts, number the steps 0, 1, 2, ..."


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledSeries:
    """Series of one file.

    Attributes:
        series: (T, C) float64 each, NaN for missing values; ``ids``: one of each.
        labels: class number or name of the class of each.
        classes: names of all classes, in their order, if the file lists them; else ().
        interval: mean interval of the times of its series; None if it has none.
    """

    ids: Sequence[str]
    series: Sequence[NDArray[np.float64]]
    labels: Sequence[str] | Sequence[int]
    classes: tuple[str, ...] = ()
    interval: float | None = None


def open_ts(declared: UserDataset, *, split: str = TEST_SPLIT, **unused: object) -> ClassifiedSeries:
    """Open a split of series in .ts files."""

    def read(path: str) -> LabelledSeries:
        found = read_ts(_existing(declared, path))
        ids = numbered_ids(declared.name, len(found.series))
        return LabelledSeries(ids=ids, series=found.series, labels=found.labels, classes=found.classes)

    return opened_split(declared, split, read)


def open_table(declared: UserDataset, *, split: str = TEST_SPLIT, **unused: object) -> ClassifiedSeries:
    """Open a split of series in CSV files with a row for each step."""
    return opened_split(declared, split, lambda path: _read_table(declared, path))


def opened_split(declared: UserDataset, split: str, read: Callable[[str], LabelledSeries]) -> ClassifiedSeries:
    """Return the series of a split, standardised and padded as the entry says; ``read`` reads the file of a path."""
    content: SeriesFormat | Arrays = declared.content  # type: ignore[assignment]  # the formats of series
    title = f"dataset {declared.name!r}"
    paths = content.paths
    files = {name: read(path) for name, path in paths.items()}
    asked, every = files[split], list(files.values())
    channels = [each.series[0].shape[1] for each in every]
    if len(set(channels)) > 1:
        raise MissingDataError(
            f"{title} has {channels[0]} channels in {content.path}, and {channels[1]} in {content.train}; give both"
            " files the same channels"
        )
    _common_interval([(f"{title}: {path}", each.interval) for path, each in zip(paths.values(), every, strict=True)])
    targets, num_classes, class_names = _targets(declared, files, split)
    check_classes(declared, np.asarray(targets, dtype=np.int64), num_classes, paths[split])
    learned = files.get(TRAIN_SPLIT)
    is_standardised = learned is not None and content.standardise is not False
    steps = length_of(title, [series for each in every for series in each.series], content.num_steps)
    values = standardised(asked.series, learned.series) if learned and is_standardised else as_given(asked.series)
    found = ClassifiedSeries(declared.name, asked.ids, targets, values, steps, num_classes=num_classes)
    found.class_names = class_names
    return found


def _targets(
    declared: UserDataset, files: dict[str, LabelledSeries], split: str
) -> tuple[Sequence[int], int, Sequence[str] | None]:
    """Return the class numbers of a split, the number of classes of all of them, and their names, if they have any."""
    every, title = list(files.values()), f"dataset {declared.name!r}"
    if classes := every[0].classes:
        if any(each.classes != classes for each in every):
            raise MissingDataError(f"{title} has different classes in its files; give both the same @classLabel")
        if declared.class_names is None and declared.num_classes not in (None, len(classes)):
            found = f"{len(classes)} classes in @classLabel, and num_classes is {declared.num_classes} in its entry"
            raise DeclarationError(f"{title} has {found}; both must be equal")
        if declared.class_names is None:
            places = {label: place for place, label in enumerate(classes)}
            return [places[str(label)] for label in files[split].labels], len(classes), classes
    numbers, num_classes, class_names = numbered_labels(
        declared, {name: [str(label) for label in each.labels] for name, each in files.items()}
    )
    return numbers[split], num_classes, class_names


def _existing(declared: UserDataset, path: str) -> Path:
    if not Path(path).exists():
        title = f"dataset {declared.name!r}: {path}"
        raise MissingDataError(f"{title} does not exist. Correct path in its entry, or put the file there")
    return Path(path)


def _read_table(declared: UserDataset, path: str) -> LabelledSeries:
    content: SeriesTable = declared.content  # type: ignore[assignment]  # the format of the caller
    title = f"dataset {declared.name!r}: {path}"
    rows = csv_rows(declared.name, path, delimiter=content.delimiter)
    _, header = next(rows)
    fields = "series_column, step_column, label_column or channels"
    named = content.channels or tuple(name for name in header if name not in content.fixed_columns)
    series_column, step_column, label_column, *channels = (
        column_of(title, header, name, fields) for name in (*content.fixed_columns, *named)
    )
    if not channels:
        raise MissingDataError(f"{title} has no column beside {', '.join(content.fixed_columns)}, wanted channels")
    labels: dict[str, str] = {}
    # By series: steps with their lines and values.
    found: dict[str, dict[float, tuple[int, list[float]]]] = {}
    for line, row in rows:
        where = f"{title}, line {line}"
        name, label = row[series_column].strip(), row[label_column].strip()
        if not name or not label:
            empty = content.label_column if name else content.series_column
            raise MissingDataError(f"{where}: {empty} is empty; name the series and its label in every row")
        if labels.setdefault(name, label) != label:
            known = f"series {name!r} has the label {label!r}, and {labels[name]!r} before"
            raise MissingDataError(f"{where}: {known}; give all rows of a series one label")
        step = _time(
            row[step_column], f"{where} has '{clipped(row[step_column].strip())}' in column {content.step_column!r}"
        )
        values = [_cell(row[place], f"{where} has", f"column {header[place]!r}") for place in channels]
        if (first := found.setdefault(name, {}).setdefault(step, (line, values)))[0] != line:
            raise MissingDataError(f"{where}: step {step:g} of series {name!r} was in line {first[0]}, too")
    if not found:
        raise MissingDataError(f"{title} has no rows below its header, wanted one for each step of each series")
    series, intervals = [], []
    for name, steps in found.items():
        times, where = np.array(sorted(steps)), f"{title}: series {name!r}"
        columns = np.array([steps[step][1] for step in times.tolist()]).T
        intervals.append((where, _even_interval(times, where)))
        series.append(np.stack([_interpolated(times, column) for column in columns], axis=1))
    return LabelledSeries(
        ids=[f"{declared.name}/{name}" for name in found],
        series=series,
        labels=[labels[name] for name in found],
        interval=_common_interval(intervals),
    )


def _time(text: str, found: str) -> float:
    """Return a time as a number, of a date in seconds; ``found`` begins the message about another text."""
    try:
        time = float(text)
    except ValueError:
        try:
            date = datetime.fromisoformat(text.strip())
            time = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
        except ValueError:
            time = np.nan
    if not np.isfinite(time):
        raise MissingDataError(f"{found}, wanted a finite number or a date such as 2017-12-01 10:30:00")
    return time


def _even_interval(times: NDArray[np.float64], title: str) -> float | None:
    """Return the mean interval of ascending times, which must be even; None for a single one."""
    if len(times) == 1:
        return None
    interval = float(times[-1] - times[0]) / (len(times) - 1)
    if np.abs(times - np.linspace(times[0], times[-1], len(times))).max() > _TOLERANCE * interval:
        found = f"intervals from {np.diff(times).min():g} to {np.diff(times).max():g}"
        raise MissingDataError(f"{title} has {found} between its times, wanted equal ones; {_REMEDY}")
    return interval


def _common_interval(found: Sequence[tuple[str, float | None]]) -> float | None:
    """Return the interval of series, or files, each with its name in messages; refuse different ones."""
    known = [(subject, interval) for subject, interval in found if interval is not None]
    for subject, interval in known[1:]:
        first = known[0][1]
        if abs(interval - first) > _TOLERANCE * min(interval, first):
            wanted = f"{first:g}, as {known[0][0]}"
            raise MissingDataError(
                f"{subject} has an interval of {interval:g} between its times, wanted {wanted}; {_REMEDY}"
            )
    return known[0][1] if known else None


def _interpolated(times: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values of a channel, missing ones linear in time; all NaN if it has none."""
    known = ~np.isnan(values)
    return np.interp(times, times[known], values[known]) if known.any() else values


def _cell(text: str, subject: str, name: str) -> float:
    return np.nan if text.strip() == MISSING else finite(text, subject, name)


def series_of_array(inputs: NDArray[Any], title: str) -> list[NDArray[np.float64]]:
    """Return the series (T, C) of an array as in ``npz``; ``title`` names the array in messages."""
    if inputs.dtype.kind not in "fiu" or inputs.ndim != 3:
        wanted = "numbers (N, steps, channels)"
        raise MissingDataError(f"{title} has {inputs.dtype} of the shape {inputs.shape}, wanted {wanted}")
    values = inputs.astype(np.float64)
    # The end of a series is after its last step with a value.
    num_steps = np.where(np.isnan(values).all(-1), 0, np.arange(1, values.shape[1] + 1)).max(1, initial=0)
    if (num_steps < 1).any() or not values.shape[-1]:
        raise MissingDataError(
            f"{title} has no value in series {int((num_steps < 1).argmax())}, wanted a step at least"
        )
    series = [each[:count] for each, count in zip(values, num_steps, strict=True)]
    for number, each in enumerate(series):
        if not (is_finite := np.isfinite(each)).all():
            step, channel = np.argwhere(~is_finite)[0]
            where = f"series {number} at step {step} in channel {channel}"
            raise MissingDataError(
                f"{title} has {each[step, channel]} in {where}, wanted finite numbers up to a series' end, and NaN in"
                " all channels after it"
            )
    return series
