"""The reader of .ts files: what it reads, what it refuses with which message, and standardisation beside pandas."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from refusals import Refusal, check
from series_files import CLASSES, labels_of, series_of, ts_line, write_ts

from robench.core.errors import MissingDataError
from robench.datasets.series_in_memory import standardised
from robench.datasets.ts_files import interpolated, parse_ts, read_ts

HEADER = "@problemName Two\n@timeStamps false\n@dimensions 2\n@classLabel true a b\n@data\n"


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


def whole(content: bytes, message: str) -> Refusal:
    return Refusal(lambda _: parse_ts(content, "x.ts"), MissingDataError, message)


def line(text: str, message: str) -> Refusal:
    return whole(f"{HEADER}1,2:3,4:a\n{text}\n".encode(), message)


def device(folder: Path) -> Path:
    (folder / "zero.ts").symlink_to("/dev/zero")
    return folder / "zero.ts"


REFUSALS = (
    line("1,2:3,4:c", "x.ts, line 7 has the class 'c' after its channels, wanted one of @classLabel: a, b"),
    line("1,2:3,4:", "line 7 has no class after its channels, wanted one of @classLabel: a, b"),
    line("1,2:3,4", "line 7 has the class '3,4' after its channels"),
    line(":a", "line 7 has 1 channels, wanted 2 by @dimensions"),
    line("a", "line 7 has a class and no channel"),
    line("::a", "line 7 has a series without values"),
    line("1,2:3,4:5,6:a", "line 7 has 3 channels, wanted 2 by @dimensions"),
    line("1,2,3:3,4:a", "line 7 has channels of 2 and 3 values, wanted equal numbers"),
    line("1,2:3,x:a", r"line 7 has 'x' in channel 2, wanted a finite number, or \? if missing"),
    line("1,2,:3,4,5:a", "line 7 has '' in channel 1, wanted a finite number"),
    line("1,2:NaN,4:a", "line 7 has 'NaN' in channel 2, wanted a finite number"),
    line("1,-inf:3,4:a", "line 7 has '-inf' in channel 1, wanted a finite number"),
    line("1,1e999:3,4:a", "line 7 has '1e999' in channel 1, wanted a finite number"),
    line(f"{'9' * 400}x:1:a", r"line 7 has '9{40}\.\.\.' in channel 1"),
    whole(b"", "x.ts is not a .ts file: it has no line @data"),
    whole(HEADER.encode().replace(b"@data", b""), "it has no line @data"),
    whole(HEADER.encode(), "has no series after @data, wanted one on each line"),
    whole(b"1,2:a\n@data", "line 1 has '1,2:a' before @data, wanted a field of the header, such as @classLabel"),
    whole(b"@data\n1,2:a", "has the header @classLabel 'false', wanted true and the names of at least two classes"),
    whole(b"@classLabel true a\n@data\n1:a", "has the header @classLabel 'true a', wanted true"),
    whole(b"@targetLabel true\n@data\n1:0.5", "has the header @classLabel 'false'"),
    whole(b"@classLabel true a b\n@data\n1:2:a\n1:b", "line 4 has 1 channels, wanted 2, as the first series"),
    whole(HEADER.encode() + b"1,2:3,4:\xff\n", r"cannot be read as a .ts file: byte \d+ is not UTF-8"),
    whole(HEADER.replace("Stamps false", "Stamps true").encode() + b"(0,1):(0,2):a", "has time stamps .* not read"),
    Refusal(lambda folder: read_ts(folder / "x.ts"), MissingDataError, r"cannot read .*x\.ts: No such file"),
    Refusal(lambda folder: read_ts(device(folder)), MissingDataError, "it is a device"),
)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.message[:60])
def test_what_is_no_ts_file_is_named_with_its_place(refusal: Refusal, tmp_path: Path) -> None:
    check(refusal, tmp_path)


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
