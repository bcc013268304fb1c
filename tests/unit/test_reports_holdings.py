"""Measurements that a store has: read once for any number of suites, and moved aside whole if nothing needs them."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from leaderboard_examples import adv_suite, fill, shift_suite

from examples import CHECKPOINT, failure_of, header_of
from robench.core.checkpoint import Checkpoint
from robench.core.records import Failure, Manifest, Record
from robench.reports import holdings_of
from robench.reports.holdings import unused_in
from robench.reports.results import Listing
from robench.store import FolderStore, MemoryStore
from robench.store.upkeep import UNUSED, move_aside


class Counting(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.listed = 0
        self.read: Counter[str] = Counter()

    def manifests(self, measurement_keys: Collection[str] | None = None) -> Iterator[Manifest]:
        self.listed += 1
        return super().manifests(measurement_keys)

    def failures(self) -> Iterator[Failure]:
        self.listed += 1
        return super().failures()

    def records_of(self, measurement_keys: Collection[str]) -> Iterator[Record]:
        self.read.update(measurement_keys)
        return super().records_of(measurement_keys)


@pytest.fixture
def counting() -> Counting:
    kept = Counting()
    fill(kept, adv_suite(), {"vit": 0.5, "rpc": 0.3}, half=["rpc"])
    fill(kept, shift_suite(), {"vit": 0.5})
    return kept


def test_several_suites_read_each_file_once(counting: Counting) -> None:
    suites = [adv_suite(), adv_suite(name="again"), shift_suite()]
    listing = Listing(counting)
    holdings = [each for suite in suites for each in holdings_of(suite, listing)]
    assert counting.listed == 2
    assert set(counting.read.values()) == {1}
    # With the store itself, everything is read for each suite.
    assert holdings == [each for suite in suites for each in holdings_of(suite, counting)]
    assert counting.listed == 2 + 2 * len(suites)
    assert max(counting.read.values()) > 2


def test_records_of_a_listing_have_no_outcomes(counting: Counting) -> None:
    listing = Listing(counting)
    keys = {manifest.shard.measurement_key for manifest in listing.manifests}
    records = [record for key in keys for record in listing.described(key)]
    assert records
    assert all(len(record.outcomes) == 0 for record in records)
    assert {record.shard.key for record in records} == counting.keys()


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    kept = FolderStore(tmp_path / "r")
    fill(kept, adv_suite(), {"vit": 0.5, "rpc": 0.3})
    fill(kept, shift_suite(), {"vit": 0.5})
    return kept


def entry(store: FolderStore, name: str, sha256: str | None = None) -> Checkpoint:
    digests = {each.shard.checkpoint: each.shard.weights_digest for each in store.manifests()}
    weights = replace(CHECKPOINT.weights, sha256=digests[name] if sha256 is None else sha256)
    return replace(CHECKPOINT, name=name, weights=weights)


def registry(store: FolderStore, *names: str) -> dict[str, Checkpoint]:
    return {name: entry(store, name) for name in names}


def test_what_suites_and_registries_have_is_needed(store: FolderStore) -> None:
    suites = [adv_suite(), shift_suite()]
    assert unused_in(Listing(store), suites, registry(store, "vit", "rpc")) == []


def test_conditions_of_no_suite_and_other_seeds_are_not(store: FolderStore) -> None:
    listing = Listing(store)
    of_shift = unused_in(listing, [adv_suite()], registry(store, "vit", "rpc"))
    assert {each.model for each in of_shift} == {"vit"}
    # Clean examples are those of the other suite.
    assert len(of_shift) == len(shift_suite().conditions) - 1
    assert {each.reason for each in of_shift} == {"no suite has the condition (seed 0)"}
    everything = unused_in(listing, [adv_suite(seed=1), shift_suite(seed=1)], registry(store, "vit", "rpc"))
    assert len(everything) == len(listing.manifests)


def test_a_model_without_entry_or_with_other_weights_is_not(store: FolderStore) -> None:
    suites, listing = [adv_suite(), shift_suite()], Listing(store)
    gone = unused_in(listing, suites, {})
    assert {each.reason for each in gone} == {"no registry names the model"}
    assert len(gone) == len(listing.manifests)
    other = unused_in(listing, suites, registry(store, "vit") | {"rpc": entry(store, "rpc", "0" * 64)})
    reasons = {each.model: each.reason for each in other}
    assert reasons.get("rpc") == "the registry has other weights of the model"
    assert "vit" not in reasons


def test_a_renamed_model_with_the_same_weights_is_needed(store: FolderStore) -> None:
    renamed = {"new-name": replace(entry(store, "vit"), name="new-name")}
    found = unused_in(Listing(store), [adv_suite(), shift_suite()], renamed | registry(store, "rpc"))
    assert [each for each in found if each.model == "vit"] == []


def test_unpublished_weights_of_any_digest_are_needed(store: FolderStore) -> None:
    unpublished = replace(CHECKPOINT, name="rpc", weights=replace(CHECKPOINT.weights, sha256=None))
    found = unused_in(Listing(store), [adv_suite(), shift_suite()], registry(store, "vit") | {"rpc": unpublished})
    assert found == []


def test_failures_alone_are_listed_too(store: FolderStore) -> None:
    header = header_of("d" * 32, 0, 20, checkpoint="lost", weights_digest="e" * 64)
    store.put(failure_of(header))
    (found,) = unused_in(Listing(store), [adv_suite(), shift_suite()], registry(store, "vit", "rpc"))
    assert (found.model, found.key) == ("lost", "d" * 32)


def test_folders_move_whole_and_come_back_by_hand(store: FolderStore) -> None:
    keys = [each.shard.measurement_key for each in store.manifests()][:2]
    before = store.keys()
    held = {path.name: path.read_bytes() for key in keys for path in (store.path / "records" / key).iterdir()}
    moved = move_aside(store, keys)
    assert moved == [store.path / UNUSED / "records" / key for key in keys]
    assert {path.name: path.read_bytes() for folder in moved for path in folder.iterdir()} == held
    assert {each.shard.measurement_key for each in store.manifests()}.isdisjoint(keys)
    for folder in moved:
        folder.rename(store.path / "records" / folder.name)
    assert store.keys() == before


def test_measured_and_moved_aside_again_is_kept_beside_the_first(store: FolderStore) -> None:
    manifest = next(store.manifests())
    (record, *_) = store.records_of([manifest.shard.measurement_key])
    (first,) = move_aside(store, [manifest.shard.measurement_key])
    store.put(record)
    (second,) = move_aside(store, [manifest.shard.measurement_key])
    assert second.name == f"{first.name}-1"
    assert first.is_dir()


def test_unknown_measurements_move_nothing(store: FolderStore) -> None:
    assert move_aside(store, ["f" * 32]) == []
    assert not (store.path / UNUSED / "records" / ("f" * 32)).exists()
