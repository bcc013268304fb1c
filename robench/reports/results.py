"""Results for building reports: given as values, or read from a store one model at a time."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from robench.core.checkpoint import is_rehearsal
from robench.core.protocols import Store
from robench.core.records import Failure, Manifest, Record
from robench.core.shard import EXACT_DTYPE, DatasetIdentity, ShardHeader
from robench.core.suite import Suite
from robench.evaluation.actions import audits_of
from robench.reports.selection import needs, source_of_shard


class Given:
    """Results in memory.

    Attribute ``sizes`` has the number of examples by dataset, as last measured.

    Args:
        measurements: keys of the measurements to use, by model; None uses the names of the records.
    """

    def __init__(
        self,
        suite: Suite,
        results: Sequence[Record | Failure],
        measurements: Mapping[str, Collection[str]] | None,
        seed: int,
        precision: str = EXACT_DTYPE,
    ) -> None:
        is_needed = needs(suite, seed=seed, precision=precision)
        self.sizes: Mapping[str, int] = _sizes(results)
        self._by_model: dict[str, list[Record | Failure]] = {name: [] for name in measurements or ()}
        for result in (each for each in results if is_needed(each.shard)):
            for name in _names(result, measurements):
                self._by_model.setdefault(name, []).append(result)

    def models(self) -> Sequence[str]:
        """Return the names of all models with results, sorted."""
        return sorted(self._by_model)

    def of(self, model: str) -> list[Record | Failure]:
        """Return the results of one model."""
        return self._by_model.get(model, [])


class Listing:
    """Manifests, failures and headers of records of a store, each read once however many suites are looked up."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.manifests = tuple(store.manifests())
        self.failures = tuple(store.failures())
        self._rivals = _rivals(each.shard for each in self.manifests)
        self._described: dict[str, list[Record]] = {}
        self._outlines: dict[str, list[Record]] = {}

    def described(self, measurement_key: str) -> list[Record]:
        """Return the records of a measurement without their outcomes; all files are read."""
        if measurement_key not in self._described:
            records = self.store.records_of([measurement_key])
            self._described[measurement_key] = [replace(each, outcomes=each.outcomes[:0]) for each in records]
        return self._described[measurement_key]

    def outline(self, measurement_key: str) -> list[Record]:
        """Return records without outcomes that cover what is stored of a measurement (``Store.outline``).

        Provenance may be an estimate, but not where times decide: between measurements whose latest a report uses.
        """
        if measurement_key in self._rivals:
            return self.described(measurement_key)
        if measurement_key not in self._outlines:
            self._outlines[measurement_key] = self.store.outline(measurement_key)
        return self._outlines[measurement_key]


class Stored:
    """Results in a store; outcomes are read for one model at a time.

    Arguments are those of ``Given``; a listing in place of the store saves reading what other suites have read.
    """

    def __init__(
        self,
        suite: Suite,
        store: Store | Listing,
        measurements: Mapping[str, Collection[str]] | None,
        seed: int,
        precision: str = EXACT_DTYPE,
    ) -> None:
        is_needed = needs(suite, seed=seed, precision=precision)
        self._listing = store if isinstance(store, Listing) else Listing(store)
        self._listing.store.expect([*suite.conditions, *audits_of(suite)])
        manifests, failures = self._listing.manifests, self._listing.failures
        self.sizes: Mapping[str, int] = _sizes([*manifests, *failures])
        self._keys: dict[str, list[str]] = {name: [] for name in measurements or ()}
        self._datasets = {each.shard.measurement_key: each.shard.dataset for each in manifests}
        for manifest in (each for each in manifests if is_needed(each.shard)):
            for name in _names(manifest, measurements):
                self._keys.setdefault(name, []).append(manifest.shard.measurement_key)
        self._failures: dict[str, list[Failure]] = {}
        for failure in (each for each in failures if is_needed(each.shard)):
            for name in _names(failure, measurements):
                self._failures.setdefault(name, []).append(failure)

    def models(self) -> Sequence[str]:
        """Return the names of all models with results, sorted."""
        return sorted({*self._keys, *self._failures})

    def of(self, model: str) -> list[Record | Failure]:
        """Read and return the results of one model; a measurement is of the dataset named in its first record."""
        records = self._listing.store.records_of(self._keys.get(model, []))
        named = (_under(self._datasets[record.shard.measurement_key], record) for record in records)
        return [*named, *self._failures.get(model, [])]

    def described(self, model: str) -> list[Record | Failure]:
        """Return the results of one model, records without outcomes; outcomes of one measurement at a time are read."""
        records = (record for key in self._keys.get(model, []) for record in self._listing.described(key))
        return [*records, *self._failures.get(model, [])]

    def outline(self, model: str) -> list[Record | Failure]:
        """Return failures of one model, and records without outcomes that cover its results (``Listing.outline``)."""
        records = (record for key in self._keys.get(model, []) for record in self._listing.outline(key))
        return [*records, *self._failures.get(model, [])]


# Results of a suite by model.
Results = Given | Stored


def _rivals(shards: Iterable[ShardHeader]) -> frozenset[str]:
    """Return the measurements of models with several weights, states of a dataset, or identities of a condition."""
    by_model: dict[str, list[ShardHeader]] = {}
    for shard in shards:
        by_model.setdefault(shard.checkpoint, []).append(shard)
    rivals: set[str] = set()
    for found in by_model.values():
        weights = {shard.weights_digest for shard in found}
        data = {(shard.dataset.name, shard.dataset.fingerprint) for shard in found}
        sources = {(*source_of_shard(shard), shard.batch_size, shard.seed, shard.dtype) for shard in found}
        if len(weights) > 1 or len(data) > len({name for name, _ in data}) or len(found) > len(sources):
            rivals |= {shard.measurement_key for shard in found}
    return frozenset(rivals)


def _names(result: Record | Failure | Manifest, measurements: Mapping[str, Collection[str]] | None) -> list[str]:
    if measurements is None:
        # Rehearsals are in no table but that of their own run.
        return [] if is_rehearsal(result.shard.checkpoint) else [result.shard.checkpoint]
    return [model for model, keys in measurements.items() if result.shard.measurement_key in keys]


def _under(dataset: DatasetIdentity, record: Record) -> Record:
    """Return a record under the name that its measurement has for its dataset: the same data may have several."""
    if record.shard.dataset.name == dataset.name:
        return record
    return replace(record, shard=replace(record.shard, dataset=dataset))


def _sizes(results: Iterable[Record | Failure | Manifest]) -> dict[str, int]:
    in_time = sorted(results, key=lambda result: (result.provenance.finished_at, result.shard.dataset.num_examples))
    return {result.shard.dataset.name: result.shard.dataset.num_examples for result in in_time}
