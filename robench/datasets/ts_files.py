"""Reader of .ts files, the text format of the UEA and UCR archives of time series.

A header of lines ``@name value`` and comments ``#`` ends with ``@data``. Each further line is a series: its channels,
separated by ``:``, and its class after the last one. A channel lists its values, ``?`` for a missing one. Values with
time stamps (``@timeStamps true``), which no set of the archives has, are refused. Format: tsml and aeon,
``load_from_ts_file``; Bagnall et al. 2018, arXiv:1811.00075.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from robench.core.errors import MissingDataError
from robench.core.files import read_regular

MISSING = "?"
LARGEST_FILE: Final = 1 << 32
_COMMENTS = ("#", "%")
# Length of foreign text, and number of classes, in messages.
_LONGEST_SHOWN = 40
_MOST_SHOWN = 30


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
    """Read a .ts file of labelled series."""
    try:
        content = read_regular(path, LARGEST_FILE)
    except OSError as error:
        raise MissingDataError(f"cannot read {path}: {error.strerror}") from error
    return parse_ts(content, str(path))


def parse_ts(content: bytes, title: str) -> TsFile:
    """Return the content of a .ts file; ``title`` names it in messages."""
    try:
        lines = content.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise MissingDataError(f"{title} cannot be read as a .ts file: byte {error.start} is not UTF-8") from error
    header, first = _header(lines, title)
    classes = _classes(header, title)
    if header.get("timestamps", "false").lower() == "true":
        raise MissingDataError(
            f"{title} has time stamps (@timeStamps true), which are not read; write the values at equal intervals and"
            " without their times, or as series-csv"
        )
    series, labels = [], []
    for number, line in enumerate(lines[first:], start=first + 1):
        text = line.strip()
        if not text or text.startswith(_COMMENTS):
            continue
        where = f"{title}, line {number}"
        *channels, label = (part.strip() for part in text.split(":"))
        if label not in classes:
            named = f"the class {_shown(label)}" if label else "no class"
            known = ", ".join(classes[:_MOST_SHOWN]) + (", ..." if len(classes) > _MOST_SHOWN else "")
            raise MissingDataError(f"{where} has {named} after its channels, wanted one of @classLabel: {known}")
        _check_channels(channels, header, where)
        series.append(_series(channels, where))
        labels.append(label)
        if series[-1].shape[1] != series[0].shape[1]:
            wanted = f"{series[0].shape[1]}, as the first series"
            raise MissingDataError(f"{where} has {series[-1].shape[1]} channels, wanted {wanted}")
    if not series:
        raise MissingDataError(f"{title} has no series after @data, wanted one on each line")
    return TsFile(classes=classes, series=tuple(series), labels=tuple(labels))


def _header(lines: Sequence[str], title: str) -> tuple[dict[str, str], int]:
    """Return the fields of the header, by lower-case name, and the index of the line after ``@data``."""
    header: dict[str, str] = {}
    for index, line in enumerate(lines):
        text = line.strip()
        if not text or text.startswith(_COMMENTS):
            continue
        if not text.startswith("@"):
            raise MissingDataError(
                f"{title}, line {index + 1} has {_shown(text)} before @data, wanted a field of the header, such as"
                " @classLabel"
            )
        name, *values = text[1:].split(None, 1)
        if name.lower() == "data":
            return header, index + 1
        header[name.lower()] = "".join(values)
    raise MissingDataError(f"{title} is not a .ts file: it has no line @data")


def _classes(header: dict[str, str], title: str) -> tuple[str, ...]:
    has_labels, *classes = header.get("classlabel", "false").split() or ["false"]
    if has_labels.lower() != "true" or len(set(classes)) < 2:
        found = f"the header @classLabel {_shown(' '.join([has_labels, *classes]))}"
        raise MissingDataError(f"{title} has {found}, wanted true and the names of at least two classes")
    return tuple(dict.fromkeys(classes))


def _check_channels(channels: Sequence[str], header: dict[str, str], where: str) -> None:
    if not channels:
        raise MissingDataError(f"{where} has a class and no channel")
    wanted = header.get("dimensions", "")
    if wanted.isdecimal() and len(channels) != int(wanted):
        raise MissingDataError(f"{where} has {len(channels)} channels, wanted {wanted} by @dimensions")


def _series(channels: Sequence[str], where: str) -> NDArray[np.float64]:
    """Return the channels of a line as a series (T, C)."""
    texts = [text.split(",") if text else [] for text in channels]
    columns = [_values(parts, f"channel {number}", where) for number, parts in enumerate(texts, start=1)]
    lengths = sorted({len(column) for column in columns})
    if len(lengths) > 1:
        raise MissingDataError(f"{where} has channels of {lengths[0]} and {lengths[-1]} values, wanted equal numbers")
    if not lengths[0]:
        raise MissingDataError(f"{where} has a series without values")
    return np.array(columns, dtype=np.float64).T


def _values(parts: Sequence[str], name: str, where: str) -> list[float]:
    """Return the values of a channel, NaN for missing ones."""
    try:
        values = list(map(float, parts))
    except ValueError:
        values = [np.nan]
    if np.isfinite(values).all():
        return values
    return [np.nan if part.strip() == MISSING else finite(part, f"{where} has", name) for part in parts]


def finite(text: str, subject: str, name: str) -> float:
    """Return a finite number from a text; messages begin with ``subject`` and have the channel's name."""
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise MissingDataError(f"{subject} {_shown(text.strip())} in {name}, wanted a finite number, or ? if missing")
    return value


def _shown(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}...")


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
