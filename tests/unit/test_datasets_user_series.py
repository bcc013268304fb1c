"""Users' time series: .ts files, CSV files, arrays in npz files and in memory; their splits, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from series_files import CLASSES, ended_by_nan, labels_of, series_of, write_table, write_ts
from user_data import declared, opened

from robench.core.declared import DatasetDeclaration
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


Making = Callable[[Path, str], DatasetDeclaration]
FORMATS = (ts_of, table_of, ended_of)


def by_number(dataset: Any) -> tuple[list[Any], list[int]]:
    """Return the padded series in the order of the files, without padding, and their targets."""
    batch = dataset.batch(0, len(dataset))
    rows = sorted(range(len(dataset)), key=lambda row: batch.ids[row])
    assert all((batch.inputs[row][batch.inputs[row][:, 0] == PADDING] == PADDING).all() for row in rows)
    series = [each[each[:, 0] != PADDING].numpy() for each in batch.inputs[rows]]
    return series, batch.targets[rows].tolist()


@pytest.mark.parametrize("make", FORMATS)
def test_each_format_has_the_series_of_its_files_standardised_by_training(tmp_path: Path, make: Making) -> None:
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
def test_otherwise_series_are_as_given(tmp_path: Path, make: Making, fields: str) -> None:
    dataset = opened(make(tmp_path, fields))
    assert dataset.batch(0, 1).inputs.shape[1] == (6 if "num_steps" in fields else 8)
    for one, other in zip(by_number(dataset)[0], TEST, strict=True):
        np.testing.assert_array_equal(one, other.astype(np.float32))


def test_a_changed_value_of_either_file_changes_the_fingerprint_and_a_path_does_not(tmp_path: Path) -> None:
    before = opened(ts_of(tmp_path / "a", "train: TRAIN")).identity
    assert opened(ts_of(tmp_path / "b", "train: TRAIN")).identity == before
    declaration = ts_of(tmp_path / "a", "train: TRAIN")
    changed = [*TRAIN[:3], TRAIN[3] + 1, *TRAIN[4:]]
    write_ts(tmp_path / "a" / "train.ts", changed, TRAIN_LABELS)
    assert opened(declaration).identity.fingerprint != before.fingerprint


@pytest.mark.parametrize("steps", ["0 4 2", "2017-12-01 2017-12-03 2017-12-02"])
def test_missing_values_are_interpolated_in_time_and_channels_chosen_in_order(tmp_path: Path, steps: str) -> None:
    first, last, between = steps.split()
    rows = f"series,step,label,x,y,z\na,{first},0,1,5,9\na,{last},0,3,7,9\na,{between},0,?,6,9\nb,0,1,?,1,9\n"
    (tmp_path / "x.csv").write_text(rows)
    declaration = declared(tmp_path, "{kind: series-csv, path: x.csv, channels: [y, x]}")
    series, targets = by_number(opened(declaration))
    assert [each.tolist() for each in series] == [[[5, 1], [6, 2], [7, 3]], [[1, 0]]]
    assert targets == [0, 1]


def test_padding_has_a_public_mask(tmp_path: Path) -> None:
    dataset = opened(ts_of(tmp_path, "train: TRAIN"))
    batch = dataset.batch(0, 7)
    mask = dataset.valid(batch.inputs)
    assert mask.sum(1).tolist() == [len(TEST[int(each.rpartition("/")[2])]) for each in batch.ids]
    # Padding is on the right, and all else is standardised.
    assert (mask[:, :-1] >= mask[:, 1:]).all()
    assert batch.inputs[mask].abs().max() < 10


def test_numbers_of_series_are_verified(tmp_path: Path) -> None:
    (found,) = verify("mine", None, datasets={"mine": ts_of(tmp_path, "train: TRAIN")})
    assert (found.num_series, found.num_channels, found.num_steps, found.num_classes) == (7, 2, 5, 3)
    declaration = ts_of(tmp_path, "title: T")
    (tmp_path / "test.ts").unlink()
    (found,) = verify("mine", None, datasets={"mine": declaration})
    assert [each.kind for each in found.findings] == ["unreadable"]
    assert (found.num_series, found.num_texts, found.is_decoded) == (0, None, False)


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
