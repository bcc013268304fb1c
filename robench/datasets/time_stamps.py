"""Times of the values of series: numbers or dates, which must be even, or are resampled at even times."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from robench.core.errors import MissingDataError

# Times and values of a channel, NaN for missing ones.
Channel = tuple[NDArray[np.float64], NDArray[np.float64]]
# Largest distance of a time from its even place, and of two intervals, in intervals: times in files are rounded.
_TOLERANCE: Final = 1 / 20
_MOST_STEPS: Final = 1_000_000
_REMEDY = "at even times, linearly in time"


def time_of(text: str) -> float | None:
    """Return a time as a number, of a date in seconds; None if it is neither.

    >>> time_of("1.5"), time_of("1970-01-02 00:00:10"), time_of("noon")
    (1.5, 86410.0, None)
    """
    try:
        time = float(text)
        return time if np.isfinite(time) else None
    except ValueError:
        pass
    try:
        date = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def series_at(channels: Sequence[Channel], interval: float | None, subject: str) -> NDArray[np.float64]:
    """Return a series (T, C) at even times, missing values on the line in time between their neighbours.

    With an interval these times are the first one of all channels and those after it up to their last one; otherwise
    they are the channels' own. Before the first and after the last value of a channel its nearest one holds; a channel
    without any is NaN. ``subject`` names the series in messages.
    """
    times = channels[0][0]
    if interval is not None:
        start, end = min(each[0] for each, _ in channels), max(each[-1] for each, _ in channels)
        # A last time that is rounded below its even place counts.
        count = (end - start) / interval + _TOLERANCE
        if count >= _MOST_STEPS:
            raise MissingDataError(
                f"{subject} would have {count:.3g} steps at an interval of {interval:g}, wanted at most"
                f" {_MOST_STEPS:,}; raise interval in the dataset's entry"
            )
        times = start + interval * np.arange(int(count) + 1)
    else:
        _check_even(times, subject)
        for number, (other, _) in enumerate(channels[1:], start=2):
            if not np.array_equal(other, times):
                usual = interval_of(times) or interval_of(other) or 1
                raise MissingDataError(
                    f"{subject} has channel {number} at other times than channel 1, wanted the same times; with"
                    f" 'interval: {usual:g}' in its entry a dataset is resampled {_REMEDY}"
                )
    return np.stack([_at(times, *channel) for channel in channels], axis=1)


def interval_of(times: NDArray[np.float64]) -> float | None:
    """Return the mean interval of ascending times; None for a single one."""
    return float(times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else None


def common_interval(found: Sequence[tuple[str, float | None]]) -> float | None:
    """Return the interval of series, or files, each with its name in messages; None of single steps alone."""
    known = [(subject, interval) for subject, interval in found if interval is not None]
    for subject, interval in known[1:]:
        first = known[0][1]
        if abs(interval - first) > _TOLERANCE * min(interval, first):
            raise MissingDataError(
                f"{subject} has an interval of {interval:g} between its times, and {known[0][0]} of {first:g}, wanted"
                f" one; with 'interval: {max(interval, first):g}' in its entry a dataset is resampled {_REMEDY}"
            )
    return known[0][1] if known else None


def _check_even(times: NDArray[np.float64], subject: str) -> None:
    even = np.linspace(times[0], times[-1], len(times))
    if np.abs(times - even).max() <= _TOLERANCE * (interval_of(times) or 1):
        return
    intervals = np.diff(times)
    raise MissingDataError(
        f"{subject} has intervals from {intervals.min():g} to {intervals.max():g} between its times, wanted equal ones;"
        f" with 'interval: {intervals.min():g}' in its entry a dataset is resampled {_REMEDY}. If order alone counts,"
        " number the steps 0, 1, 2, ..."
    )


def _at(times: NDArray[np.float64], given: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    known = ~np.isnan(values)
    return np.interp(times, given[known], values[known]) if known.any() else np.full(len(times), np.nan)
