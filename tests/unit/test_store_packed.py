"""Packs of records read as before; results folders are compacted, verified and merged, and their damage is found."""

import dataclasses
import logging
import math
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from leaderboard_examples import adv_suite, fill, shift_suite

from examples import HEADER, NEXT_HEADER, PROVENANCE, everything, failure_of, outcomes_of, record_of
from robench.core.columns import Outcomes, Values
from robench.core.errors import UsageError
from robench.core.flags import Flag, Observations
from robench.core.records import Record
from robench.core.shard import ShardHeader, shard_key
from robench.reports import RENDERERS, Listing, holdings_of, report_of_store
from robench.store import AdversarialExamples, FolderStore, MemoryStore, record_files, upkeep
from robench.store.packed import decode_pack, decode_pack_description, encode_pack, extent_of
from robench.store.parquet import encode_record
from robench.store.paths import Extent, Paths, extent_named
from robench.store.record_files import MOST_OPENED
from robench.store.sealed import DamagedError
from robench.store.upkeep import KINDS, RECORDS, compact_store, merge_stores, move_aside, verify_store

MEASURED = "a1" * 16
OTHER = "b2" * 16


def header(start: int, stop: int, measured: str = MEASURED) -> ShardHeader:
    key = shard_key(measured, start, stop)
    return dataclasses.replace(HEADER, key=key, measurement_key=measured, batch_size=2, start=start, stop=stop)


def record(start: int, stop: int, measured: str = MEASURED, **changes: object) -> Record:
    shard = header(start, stop, measured)
    provenance = dataclasses.replace(
        PROVENANCE, seconds=start + 0.1, finished_at=f"2026-11-21T11:00:{start % 60:02d}+00:00"
    )
    return record_of(shard, outcomes_of(shard, **changes), provenance)


def measured(num_examples: int, size: int = 2, measured: str = MEASURED) -> list[Record]:
    return [record(start, stop, measured) for start, stop in Extent(size=size, stop=num_examples).bounds()]


def folder_of(path: Path, results: Sequence[Record]) -> FolderStore:
    store = FolderStore(path)
    for each in results:
        store.put(each)
    return store


def files_of(store: FolderStore) -> list[str]:
    return sorted(path.name for path in (store.path / "records").rglob("*.parquet"))


class TestPack:
    @settings(max_examples=25, deadline=None)
    @given(num_examples=st.integers(1, 40), size=st.integers(1, 9))
    def test_records_come_back_as_they_were(self, num_examples: int, size: int) -> None:
        records = measured(num_examples, size)
        assert decode_pack(encode_pack(records[::-1])) == records

    def test_equal_records_give_equal_bytes_and_decode_to_the_same_bytes(self) -> None:
        records = measured(9)
        assert encode_pack(records) == encode_pack(list(reversed(records)))
        assert [*map(encode_record, decode_pack(encode_pack(records)))] == [*map(encode_record, records)]

    def test_what_differs_between_records_stays_with_each(self) -> None:
        flag = Flag(name="n", source="s", value=None, limit=0.1, is_raised=True, finding="f \u2013 \ud800", advice="a")
        first, second, third = measured(6)
        seen = Observations(check="n", columns=((True, 0.5, "a"),))
        first = dataclasses.replace(first, flags=(flag,), observations=(seen,))
        second = dataclasses.replace(
            second,
            shard=dataclasses.replace(second.shard, checkpoint="renamed", coupled=True, budget="8/255"),
            provenance=dataclasses.replace(PROVENANCE, device="NVIDIA H200", limit=100, versions={"torch": "3"}),
        )
        third = dataclasses.replace(third, outcomes=outcomes_of(third.shard, loss_nats=math.nan, num_queries=7))
        assert decode_pack(encode_pack([first, second, third])) == [first, second, third]

    def test_the_description_has_everything_but_outcomes(self) -> None:
        records = measured(9)
        described = decode_pack_description(encode_pack(records))
        assert [(one.shard, one.provenance) for one in described] == [(one.shard, one.provenance) for one in records]
        assert [len(each.outcomes) for each in described] == [0] * len(records)

    def test_a_header_of_a_thousand_shards_is_stored_once(self) -> None:
        few, many = (encode_pack(measured(number)) for number in (20, 100))
        assert many.count(b'"perturbation_key"') == few.count(b'"perturbation_key"') == 1
        assert len(many) < sum(len(encode_record(each)) for each in measured(100)) / 10

    @pytest.mark.parametrize(
        "bounds", [[(0, 2), (4, 6)], [(2, 4)], [(0, 2), (2, 6)], [(0, 4), (2, 4)], [(0, 4), (4, 6), (6, 10)], []]
    )
    def test_gaps_overlaps_and_mixed_sizes_have_no_extent(self, bounds: list[tuple[int, int]]) -> None:
        records = [record(start, stop) for start, stop in bounds]
        assert extent_of(records) is None
        with pytest.raises(ValueError, match="without gaps"):
            encode_pack(records)

    def test_records_of_two_measurements_are_refused(self) -> None:
        with pytest.raises(ValueError, match="one measurement"):
            encode_pack([record(0, 2), record(2, 4, OTHER)])

    def test_any_changed_byte_is_found(self) -> None:
        content = encode_pack(measured(5))
        for place in range(0, len(content), 97):
            broken = bytearray(content)
            broken[place] ^= 1
            with pytest.raises(DamagedError):
                decode_pack(bytes(broken))

    def test_observations_of_several_lengths_are_damaged(self) -> None:
        seen = Observations(check="n", columns=((True, False), (1.0,)))
        records = [dataclasses.replace(each, observations=(seen,)) for each in measured(5)]
        with pytest.raises(DamagedError, match="its observations have columns of several lengths"):
            decode_pack(encode_pack(records))

    def test_readers_of_plain_parquet_see_one_table(self, tmp_path: Path) -> None:
        (tmp_path / "pack.parquet").write_bytes(encode_pack(measured(9)))
        table = pq.read_table(tmp_path / "pack.parquet")
        assert table.num_rows == 9
        assert set(table.column("model").to_pylist()) == {HEADER.checkpoint}
        assert table.column("example_id").to_pylist() == [f"digits-{number:05d}" for number in range(9)]

    def test_the_name_says_which_shards_there_are(self) -> None:
        extent = Extent(size=2, stop=5)
        assert extent.keys(MEASURED) == [each.shard.key for each in measured(5)]
        assert extent_named("all-2-5") == extent
        for stem in ("all-0-5", "all-2", "a" * 32, "all-2-5-1", "all-02-5", "all--2-5", "all-2-" + "9" * 10):
            assert extent_named(stem) is None


class TestCompaction:
    def test_everything_reads_as_before_from_one_file_a_measurement(self, tmp_path: Path) -> None:
        records = [*measured(9), *measured(20, measured=OTHER)]
        store = folder_of(tmp_path, records)
        failed = failure_of(header(20, 22))
        store.put(failed)
        before = (everything(store), store.keys(), list(store.manifests()), list(store.failures()))
        found = compact_store(store)
        assert (found.num_packed, found.num_files, found.num_left) == (2, 15, 0)
        assert files_of(store) == ["all-2-20.parquet", "all-2-9.parquet"]
        for each in (store, FolderStore(tmp_path)):
            assert (everything(each), each.keys(), list(each.manifests()), list(each.failures())) == before
            assert all(each.has(record.shard.measurement_key, record.shard.key) for record in records)
            assert not each.has(MEASURED, shard_key(MEASURED, 10, 12))
            assert each.record(records[3].shard) == records[3]
        assert verify_store(store).counts["packs"] == 2

    def test_reports_and_holdings_are_the_same_bytes(self, tmp_path: Path) -> None:
        store = FolderStore(tmp_path)
        fill(store, adv_suite(), {"vit": 0.5, "rpc": 0.3})

        def documents() -> tuple[str, list[object]]:
            report = RENDERERS["json"](report_of_store(adv_suite(), FolderStore(tmp_path)))
            return report, list(holdings_of(adv_suite(), FolderStore(tmp_path)))

        before = documents()
        num_before = len(files_of(store))
        compact_store(store)
        assert len(files_of(store)) < num_before
        assert documents() == before

    def test_a_second_compaction_does_nothing(self, tmp_path: Path) -> None:
        store = folder_of(tmp_path, measured(9))
        compact_store(store)
        before = {path: path.stat().st_mtime_ns for path in (tmp_path / "records").rglob("*")}
        assert compact_store(store).num_packed == 0
        assert {path: path.stat().st_mtime_ns for path in (tmp_path / "records").rglob("*")} == before

    def test_measurements_with_gaps_are_left_alone(self, tmp_path: Path) -> None:
        store = folder_of(tmp_path, [record(0, 2), record(4, 6), *measured(4, measured=OTHER)])
        found = compact_store(store)
        assert (found.num_packed, found.num_left) == (1, 1)
        assert len(files_of(store)) == 3

    def test_what_came_after_a_compaction_joins_the_pack(self, tmp_path: Path) -> None:
        store = folder_of(tmp_path, measured(4))
        compact_store(store)
        for each in measured(8):
            store.put(each)
        assert len(files_of(store)) == 3
        assert everything(store) == measured(8)
        compact_store(store)
        assert files_of(store) == ["all-2-8.parquet"]
        assert everything(store) == measured(8)

    def test_a_packed_shard_measured_again_is_compared(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        store = folder_of(tmp_path, measured(4))
        compact_store(store)
        store.put(record(0, 2))
        store.put(failure_of(header(0, 2)))
        assert caplog.records == []
        store.put(record(0, 2, num_queries=9))
        (warning,) = caplog.records
        assert "gave other outcomes when it was measured again" in warning.getMessage()
        assert files_of(store) == ["all-2-4.parquet"]
        assert list(store.failures()) == []

    def test_those_of_a_damaged_pack_are_measured_again(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        store = folder_of(tmp_path, measured(8))
        compact_store(store)
        (pack,) = (tmp_path / "records").rglob("all-*.parquet")
        pack.write_bytes(pack.read_bytes()[:-9])
        assert len(store.keys()) == 4
        assert everything(store) == []
        assert (store.keys(), store.num_lost > 0) == (set(), True)
        assert "is damaged" in caplog.text
        for each in measured(8):
            store.put(each)
        assert everything(store) == measured(8)

    @pytest.mark.parametrize("name", ["all-2-6.parquet", "all-4-8.parquet"])
    def test_a_renamed_or_moved_pack_counts_for_nothing(self, tmp_path: Path, name: str) -> None:
        logging.getLogger("robench.store").disabled = False
        store = folder_of(tmp_path, [*measured(8), *measured(4, measured=OTHER)])
        compact_store(store)
        (pack,) = (tmp_path / "records").rglob("all-2-8.parquet")
        pack.rename(pack.with_name(name))
        (other,) = (tmp_path / "records" / OTHER).glob("all-*.parquet")
        (tmp_path / "records" / ("c3" * 16)).mkdir()
        other.rename(tmp_path / "records" / ("c3" * 16) / other.name)
        assert list(store.records_of([MEASURED, OTHER, "c3" * 16])) == []

    def test_a_pack_that_a_killed_compaction_left_beside_its_records_changes_nothing(self, tmp_path: Path) -> None:
        records = measured(8)
        store = folder_of(tmp_path, records)
        Paths(tmp_path).pack(MEASURED, Extent(size=2, stop=8)).write_bytes(encode_pack(records))
        assert everything(store) == records
        assert store.outline(MEASURED) == [dataclasses.replace(each, outcomes=each.outcomes[:0]) for each in records]
        compact_store(store)
        assert files_of(store) == ["all-2-8.parquet"]
        assert everything(store) == records

    def test_records_packed_while_read_are_found(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        records = measured(8)
        store = folder_of(tmp_path, records)
        read = record_files.read_whole
        compactions = []

        def read_after_a_compaction(*args: object, **settings: object) -> object:
            if not compactions:
                compactions.append(True)
                compact_store(FolderStore(tmp_path))
            return read(*args, **settings)  # type: ignore[arg-type]

        monkeypatch.setattr(record_files, "read_whole", read_after_a_compaction)
        assert list(store.records_of([MEASURED])) == records
        assert compactions == [True]


class TestMerging:
    def test_a_pack_is_copied_whole_where_the_target_has_nothing_of_it(self, tmp_path: Path) -> None:
        source = folder_of(tmp_path / "a", measured(8))
        compact_store(source)
        target = FolderStore(tmp_path / "b")
        merged = merge_stores(target, [source])
        assert (merged.copied["packs"], merged.copied["records"]) == (1, 0)
        assert everything(target) == measured(8)
        again = merge_stores(target, [source])
        assert (again.copied["packs"], again.copied["records"], again.known["records"]) == (0, 0, 4)

    @pytest.mark.parametrize("packs_target", [False, True])
    def test_of_a_pack_the_target_gets_what_it_lacks(self, tmp_path: Path, packs_target: bool) -> None:
        source, target = folder_of(tmp_path / "a", measured(8)), folder_of(tmp_path / "b", measured(4))
        compact_store(source)
        if packs_target:
            compact_store(target)
        merged = merge_stores(target, [source])
        assert (merged.copied["records"], merged.known["records"], merged.conflicts) == (2, 2, ())
        assert everything(target) == measured(8)

    def test_a_record_of_another_folder_that_contradicts_a_pack_is_a_conflict(self, tmp_path: Path) -> None:
        target = folder_of(tmp_path / "b", measured(4))
        compact_store(target)
        source = folder_of(tmp_path / "a", [record(0, 2, num_queries=9)])
        merged = merge_stores(target, [source])
        assert merged.conflicts == (header(0, 2).title,)
        assert everything(target) == measured(4)


def examples_in(records: Sequence[Record]) -> list[int]:
    return [place for each in records for place in range(each.shard.start, each.shard.stop)]


class TestOutlines:
    @pytest.mark.parametrize("num_examples", [1, 2 * MOST_OPENED, 101])
    def test_examples_are_known_without_opening_their_files(self, tmp_path: Path, num_examples: int) -> None:
        store = folder_of(tmp_path, measured(num_examples))
        outline = store.outline(MEASURED)
        assert examples_in(outline) == list(range(num_examples))
        assert all(len(each.outcomes) == 0 for each in outline)
        assert len(outline) <= 2 * MOST_OPENED + 2

    def test_gaps_are_seen(self, tmp_path: Path) -> None:
        records = [each for each in measured(60) if each.shard.start not in (0, 40, 42, 58)]
        outline = folder_of(tmp_path, records).outline(MEASURED)
        assert examples_in(outline) == examples_in(records)

    def test_few_files_are_opened_of_many(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        read, opened = record_files.read_whole, []

        def watched(path: Path, *args: object, **settings: object) -> object:
            opened.append(path)
            return read(path, *args, **settings)  # type: ignore[arg-type]

        monkeypatch.setattr(record_files, "read_whole", watched)
        counts = []
        for number, num_examples in enumerate((100, 159)):
            store = folder_of(tmp_path / str(number), measured(num_examples))
            opened.clear()
            assert len(examples_in(store.outline(MEASURED))) == num_examples
            counts.append(len(opened))
        # The last shard of 159 examples is smaller than the others.
        assert counts == [MOST_OPENED, MOST_OPENED + 1]

    def test_seconds_are_the_mean_of_the_opened_ones(self, tmp_path: Path) -> None:
        records = measured(60)
        store = folder_of(tmp_path, records)
        described = store.outline(MEASURED)
        exact = sum(each.provenance.seconds for each in records)
        assert sum(each.provenance.seconds for each in described) == pytest.approx(exact, rel=0.5)
        few = folder_of(tmp_path / "few", measured(2 * MOST_OPENED)).outline(MEASURED)
        assert [each.provenance for each in few] == [each.provenance for each in measured(2 * MOST_OPENED)]

    def test_shards_of_other_sizes_and_foreign_keys_are_opened(self, tmp_path: Path) -> None:
        records = [*measured(100), record(100, 107), record(200, 303)]
        store = folder_of(tmp_path, records)
        assert examples_in(store.outline(MEASURED)) == examples_in(records)

    def test_a_damaged_file_counts_until_it_is_opened(self, tmp_path: Path) -> None:
        store = folder_of(tmp_path, measured(100))
        for path in sorted((tmp_path / "records").rglob("*.parquet"))[1:3]:
            path.write_bytes(b"")
        assert len(examples_in(store.outline(MEASURED))) >= 96

    def test_rivals_are_read_exactly(self, tmp_path: Path) -> None:
        """Of two sets of weights a report uses those measured last, so that times must not be estimates."""
        store = folder_of(tmp_path, measured(40))
        old = [
            dataclasses.replace(each, shard=dataclasses.replace(each.shard, weights_digest="0" * 64))
            for each in measured(40, measured=OTHER)
        ]
        for each in old:
            store.put(each)
        listing = Listing(store)
        for key, records in ((MEASURED, measured(40)), (OTHER, old)):
            assert [each.provenance for each in listing.outline(key)] == [each.provenance for each in records]

    def test_what_is_exported_is_never_an_estimate(self, tmp_path: Path) -> None:
        store = folder_of(tmp_path, measured(40))
        described = [(each.shard, each.provenance) for each in Listing(store).described(MEASURED)]
        assert described == [(each.shard, each.provenance) for each in measured(40)]


@cache
def whole() -> MemoryStore:
    kept = MemoryStore()
    fill(kept, adv_suite(), {"vit": 0.5, "rpc": 0.3})
    fill(kept, shift_suite(), {"vit": 0.5})
    return kept


def records() -> list[Record]:
    return list(whole().records(lambda shard: True))


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def report(store: FolderStore | MemoryStore) -> str:
    return RENDERERS["json"](report_of_store(adv_suite(), store))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three machines' folders, each with a third of the shards and some of a neighbour's."""
    everything, folder = records(), tmp_path_factory.mktemp("built")
    for n in range(3):
        folder_of(folder / str(n), everything[n::3] + everything[n : n + 4])
    return folder


@pytest.fixture
def parts(built: Path, tmp_path: Path) -> list[FolderStore]:
    return [FolderStore(shutil.copytree(built / str(n), tmp_path / str(n))) for n in range(3)]


def test_parts_of_several_machines_give_the_whole(parts: list[FolderStore], tmp_path: Path) -> None:
    target = FolderStore(tmp_path / "all")
    merged = merge_stores(target, parts)
    assert target.keys() == whole().keys()
    assert merged.copied["records"] == len(target.keys())
    assert (merged.conflicts, merged.damaged) == ((), ())
    assert report(target) == report(whole())
    # Bytes are those of the parts.
    of_parts: dict[str, bytes] = {}
    for part in parts:
        of_parts = files(part.path) | of_parts
    assert {name: content for name, content in files(target.path).items() if name.endswith(".parquet")} == {
        name: content for name, content in of_parts.items() if name.endswith(".parquet")
    }


@pytest.mark.parametrize("other", ["compact", "gc"])
def test_files_that_move_meanwhile_are_not_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    listed, found = upkeep._listed, [record_of(HEADER), record_of(NEXT_HEADER)]
    moved = HEADER.measurement_key
    keys = {record.shard.key for record in found if other == "compact"}

    def overtaken(kind: str, folder: Path) -> list[Path]:
        paths = listed(kind, folder)
        if kind == RECORDS and folder.name == moved:
            monkeypatch.setattr(upkeep, "_listed", listed)
            store = FolderStore(folder.parent.parent)
            compact_store(store) if other == "compact" else move_aside(store, [moved])
        return paths

    monkeypatch.setattr(upkeep, "_listed", overtaken)
    target = FolderStore(tmp_path / "all")
    assert merge_stores(target, [folder_of(tmp_path / "part", found)]).damaged == ()
    assert target.keys() == keys
    monkeypatch.setattr(upkeep, "_listed", overtaken)
    assert verify_store(folder_of(tmp_path / "again", found)).damaged == ()


def test_measurements_moved_aside_at_once_take_the_next_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = folder_of(tmp_path / "part", records())
    key = records()[0].shard.measurement_key
    exists = type(tmp_path).exists

    def taken_since(path: Path) -> bool:
        found = exists(path)
        if path == store.path / "unused" / "records" / key and not found:
            (path / "by another").mkdir(parents=True)
        return found

    monkeypatch.setattr(type(tmp_path), "exists", taken_since)
    assert [path.name for path in move_aside(store, [key])] == [f"{key}-1"]


def test_a_merged_record_takes_the_place_of_the_failure_of_its_shard(tmp_path: Path) -> None:
    first, second = records()[:2]
    target = FolderStore(tmp_path / "all")
    for record in (first, second):
        target.put(failure_of(record.shard))
    merge_stores(target, [folder_of(tmp_path / "part", [first])])
    assert {failure.shard for failure in target.failures()} == {second.shard}
    assert not list((tmp_path / "all").rglob(f"*{first.shard.key}*.json"))


def test_merging_again_copies_nothing(parts: list[FolderStore], tmp_path: Path) -> None:
    target = FolderStore(tmp_path / "all")
    merge_stores(target, parts)
    before = files(target.path)
    again = merge_stores(target, parts)
    assert set(again.copied.values()) == {0}
    assert files(target.path) == before


def test_other_outcomes_of_a_shard_are_a_conflict_and_the_first_stay(tmp_path: Path) -> None:
    first, *_ = records()
    turned = replace(first, outcomes=_turned(first))
    one, two = folder_of(tmp_path / "one", [first]), folder_of(tmp_path / "two", [turned])
    target = FolderStore(tmp_path / "all")
    merged = merge_stores(target, [one, two])
    assert merged.conflicts == (first.shard.title,)
    (kept,) = target.records(lambda shard: True)
    assert kept == first
    assert merge_stores(FolderStore(tmp_path / "swapped"), [two, one]).conflicts == (first.shard.title,)


def _turned(record: Record) -> Outcomes:
    is_right, target = ~record.outcomes.column("correct_top1"), record.outcomes.column("target")
    turned = {"correct_top1": Values(is_right), "prediction": Values(np.where(is_right, target, target + 1))}
    return record.outcomes.replaced(**turned, correct_top5=None, confidence=None, loss_nats=None)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_failure_is_copied_only_where_no_folder_has_a_record(tmp_path: Path, order: tuple[int, int]) -> None:
    first, second, *_ = records()
    failing = FolderStore(tmp_path / "failing")
    failing.put(failure_of(first.shard))
    failing.put(failure_of(second.shard))
    sources = [failing, folder_of(tmp_path / "sound", [first])]
    target = FolderStore(tmp_path / "all")
    merged = merge_stores(target, [sources[place] for place in order])
    assert [each.shard.key for each in target.failures()] == [second.shard.key]
    assert merged.copied["failures"] == 1


def test_adversarial_examples_are_copied_too(tmp_path: Path) -> None:
    first, *_ = records()
    source = folder_of(tmp_path / "one", [first])
    points = np.zeros((len(first.outcomes), 3, 2, 2), np.float32)
    examples = AdversarialExamples(
        shard=first.shard, ids=tuple(first.outcomes.ids.tolist()), points={"inputs": points}, found={}
    )
    source.adversarial.put(examples)
    target = FolderStore(tmp_path / "all")
    assert merge_stores(target, [source]).copied["adversarial"] == 1
    assert target.adversarial.keys() == {first.shard.key}
    assert verify_store(target).counts["adversarial"] == 1


def test_damaged_files_are_found_set_aside_and_not_copied(parts: list[FolderStore], tmp_path: Path) -> None:
    path = next(parts[0].path.rglob("*.parquet"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    target = FolderStore(tmp_path / "all")
    merged = merge_stores(target, parts[:1])
    assert merged.damaged == (path,)
    assert not path.exists()
    copied = target.keys()
    assert path.stem not in copied
    assert verify_store(parts[0]).damaged == ()


@pytest.mark.parametrize("suffix", [".parquet", "_manifest.json"])
def test_every_flipped_byte_is_found(tmp_path: Path, suffix: str) -> None:
    first, *_ = records()
    store = folder_of(tmp_path / "r", [first])
    (path,) = [each for each in store.path.rglob("*") if each.name.endswith(suffix)]
    sound = path.read_bytes()
    for place in range(0, len(sound), max(1, len(sound) // 40)):
        broken = bytearray(sound)
        broken[place] ^= 0x10
        path.write_bytes(broken)
        assert verify_store(store).damaged == (path,)
        path.write_bytes(sound)
    assert verify_store(store).damaged == ()


def test_a_sound_folder_is_counted(parts: list[FolderStore]) -> None:
    found = verify_store(parts[0])
    assert found.counts["records"] == len(parts[0].keys())
    assert found.counts["manifests"] == len(list(parts[0].manifests()))
    assert set(found.counts) == set(KINDS)


def test_a_folder_is_not_merged_into_itself_and_must_exist(parts: list[FolderStore], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="into itself"):
        merge_stores(parts[0], [FolderStore(parts[0].path)])
    with pytest.raises(UsageError, match="there is no results folder"):
        merge_stores(parts[0], [FolderStore(tmp_path / "nowhere")])
    assert not (tmp_path / "nowhere").exists()


def test_a_manifest_of_another_measurement_hides_nothing(parts: list[FolderStore]) -> None:
    store = parts[0]
    wanted = list(store.manifests())
    first, second, *_ = [store.paths.manifest(each.shard.measurement_key) for each in wanted]
    first.write_bytes(second.read_bytes())
    assert [each.shard.measurement_key for each in store.manifests()] == [each.shard.measurement_key for each in wanted]
    assert not first.exists()
    first.write_bytes(second.read_bytes())
    assert verify_store(store).damaged == (first,)
    assert report(store) == report(folder_of(store.path.parent / "again", list(store.records(lambda shard: True))))
