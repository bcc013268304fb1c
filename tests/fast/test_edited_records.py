"""Edited records, sealed again, are found where their numbers contradict each other; four of the slow test's."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from edited_records import base_folder, edit, is_explained, numbers, outcome_of_edit, verified

from examples import MEASUREMENT, record_of
from robench.core.columns import Values
from robench.core.records import Record
from robench.core.shard import Shard, shard_key
from robench.store import FolderStore
from robench.store.parquet import encode_record


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with records of three tasks."""
    return base_folder(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def digits(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The records of ``digits-vit`` alone, since a whole folder takes half a second to verify."""
    store = FolderStore(folder := tmp_path_factory.mktemp("digits"))
    for record in FolderStore(base).records(lambda shard: shard.checkpoint == "digits-vit"):
        store.put(record)
    return folder


@pytest.fixture
def folder(digits: Path, tmp_path: Path) -> Path:
    return shutil.copytree(digits, tmp_path / "edited")


def test_committed_results_are_sound(base: Path) -> None:
    assert verified(base)


def test_random_edits_are_found_or_harmless_or_need_the_model(base: Path, tmp_path: Path) -> None:
    before = numbers(base)
    for number in range(4):
        folder = shutil.copytree(base, tmp_path / str(number))
        made, outcome = edit(folder, number), outcome_of_edit(folder, before)
        assert is_explained(made, outcome), (number, made, outcome)


def record_in(folder: Path, condition: str = "clean") -> Record:
    store = FolderStore(folder)
    records = store.records(lambda shard: (shard.checkpoint, shard.condition) == ("digits-vit", condition))
    return next(record for record in records if record.shard.start == 100)


def column(name: str, change: Callable[[Any], Any]) -> Callable[[Record], Record]:
    def changed(record: Record) -> Record:
        values = record.outcomes.column(name).copy()
        values[7] = change(values[7])
        return replace(record, outcomes=record.outcomes.replaced(**{name: Values(values)}))

    return changed


def header(**changes: Any) -> Callable[[Record], Record]:
    def changed(record: Record) -> Record:
        shard = replace(record.shard, **changes)
        key = shard_key(shard.measurement_key, shard.start, shard.stop)
        return replace(record, shard=replace(shard, key=key) if "key" not in changes else shard)

    return changed


def other_target(record: Record) -> Record:
    """Another target, and all that follows from it in the same record."""
    targets, is_right = record.outcomes.column("target").copy(), record.outcomes.column("correct_top1").copy()
    targets[7], is_right[7] = (targets[7] + 1) % 10, False
    columns = {"target": Values(targets), "correct_top1": Values(is_right)}
    return replace(record, outcomes=record.outcomes.replaced(**columns, loss_nats=None, confidence=None))


def fewer_rows(record: Record) -> Record:
    return replace(record, outcomes=record.outcomes.take(slice(99)))


@pytest.mark.parametrize(
    ("condition", "change", "field"),
    [
        ("clean", column("prediction", lambda value: (value + 1) % 10), "correct_top1"),
        ("clean", column("correct_top1", lambda value: not value), "correct_top1"),
        ("clean", column("correct_top5", lambda value: False), "correct_top5"),
        ("clean", column("loss_nats", lambda value: np.nan), "loss_nats"),
        ("clean", column("confidence", lambda value: 1.5), "confidence"),
        ("clean", column("confidence", lambda value: 0.9 * value), "confidence"),
        ("clean", column("linf", lambda value: 0.001), "linf"),
        ("clean", column("target", lambda value: value + 100), "target"),
        ("clean", column("example_id", lambda value: "another"), "example_id"),
        ("pgd-10", column("linf", lambda value: 0.2), "linf"),
        ("pgd-10", column("l2", lambda value: np.nan), "l2"),
        ("pgd-10", column("num_queries", lambda value: -1), "num_queries"),
        ("pgd-10", other_target, "target"),
        ("clean", fewer_rows, "99 rows"),
        ("clean", header(seed=1), "seed"),
        ("clean", header(weights_digest="0" * 64), "weights_digest"),
        ("clean", header(batch_size=0), "batch_size"),
        ("clean", header(key="0" * 32), "key"),
    ],
)
def test_a_contradiction_is_set_aside_with_its_file_and_field(
    folder: Path, condition: str, change: Callable[[Record], Record], field: str, caplog: pytest.LogCaptureFixture
) -> None:
    record = record_in(folder, condition)
    path = path_of(folder, record)
    path.write_bytes(encode_record(change(record)))
    assert not verified(folder)
    assert not path.exists()
    assert (folder / "damaged" / f"{path.name}-1").exists()
    told = [each.getMessage() for each in caplog.records if path.name in each.getMessage()]
    assert field in told[0].partition("is damaged:")[2].partition("It was set aside")[0]


def test_one_id_at_two_places_is_a_contradiction(folder: Path) -> None:
    record = record_in(folder)
    ids = record.outcomes.ids.copy()
    ids[3] = ids[4]
    path = path_of(folder, record)
    path.write_bytes(encode_record(replace(record, outcomes=record.outcomes.replaced(example_id=Values(ids)))))
    assert not verified(folder)
    assert not path.exists()


def test_without_a_majority_both_sides_are_measured_again(folder: Path, tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "two")
    for record in (record_in(folder, "clean"), other_target(record_in(folder, "pgd-10"))):
        store.put(record)
    assert list(store.records(lambda shard: True)) == []
    assert store.keys() == set()
    assert store.num_lost == 2


def test_a_planned_measurement_tells_which_header_was_edited(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    for start in (0, 100):
        shard = replace(Shard(measurement=MEASUREMENT, start=start, stop=start + 100).header, seed=7)
        store.put(record_of(shard))
    store.expect((), [MEASUREMENT])
    assert list(store.manifests()) == []
    assert store.keys() == set()


def test_files_that_cannot_be_moved_are_ignored(folder: Path) -> None:
    record = record_in(folder, "pgd-10")
    path = path_of(folder, record)
    path.write_bytes(encode_record(other_target(record)))
    (folder / "damaged").touch()
    store = FolderStore(folder)
    found = [each.shard for each in store.records(lambda shard: shard.checkpoint == "digits-vit")]
    assert path.exists()
    assert record.shard not in found
    assert len(found) > 30


def path_of(folder: Path, record: Record) -> Path:
    return folder / "records" / record.shard.measurement_key / f"{record.shard.key}.parquet"
