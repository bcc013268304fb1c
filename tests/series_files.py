"""Small time series of unequal length, and files of them: .ts, CSV with a row for each step, npz."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Series = Sequence[NDArray[np.float64]]

CLASSES = ("walk", "run", "rest")


def series_of(count: int, *, seed: int = 0, num_channels: int = 2, longest: int = 7) -> list[NDArray[np.float64]]:
    """Return series (T, C) of 3 to ``longest`` steps, the first of the longest, with other scales in each channel."""
    draw = np.random.default_rng(seed)
    scales = 10.0 ** np.arange(num_channels)
    lengths = [longest, *draw.integers(3, longest + 1, count - 1).tolist()]
    return [scales * (3 + draw.normal(size=(length, num_channels))) for length in lengths]


def labels_of(count: int, classes: Sequence[str] = CLASSES) -> list[str]:
    """Return a label for each series, in turn."""
    return [classes[number % len(classes)] for number in range(count)]


def ts_line(series: NDArray[np.float64], label: str) -> str:
    """Return a series as a line of a .ts file, NaN as ``?``."""
    channels = (",".join("?" if np.isnan(value) else repr(float(value)) for value in row) for row in series.T)
    return ":".join([*channels, label])


def write_ts(path: Path, series: Series, labels: Sequence[str], *, classes: Sequence[str] = CLASSES) -> Path:
    """Write a .ts file; return it."""
    lines = ["# made by a test", "@problemName Made", f"@classLabel true {' '.join(classes)}", "@data"]
    lines += [ts_line(each, label) for each, label in zip(series, labels, strict=True)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def write_table(path: Path, series: Series, labels: Sequence[str]) -> Path:
    """Write a CSV file with a row for each step, the last step first; return it."""
    rows = ["series,label,x,step,y"]
    for number, (each, label) in enumerate(zip(series, labels, strict=True)):
        rows += [f"s{number},{label},{x!r},{step},{y!r}" for step, (x, y) in reversed(list(enumerate(each.tolist())))]
    path.write_text("\n".join(rows) + "\n")
    return path


def ended_by_nan(series: Series) -> NDArray[np.float64]:
    """Return series as one array (N, T, C), with NaN after their ends."""
    whole = np.full((len(series), max(map(len, series)), series[0].shape[1]), np.nan)
    for row, each in zip(whole, series, strict=True):
        row[: len(each)] = each
    return whole
