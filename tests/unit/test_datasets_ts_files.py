"""The reader of .ts files: what it reads, what it refuses with which message, and standardisation beside pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from series_files import CLASSES, labels_of, series_of, ts_line, write_ts

from robench.core.errors import MissingDataError
from robench.datasets.series_in_memory import standardised
from robench.datasets.ts_files import interpolated, parse_ts, read_ts

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

HEADER = "@problemName Two\n@timeStamps false\n@dimensions 2\n@classLabel true a b\n@data\n"
TIMED = HEADER.replace("Stamps false", "Stamps true")


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    series, labels = series_of(6), labels_of(6)
    found = read_ts(write_ts(tmp_path / "x.ts", series, labels))
    assert found.classes == CLASSES
    assert found.labels == tuple(labels)
    assert all(np.array_equal(one, other) for one, other in zip(found.series, series, strict=True))


def test_blank_lines_comments_case_line_ends_and_byte_order_marks_do_not_matter() -> None:
    plain = parse_ts((HEADER + "1,2:3,4:a\n5:6:b\n").encode(), "x.ts")
    text = "\ufeff" + HEADER.replace("@data", "@DATA ").replace("class", "CLASS") + "\n# c\n 1, 2 :3,4: a \n%\n5:6:b"
    other = parse_ts(text.replace("\n", "\r\n").encode(), "x.ts")
    assert plain.labels == other.labels == ("a", "b")
    assert [each.tolist() for each in plain.series] == [[[1, 3], [2, 4]], [[5, 6]]]
    assert [each.tolist() for each in other.series] == [each.tolist() for each in plain.series]


@pytest.mark.parametrize(
    ("lines", "interval", "expected"),
    [
        # Even times, as in decimals, by dates, and with an offset of a zone; a series of one step fits any.
        ("(0,1.5),(0.033,2.5),(0.067,?),(0.1,4.5):(0,?),(.033,-3),(.067,?),(.1,?):a", None, None),
        ("(2017-12-01 10:30:00,1),(2017-12-01 10:31:00,?),(2017-12-01 10:32:00,5):a", None, [[1], [3], [5]]),
        ("(2017-12-01T10:30+01:00,1),(2017-12-01 09:31,4):a", None, [[1], [4]]),
        ("(7,1):a\n(0,1),(10,2):b\n(3,4):a", None, [[1]]),
        # Linear in time: 2 at the time 1, and no gap closes up.
        ("(0,1.0),(1,?),(10,11.0):a", 1, [[float(each)] for each in range(1, 12)]),
        ("(0,1.0),(1,?),(10,11.0):a", 4, [[1], [5], [9]]),
        # Channels of their own times, and each with its nearest value beyond its ends.
        ("(0,0),(2,4):(1,1),(1.5,2),(3,5):a", 1, [[0, 1], [2, 1], [4, 3], [4, 5]]),
        ("(0,1),(0.1,2),(0.2,3),(0.3,4):a", 0.1, [[1], [2], [3], [4]]),
    ],
)
def test_values_with_time_stamps_are_at_even_times_linear_in_time(
    lines: str, interval: float | None, expected: list[list[float]] | None
) -> None:
    found = parse_ts((TIMED.replace("@dimensions 2\n", "") + lines).encode(), "x.ts", interval)
    if expected is None:
        # np.interp by hand: 2.5 + 2 * 34 / 67; the second channel has one value alone.
        expected = [[1.5, -3], [2.5, -3], [2.5 + 2 * 34 / 67, -3], [4.5, -3]]
    np.testing.assert_allclose(found.series[0], expected, rtol=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.integers(1, 5).flatmap(
            lambda num_steps: arrays(np.float64, (num_steps, 3), elements=st.floats(allow_infinity=False))
        ),
        min_size=1,
        max_size=4,
    )
)
def test_whatever_is_written_is_read(series: list[NDArray[np.float64]]) -> None:
    labels = labels_of(len(series), ("1", "zwei"))
    lines = "\n".join(ts_line(each, label) for each, label in zip(series, labels, strict=True))
    found = parse_ts(f"@classLabel true 1 zwei\n@data\n{lines}".encode(), "x.ts")
    assert found.labels == tuple(labels)
    assert all(np.array_equal(one, other, equal_nan=True) for one, other in zip(found.series, series, strict=True))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1,2:3,4:c", "x.ts, line 7 has the class 'c' after its channels, wanted one of @classLabel: a, b"),
        ("1,2:3,4:", "line 7 has no class after its channels, wanted one of @classLabel: a, b"),
        ("1,2:3,4", "line 7 has the class '3,4' after its channels"),
        (":a", "line 7 has 1 channels, wanted 2 by @dimensions"),
        ("a", "line 7 has a class and no channel"),
        ("::a", "line 7 has a series without values"),
        ("1,2:3,4:5,6:a", "line 7 has 3 channels, wanted 2 by @dimensions"),
        ("1,2,3:3,4:a", "line 7 has channels of 2 and 3 values, wanted equal numbers"),
        ("1,2:3,x:a", r"line 7 has 'x' in channel 2, wanted a finite number, or \? if missing"),
        ("1,2,:3,4,5:a", "line 7 has '' in channel 1, wanted a finite number"),
        ("1,2:NaN,4:a", "line 7 has 'NaN' in channel 2, wanted a finite number"),
        ("1,-inf:3,4:a", "line 7 has '-inf' in channel 1, wanted a finite number"),
        ("1,1e999:3,4:a", "line 7 has '1e999' in channel 1, wanted a finite number"),
        (f"{'9' * 400}x:1:a", r"line 7 has '9{40}\.\.\.' in channel 1"),
    ],
)
def test_a_wrong_line_is_named_with_its_place(line: str, message: str) -> None:
    with pytest.raises(MissingDataError, match=message):
        parse_ts(f"{HEADER}1,2:3,4:a\n{line}\n".encode(), "x.ts")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("(0,1),(1,2):(0,1)(1,2):a", r"line 6 has '\(0,1\)\(1,2\)' in channel 2, wanted pairs \(time,value\)"),
        ("(0,1),(1,2):0,1:a", "line 6 has '0,1' in channel 2, wanted pairs"),
        ("(0,1),(1,2):(0,1),(1:a", "wanted pairs|after its channels"),
        ("(0,1),(0,2):(0,1),(1,2):a", "line 6 has the time 0 after 0 in channel 1, wanted ascending times"),
        ("(0,1),(1,2):(0,1),(1,y):a", "line 6 has 'y' in channel 2"),
        ("(0,1),(1,2):(0,1),(1):a", "wanted pairs"),
        ("(0,1),(noon,2):(0,1),(1,2):a", "has the time 'noon' in channel 1, wanted a finite number or a date such as"),
        ("(2017-12-02,1),(2017-12-01,2):(0,1),(1,2):a", "has the time 2017-12-01 after 2017-12-02 in channel 1"),
        ("(0,1),(1,2)::a", "has a series without values in channel 2"),
        ("(0,1),(1,?),(10,11):(0,1),(1,2),(10,3):a", "intervals from 1 to 9 between its times.*'interval: 1' in its"),
        ("(0,1),(1,2):(0,1),(1.5,2):a", "has channel 2 at other times than channel 1, wanted the same.*'interval: 1'"),
        ("(0,1),(1,2):(0,1):a", "has channel 2 at other times than channel 1"),
        ("(0,1),(1,2):(0,1),(1,2):a\n(0,1),(2,2):(0,1),(2,2):a", "line 7 has an interval of 2 .* line 6 of 1, wanted"),
    ],
)
def test_wrong_or_uneven_time_stamps_are_refused(line: str, message: str) -> None:
    with pytest.raises(MissingDataError, match=message):
        parse_ts(f"{TIMED}{line}\n".encode(), "x.ts")


def test_an_interval_is_refused_without_time_stamps_and_where_steps_would_be_too_many() -> None:
    with pytest.raises(MissingDataError, match=r"no time stamps \(@timeStamps true\); leave interval out of its entry"):
        parse_ts(f"{HEADER}1,2:3,4:a".encode(), "x.ts", 1)
    with pytest.raises(
        MissingDataError, match=r"line 6 would have 1e\+09 steps at an interval of 1e-09, wanted at most"
    ):
        parse_ts(f"{TIMED}(0,1),(1,2):(0,1),(1,2):a".encode(), "x.ts", 1e-9)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "x.ts is not a .ts file: it has no line @data"),
        (HEADER.encode().replace(b"@data", b""), "it has no line @data"),
        (HEADER.encode(), "has no series after @data, wanted one on each line"),
        (b"1,2:a\n@data", "line 1 has '1,2:a' before @data, wanted a field of the header, such as @classLabel"),
        (b"@data\n1,2:a", "has the header @classLabel 'false', wanted true and the names of at least two classes"),
        (b"@classLabel true a\n@data\n1:a", "has the header @classLabel 'true a', wanted true"),
        (b"@targetLabel true\n@data\n1:0.5", "has the header @classLabel 'false'"),
        (b"@classLabel true a b\n@data\n1:2:a\n1:b", "line 4 has 1 channels, wanted 2, as the first series"),
        (HEADER.encode() + b"1,2:3,4:\xff\n", r"cannot be read as a .ts file: byte \d+ is not UTF-8"),
        (b"PK\x03\x04\x90", "is not UTF-8"),
    ],
)
def test_another_file_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(MissingDataError, match=message):
        parse_ts(content, "x.ts")


def test_an_absent_file_and_a_device_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match=r"cannot read .*x\.ts: No such file"):
        read_ts(tmp_path / "x.ts")
    (tmp_path / "zero.ts").symlink_to("/dev/zero")
    with pytest.raises(MissingDataError, match="it is a device"):
        read_ts(tmp_path / "zero.ts")


def test_missing_values_are_interpolated_as_by_pandas() -> None:
    draw = np.random.default_rng(0)
    series = draw.normal(size=(40, 5))
    series[draw.random(series.shape) < 0.5] = np.nan
    series[:4, 0] = series[-3:, 1] = np.nan
    expected = pd.DataFrame(series).interpolate(limit_direction="both")
    np.testing.assert_allclose(interpolated(series), expected, rtol=1e-12)
    # pandas leaves NaN where a channel has no value.
    assert interpolated(np.full((3, 1), np.nan)).tolist() == [[0], [0], [0]]


def test_series_are_standardised_as_by_pandas() -> None:
    train, test = series_of(5), series_of(4, seed=1)
    train[1][1, 0] = np.nan
    for each in (*train, *test):
        each[:, 1] = 7.0
    rows = pd.concat([pd.DataFrame(each).interpolate(limit_direction="both") for each in train])
    deviation = rows.std().replace(0.0, 1.0)
    for found, each in zip(standardised(test, train), test, strict=True):
        np.testing.assert_allclose(found, (each - rows.mean().to_numpy()) / deviation.to_numpy(), rtol=1e-6)
        assert (found[:, 1] == 0).all()
