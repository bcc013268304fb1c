"""Users' time series: .ts files, CSV files, arrays in npz files and in memory; their splits, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from series_files import CLASSES, ended_by_nan, labels_of, series_of, write_table, write_ts
from user_data import declared

from robench.core.declared import DatasetDeclaration
from robench.core.errors import DeclarationError, MissingDataError, UsageError
from robench.datasets import open_dataset
from robench.datasets.base import EmbeddedImages
from robench.datasets.series_in_memory import ClassifiedSeries, dataset_of_series, standardised
from robench.datasets.verification import verify
from robench.domains.series_impl import PADDING
from robench.testing import check_dataset

TEST, TRAIN = series_of(7, longest=5), series_of(9, seed=1, longest=8)
LABELS, TRAIN_LABELS = labels_of(7), labels_of(9)
TARGETS, TRAIN_TARGETS = ([CLASSES.index(label) for label in labels] for labels in (LABELS, TRAIN_LABELS))
# Names of a CSV file are numbered in the order of their text.
SORTED = sorted(CLASSES)


def ts_of(root: Path, fields: str) -> DatasetDeclaration:
    write_ts(root / "test.ts", TEST, LABELS)
    write_ts(root / "train.ts", TRAIN, TRAIN_LABELS)
    return declared(root, f"{{kind: ts, path: test.ts, {fields.replace('TRAIN', 'train.ts')}}}")


def table_of(root: Path, fields: str) -> DatasetDeclaration:
    write_table(root / "test.csv", TEST, LABELS)
    write_table(root / "train.csv", TRAIN, TRAIN_LABELS)
    return declared(root, f"{{kind: series-csv, path: test.csv, {fields.replace('TRAIN', 'train.csv')}}}")


def ended_of(root: Path, fields: str) -> DatasetDeclaration:
    np.savez(root / "test.npz", inputs=ended_by_nan(TEST), targets=TARGETS)
    np.savez(root / "train.npz", inputs=ended_by_nan(TRAIN), targets=TRAIN_TARGETS)
    return declared(root, f"{{kind: npz, domain: series, path: test.npz, {fields.replace('TRAIN', 'train.npz')}}}")


FORMATS = (ts_of, table_of, ended_of)


def opened(declaration: DatasetDeclaration, split: str | None = None) -> Any:
    return open_dataset(declaration, data_root=None, preprocessing=None, split=split)


def by_number(dataset: Any) -> tuple[list[Any], list[int]]:
    """Return the padded series in the order of the files, without padding, and their targets."""
    batch = dataset.batch(0, len(dataset))
    rows = sorted(range(len(dataset)), key=lambda row: batch.ids[row])
    assert all((batch.inputs[row][batch.inputs[row][:, 0] == PADDING] == PADDING).all() for row in rows)
    series = [each[each[:, 0] != PADDING].numpy() for each in batch.inputs[rows]]
    return series, batch.targets[rows].tolist()


@pytest.mark.parametrize("make", FORMATS)
def test_each_format_has_the_series_of_its_files_as_standardised_by_the_training_split(
    tmp_path: Path, make: Callable[[Path, str], DatasetDeclaration]
) -> None:
    declaration = make(tmp_path, "train: TRAIN")
    check_dataset(declaration)
    order = SORTED if make is table_of else CLASSES
    for split, series, labels in (("test", TEST, LABELS), ("train", TRAIN, TRAIN_LABELS)):
        dataset = opened(declaration, split)
        # The longest series is in the training split.
        assert dataset.batch(0, 2).inputs.shape == (2, 8, 2)
        found, targets = by_number(dataset)
        assert targets == [order.index(label) for label in labels]
        assert dataset.num_classes == 3
        for one, other in zip(found, standardised(series, TRAIN), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("make", FORMATS)
@pytest.mark.parametrize("fields", ["num_steps: 6", "train: TRAIN, standardise: false"])
def test_otherwise_series_are_as_given(
    tmp_path: Path, make: Callable[[Path, str], DatasetDeclaration], fields: str
) -> None:
    dataset = opened(make(tmp_path, fields))
    assert dataset.batch(0, 1).inputs.shape[1] == (6 if "num_steps" in fields else 8)
    for one, other in zip(by_number(dataset)[0], TEST, strict=True):
        np.testing.assert_array_equal(one, other.astype(np.float32))


def test_a_changed_value_of_either_file_changes_the_fingerprint_and_a_path_does_not(tmp_path: Path) -> None:
    before = opened(ts_of(tmp_path / "a", "train: TRAIN")).identity
    assert opened(ts_of(tmp_path / "b", "train: TRAIN")).identity == before
    declaration = ts_of(tmp_path / "a", "train: TRAIN")
    changed = [each.copy() for each in TRAIN]
    changed[3][0, 0] += 1
    write_ts(tmp_path / "a" / "train.ts", changed, TRAIN_LABELS)
    assert opened(declaration).identity.fingerprint != before.fingerprint


@pytest.mark.parametrize("steps", ["0 4 2", "2017-12-01 2017-12-03 2017-12-02"])
def test_a_missing_value_of_a_table_is_interpolated_in_time_and_channels_are_chosen_in_their_order(
    tmp_path: Path, steps: str
) -> None:
    first, last, between = steps.split()
    rows = f"series,step,label,x,y,z\na,{first},0,1,5,9\na,{last},0,3,7,9\na,{between},0,?,6,9\nb,0,1,?,1,9\n"
    (tmp_path / "x.csv").write_text(rows)
    declaration = declared(tmp_path, "{kind: series-csv, path: x.csv, channels: [y, x]}")
    series, targets = by_number(opened(declaration))
    assert [each.tolist() for each in series] == [[[5, 1], [6, 2], [7, 3]], [[1, 0]]]
    assert targets == [0, 1]


def test_splits_of_other_intervals_are_refused(tmp_path: Path) -> None:
    for name, last in (("test", 1), ("train", 2)):
        (tmp_path / f"{name}.csv").write_text(f"{HEADER}a,0,0,1\na,{last},0,3\nb,5,1,9\n")
    with pytest.raises(MissingDataError, match=r"train.csv has an interval of 2 .* wanted 1, as .*test.csv; resample"):
        opened(declared(tmp_path, "{kind: series-csv, path: test.csv, train: train.csv}"))


def test_padding_has_a_public_mask(tmp_path: Path) -> None:
    dataset = opened(ts_of(tmp_path, "train: TRAIN"))
    batch = dataset.batch(0, 7)
    mask = dataset.valid(batch.inputs)
    assert mask.sum(1).tolist() == [len(TEST[int(each.rpartition("/")[2])]) for each in batch.ids]
    # Padding is on the right, and all else is standardised.
    assert (mask[:, :-1] >= mask[:, 1:]).all()
    assert batch.inputs[mask].abs().max() < 10


def test_without_a_training_file_there_is_no_training_split(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no split 'train' here, only 'test'"):
        opened(ts_of(tmp_path, "title: T"), "train")


def test_numbers_of_series_are_verified(tmp_path: Path) -> None:
    (found,) = verify("mine", None, datasets={"mine": ts_of(tmp_path, "train: TRAIN")})
    assert (found.num_series, found.num_channels, found.num_steps, found.num_classes) == (7, 2, 5, 3)
    declaration = ts_of(tmp_path, "title: T")
    (tmp_path / "test.ts").unlink()
    (found,) = verify("mine", None, datasets={"mine": declaration})
    assert [each.kind for each in found.findings] == ["unreadable"]
    assert (found.num_series, found.num_texts, found.is_decoded) == (0, None, False)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{kind: ts, path: x.ts, standardise: true}", "standardise: must be left out without train"),
        ("{kind: ts, path: x.ts, train: ''}", "train: must name a file"),
        ("{kind: npz, path: x.npz, train: y.npz}", "train: must be left out for images"),
        ("{kind: series-csv, path: x.csv, step_column: label}", "label_column: must differ from the other columns"),
        ("{kind: series-csv, path: x.csv, channels: [x, step]}", "channels: must be different columns"),
    ],
)
def test_entries_that_contradict_themselves_are_refused(tmp_path: Path, entry: str, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        declared(tmp_path, entry)


HEADER = "series,step,label,x\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no column 'series'. It is empty. Name it by series_column, step_column, label_column or channels"),
        ("serie,step,label,x\n", "no column 'series'.*serie"),
        ("series,step,label\n", "has no column beside series, step, label, wanted channels"),
        (HEADER, "x.csv has no rows below its header, wanted one for each step of each series"),
        (HEADER + "a,0,0,1\na,0,0,2\n", "line 3: step 0 of series 'a' was in line 2, too"),
        (HEADER + "a,0,0,1\na,1,1,2\n", "line 3: series 'a' has the label '1', and '0' before"),
        (HEADER + "a,0,0,nan\n", r"line 2 has 'nan' in column 'x', wanted a finite number, or \? if missing"),
        (HEADER + "a,0,0,\n", "line 2 has '' in column 'x', wanted a finite number"),
        (HEADER + "a,0,0,high\n", "line 2 has 'high' in column 'x', wanted a finite number"),
        (HEADER + "a,first,0,1\n", "line 2 has 'first' in column 'step', wanted a finite number or a date"),
        (
            HEADER + "a,0,0,1\na,1,0,2\na,3,0,2\n",
            "series 'a' has intervals from 1 to 2 between its times, wanted equal",
        ),
        (
            HEADER + "a,0,0,1\na,1,0,2\nb,0,0,1\nb,.5,0,2\n",
            "series 'b' has an interval of 0.5 between.*wanted 1, as .*series 'a'",
        ),
        (HEADER + "a,0,,1\n", "line 2: label is empty; name the series and its label in every row"),
        (HEADER + ",0,0,1\n", "line 2: series is empty"),
        (HEADER + "a,0,0\n", "line 2: 3 columns, and the header has 4"),
        (HEADER + "a,0,0,1\nb,0,0,1\n", "has only one class"),
        (HEADER + "a,0,0,1e30\nb,0,1,1\n", "values beyond 1.15e[+]18, wanted standardised ones"),
        (HEADER + "a,0,0,1e200\nb,0,1,1\n", "wanted finite numbers"),
    ],
)
def test_a_wrong_table_is_refused_by_its_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises((MissingDataError, DeclarationError), match=message):
        opened(declared(tmp_path, "{kind: series-csv, path: x.csv}"))


def test_an_unknown_channel_is_named_beside_the_columns(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(HEADER)
    with pytest.raises(DeclarationError, match=r"no column 'y'.*Known: label, series, step, x"):
        opened(declared(tmp_path, "{kind: series-csv, path: x.csv, channels: [y]}"))


def with_value(value: float, *place: int) -> dict[str, Any]:
    inputs = ended_by_nan(TEST)
    inputs[place] = value
    return {"inputs": inputs}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (with_value(np.nan, 0, 1, 1), "inputs has nan in series 0 at step 1 in channel 1, wanted finite numbers up to"),
        (with_value(np.inf, 0, 0, 0), "inputs has inf in series 0 at step 0 in channel 0"),
        ({"inputs": np.full((2, 3, 1), np.nan)}, "inputs has no value in series 0, wanted a step at least"),
        ({"inputs": np.zeros((7, 0, 2))}, "has no value in series 0"),
        ({"inputs": np.zeros((7, 4))}, r"has float64 of the shape \(7, 4\), wanted numbers \(N, steps, channels\)"),
        ({"inputs": np.array([["a"]])}, r"has <U1 of the shape \(1, 1\), wanted numbers"),
        ({"inputs": np.array([[1], [1, 2]], dtype=object)}, "cannot be read without pickle"),
        ({"targets": np.arange(6)}, "targets must be 7 whole numbers, one an example"),
        ({"targets": np.arange(7) - 1}, "has the label -1"),
    ],
)
def test_wrong_arrays_are_refused(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "x.npz", **{"targets": TARGETS, "inputs": ended_by_nan(TEST), **arrays})
    with pytest.raises(MissingDataError, match=message):
        opened(declared(tmp_path, "{kind: npz, domain: series, path: x.npz}"))


def test_files_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    declaration = ts_of(tmp_path, "train: TRAIN")
    write_ts(tmp_path / "train.ts", TRAIN, TRAIN_LABELS, classes=("run", "walk", "rest"))
    with pytest.raises(MissingDataError, match="has different classes in its files; give both the same @classLabel"):
        opened(declaration)
    write_ts(tmp_path / "train.ts", series_of(3, num_channels=3), labels_of(3))
    with pytest.raises(MissingDataError, match=r"has 2 channels in .*test\.ts, and 3 in .*train\.ts"):
        opened(declaration)
    (tmp_path / "train.ts").unlink()
    with pytest.raises(MissingDataError, match=r"train\.ts does not exist. Correct path in its entry"):
        opened(declaration)
    with pytest.raises(DeclarationError, match="has 3 classes in @classLabel, and num_classes is 4"):
        opened(ts_of(tmp_path, "num_classes: 4"))
    with pytest.raises(MissingDataError, match="has a series of 5 steps, wanted at most num_steps, 4"):
        opened(ts_of(tmp_path, "num_steps: 4"))


def in_memory() -> ClassifiedSeries:
    """Return the series of the .ts files, from a program."""
    return dataset_of_series("mine", TEST, TARGETS, training=TRAIN)


IN_MEMORY = EmbeddedImages(
    name="mine",
    title="Series of a program",
    task="classification",
    domain="series",
    source="here",
    licence="MIT",
    num_classes=3,
    num_examples=7,
    maker=f"{__name__}:in_memory",
)


def test_arrays_in_memory_are_the_same_data_as_files(tmp_path: Path) -> None:
    declaration = declared(tmp_path, f"{{kind: python, target: '{__name__}:IN_MEMORY'}}")
    check_dataset(declaration)
    assert opened(declaration).identity == opened(ts_of(tmp_path, "train: TRAIN")).identity
    given = dataset_of_series("mine", [each.tolist() for each in TEST], TARGETS, num_steps=9, ids=list("abcdefg"))
    assert given.batch(0, 7).inputs.shape == (7, 9, 2)
    assert torch.equal(given[given.ids.index("c")][0][: len(TEST[2])], torch.from_numpy(TEST[2]).float())


@pytest.mark.parametrize(
    ("series", "options", "message"),
    [
        ([], {}, "dataset 'mine': series are absent: there are 0"),
        ([[[1.0], [2.0, 3.0]]], {}, "series 0 is not an array of numbers"),
        ([[1.0, 2.0]], {}, r"series 0 has the shape \(2,\), wanted \(steps, channels\)"),
        ([np.zeros((0, 2))], {}, r"series 0 has the shape \(0, 2\)"),
        ([*TEST[:6], np.zeros((3, 1))], {}, "series 6 has 1 channels, wanted 2, as series 0"),
        ([*TEST[:6], [[1.0, np.nan]]], {}, "series 6 has nan at step 0 in channel 1, wanted finite numbers"),
        (TEST[:6], {}, "has 6 series, 7 targets and 6 different ids, wanted a target and an id for each"),
        (TEST, {"ids": ["a"] * 7}, "1 different ids"),
        (TEST, {"num_classes": 2}, "has targets from 0 to 2, wanted classes 0 to 1"),
        (TEST, {"num_steps": 3}, "has a series of 5 steps, wanted at most num_steps, 3"),
        (TEST, {"training": [np.zeros((3, 3))]}, "series of 2 channels, and training series of 3"),
    ],
)
def test_wrong_series_in_memory_are_refused(series: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(MissingDataError, match=message):
        dataset_of_series("mine", series, TARGETS, **options)
