"""Listings of a store: manifests, failures and headers of records are read once for any number of suites."""

from collections import Counter
from collections.abc import Collection, Iterator

import pytest
from leaderboard_examples import adv_suite, fill, shift_suite

from robench.core.records import Failure, Manifest, Record
from robench.reports import Listing, holdings_of
from robench.store import MemoryStore


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
def store() -> Counting:
    kept = Counting()
    fill(kept, adv_suite(), {"vit": 0.5, "rpc": 0.3}, half=["rpc"])
    fill(kept, shift_suite(), {"vit": 0.5})
    return kept


def test_several_suites_read_each_file_once(store: Counting) -> None:
    suites = [adv_suite(), adv_suite(name="again"), shift_suite()]
    listing = Listing(store)
    holdings = [each for suite in suites for each in holdings_of(suite, listing)]
    assert store.listed == 2
    assert set(store.read.values()) == {1}
    # With the store itself, everything is read for each suite.
    assert holdings == [each for suite in suites for each in holdings_of(suite, store)]
    assert store.listed == 2 + 2 * len(suites)
    assert max(store.read.values()) > 2


def test_records_of_a_listing_have_no_outcomes(store: Counting) -> None:
    listing = Listing(store)
    keys = {manifest.shard.measurement_key for manifest in listing.manifests}
    records = [record for key in keys for record in listing.described(key)]
    assert records
    assert all(len(record.outcomes) == 0 for record in records)
    assert {record.shard.key for record in records} == store.keys()
