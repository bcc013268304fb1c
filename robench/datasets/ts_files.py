"""Reader of .ts files, the text format of the UEA and UCR archives of time series.

A header of lines ``@name value`` and comments ``#`` ends with ``@data``. Each further line is a series: its channels,
separated by ``:``, and its class after the last one. A channel lists its values, ``?`` for a missing one, or with
``@timeStamps true`` pairs ``(time,value)``, whose order in time the file must have. Format: tsml and aeon,
``load_from_ts_file``; Bagnall et al. 2018, arXiv:1811.00075.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robench.core.errors import MissingDataError

MISSING = "?"
_PAIR = re.compile(r"\(([^,()]*),([^,()]*)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class TsFile:
    """Content of a .ts file.

    Attributes:
        classes: names of the classes, in the order of the header.
        series: (T, C) float64 each, NaN for missing values; ``labels``: name of the class of each.
    """

    classes: tuple[str, ...]
    series: tuple[NDArray[np.float64], ...]
    labels: tuple[str, ...]


def read_ts(path: Path) -> TsFile:
    """Read a .ts file of labelled series.

    Raises:
        MissingDataError: the file is absent or not such a file; the message names the line.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError as error:
        raise MissingDataError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise MissingDataError(f"{path} cannot be read as a .ts file: byte {error.start} is not UTF-8") from error
    header, first = _header(lines, path)
    classes = _classes(header, path)
    has_times = header.get("timestamps", "false").lower() == "true"
    series, labels = [], []
    for number, line in enumerate(lines[first:], start=first + 1):
        text = line.strip()
        if not text or text.startswith(("#", "%")):
            continue
        where = f"{path}, line {number}"
        *channels, label = _columns(text, has_times=has_times)
        if label not in classes:
            found = f"class {label!r}" if label else "no class"
            raise MissingDataError(f"{where} has {found}, wanted one of {', '.join(classes)}")
        series.append(_series(channels, header, where, has_times=has_times))
        labels.append(label)
        if series[-1].shape[1] != series[0].shape[1]:
            wanted = f"{series[0].shape[1]}, as the first series"
            raise MissingDataError(f"{where} has {series[-1].shape[1]} channels, wanted {wanted}")
    if not series:
        raise MissingDataError(f"{path} has no series after @data, wanted one on each line")
    return TsFile(classes=classes, series=tuple(series), labels=tuple(labels))


def _header(lines: Sequence[str], path: Path) -> tuple[dict[str, str], int]:
    """Return the fields of the header, by lower-case name, and the index of the line after ``@data``."""
    header: dict[str, str] = {}
    for index, line in enumerate(lines):
        text = line.strip()
        if not text or text.startswith(("#", "%")):
            continue
        if not text.startswith("@"):
            raise MissingDataError(
                f"{path}, line {index + 1} has text before @data, wanted a field of the header, such as @classLabel"
            )
        name, _, value = text[1:].partition(" ")
        if name.lower() == "data":
            return header, index + 1
        header[name.lower()] = value.strip()
    raise MissingDataError(f"{path} is not a .ts file: it has no line @data")


def _classes(header: dict[str, str], path: Path) -> tuple[str, ...]:
    has_labels, *classes = header.get("classlabel", "false").split() or ["false"]
    if has_labels.lower() != "true" or len(set(classes)) < 2:
        raise MissingDataError(
            f"{path} has the header @classLabel {' '.join([has_labels, *classes])}, wanted true and the names of at"
            " least two classes"
        )
    return tuple(dict.fromkeys(classes))


def _columns(text: str, *, has_times: bool) -> list[str]:
    """Return channels and class; a time stamp may contain colons itself."""
    if not has_times:
        return [part.strip() for part in text.split(":")]
    return [part.strip() for part in re.split(r":(?![^()]*\))", text)]


def _series(channels: Sequence[str], header: dict[str, str], where: str, *, has_times: bool) -> NDArray[np.float64]:
    """Return the channels of a line as a series (T, C)."""
    if not channels:
        raise MissingDataError(f"{where} has a class and no channel")
    wanted = header.get("dimensions")
    if wanted is not None and wanted.isdigit() and len(channels) != int(wanted):
        raise MissingDataError(f"{where} has {len(channels)} channels, wanted {wanted} by @dimensions")
    columns = [list(_values(text, where, number, has_times=has_times)) for number, text in enumerate(channels, start=1)]
    lengths = sorted({len(column) for column in columns})
    if len(lengths) > 1:
        raise MissingDataError(f"{where} has channels of {lengths[0]} and {lengths[-1]} values, wanted equal numbers")
    if not lengths[0]:
        raise MissingDataError(f"{where} has a series of no values")
    return np.array(columns, dtype=np.float64).T


def _values(text: str, where: str, channel: int, *, has_times: bool) -> Iterator[float]:
    if not text:
        return
    parts = [value for _, value in _PAIR.findall(text)] if has_times else text.split(",")
    for part in parts:
        try:
            value = np.nan if part.strip() == MISSING else float(part)
        except ValueError:
            raise MissingDataError(f"{where} has {part.strip()[:40]!r} in channel {channel}, wanted a number") from None
        if part.strip() != MISSING and not np.isfinite(value):
            raise MissingDataError(f"{where} has {part.strip()} in channel {channel}, wanted a finite number or ?")
        yield value


def interpolated(series: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a series (T, C) with missing values on the line between their neighbours, at an end as the nearest one.

    A channel without any value is zero.
    """
    if not np.isnan(series).any():
        return series
    steps, result = np.arange(len(series)), series.copy()
    for channel in result.T:
        known = ~np.isnan(channel)
        channel[~known] = np.interp(steps[~known], steps[known], channel[known]) if known.any() else 0.0
    return result
