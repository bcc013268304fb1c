"""Store in memory, for the Python API and for tests."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

from robench.core.records import Failure, Manifest, Record
from robench.core.shard import Measurement, ShardHeader
from robench.core.suite import Condition
from robench.store.damaged import warn_if_other_outcomes
from robench.store.envelope import encode_failure
from robench.store.leases import Unshared
from robench.store.parquet import encode_record


class MemoryStore:
    """Store of results in memory (``core.protocols.Store``); not for several processes."""

    def __init__(self) -> None:
        self.num_lost = 0
        self._records: dict[str, Record] = {}
        self._failures: dict[str, Failure] = {}

    def keys(self) -> set[str]:
        """Return the keys of all shards that have a record."""
        return set(self._records)

    def has(self, measurement_key: str, key: str) -> bool:
        """Return whether a shard has a record."""
        return key in self._records

    def claims(self, has: Callable[[str, str], bool] | None = None) -> Unshared:
        """Return claims that all succeed: no other run has this store."""
        return Unshared()

    def put(self, result: Record | Failure) -> None:
        """Store a result: the first record of a shard, which replaces its failure, or its latest failure."""
        key = result.shard.key
        if isinstance(result, Failure):
            encode_failure(result)
            if key not in self._records:
                self._failures[key] = result
            return
        encode_record(result)
        kept = self._records.setdefault(key, result)
        if kept is not result:
            warn_if_other_outcomes(kept, result)
        self._failures.pop(key, None)

    def expect(self, conditions: Iterable[Condition], measurements: Iterable[Measurement] = ()) -> None:
        """Expect nothing: records in memory never left the process."""

    def records(self, select: Callable[[ShardHeader], bool]) -> Iterator[Record]:
        """Yield all records of the measurements that ``select`` accepts, by measurement and start."""
        return self.records_of([each.shard.measurement_key for each in self.manifests() if select(each.shard)])

    def records_of(self, measurement_keys: Collection[str]) -> Iterator[Record]:
        """Yield all records of some measurements, by measurement key and start."""
        wanted = set(measurement_keys)
        return iter(sorted((each for each in self._records.values() if _place(each)[0] in wanted), key=_place))

    def outline(self, measurement_key: str) -> list[Record]:
        """Return the records of a measurement without outcomes, by start."""
        return [replace(each, outcomes=each.outcomes[:0]) for each in self.records_of([measurement_key])]

    def manifests(self, measurement_keys: Collection[str] | None = None) -> Iterator[Manifest]:
        """Yield the manifest of every measurement, or those of some keys, that has a record, by key."""
        first: dict[str, Record] = {}
        for record in self._records.values():
            if measurement_keys is None or record.shard.measurement_key in measurement_keys:
                first.setdefault(record.shard.measurement_key, record)
        return iter([Manifest(shard=first[key].shard, provenance=first[key].provenance) for key in sorted(first)])

    def failures(self) -> Iterator[Failure]:
        """Return all failures of shards that have no record, by key."""
        return iter([self._failures[key] for key in sorted(self._failures)])


def _place(record: Record) -> tuple[str, int, int]:
    return record.shard.measurement_key, record.shard.start, record.shard.stop
