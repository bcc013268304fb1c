"""Store wrapper for runs that keep adversarial examples: a shard is done once record and examples exist."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from robench.core.errors import UsageError
from robench.core.protocols import Claims, Store
from robench.core.records import Failure, Manifest, Record
from robench.core.shard import ShardHeader
from robench.store import AdversarialFolder, FolderStore


@dataclass(frozen=True, slots=True, kw_only=True)
class WithExamples:
    """Store (``core.protocols.Store``) that hides records whose requested adversarial examples are missing.

    Attributes:
        wanted: keys of the shards whose examples must be in ``folder``.
    """

    store: Store
    folder: AdversarialFolder
    wanted: frozenset[str]

    def keys(self) -> set[str]:
        """Return the keys of all shards that have a complete record and, if requested, their examples."""
        return self.store.keys() - (self.wanted - self.folder.keys())

    @property
    def num_lost(self) -> int:
        """Return the number of results of the store that turned out damaged or gone."""
        return self.store.num_lost

    def has(self, measurement_key: str, key: str) -> bool:
        """Return whether a shard has a record and, if requested, its examples."""
        has_examples = key not in self.wanted or self.folder.has(measurement_key, key)
        return has_examples and self.store.has(measurement_key, key)

    def claims(self, has: Callable[[str, str], bool] | None = None) -> Claims:
        """Return claims on shards, which are done once their examples exist too."""
        return self.store.claims(has or self.has)

    def put(self, result: Record | Failure) -> None:
        """Store a result; for a shard measured again only for its examples, the first record stays."""
        self.store.put(result)

    def records(self, select: Callable[[ShardHeader], bool]) -> Iterator[Record]:
        """Yield all records of the store."""
        return self.store.records(select)

    def records_of(self, measurement_keys: Collection[str]) -> Iterator[Record]:
        """Yield all records of some measurements."""
        return self.store.records_of(measurement_keys)

    def outline(self, measurement_key: str) -> list[Record]:
        """Return records without outcomes that cover what is stored of a measurement."""
        return self.store.outline(measurement_key)

    def manifests(self, measurement_keys: Collection[str] | None = None) -> Iterator[Manifest]:
        """Yield the manifest of every stored measurement, or of those of some keys."""
        return self.store.manifests(measurement_keys)

    def failures(self) -> Iterator[Failure]:
        """Return all failures of the store."""
        return self.store.failures()


def folder_of(store: Store | None) -> AdversarialFolder:
    """Return the folder of a store's adversarial examples. Raises UsageError: it has none."""
    if not isinstance(store, FolderStore):
        raise UsageError("adversarial examples are kept in a results folder; give a FolderStore")
    return store.adversarial
