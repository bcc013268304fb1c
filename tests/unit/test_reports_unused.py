"""Measurements that nothing needs any more: which they are, why, and that they are moved aside whole."""

from dataclasses import replace
from pathlib import Path

import pytest
from leaderboard_examples import adv_suite, fill, shift_suite

from examples import CHECKPOINT, failure_of, header_of
from robench.core.checkpoint import Checkpoint
from robench.reports import Listing, unused_in
from robench.store import FolderStore
from robench.store.upkeep import UNUSED, move_aside


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
