"""Verification of results folders, and merging of several: bytes, conflicts, failures and damage."""

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from leaderboard_examples import adv_suite, fill, shift_suite

from examples import HEADER, NEXT_HEADER, failure_of, record_of
from robench.core.columns import Outcomes, Values
from robench.core.errors import UsageError
from robench.core.records import Record
from robench.reports import RENDERERS, report_of_store
from robench.store import AdversarialExamples, FolderStore, MemoryStore, upkeep
from robench.store.upkeep import KINDS, RECORDS, compact_store, merge_stores, move_aside, verify_store


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


def folder_of(path: Path, results: list[Record]) -> FolderStore:
    store = FolderStore(path)
    for record in results:
        store.put(record)
    return store


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
