"""Store of runs that keep adversarial examples: a shard is done once record and examples exist."""

from dataclasses import dataclass

from robench.core.errors import UsageError
from robench.core.protocols import Claims, Store
from robench.core.records import Failure, Record
from robench.store import AdversarialFolder, FolderStore


@dataclass(frozen=True, slots=True, kw_only=True)
class WithExamples:
    """Results (``scheduling.measure.Results``) without the records whose requested adversarial examples are missing.

    Attributes:
        wanted: keys of the shards whose examples must be in ``folder``.
    """

    store: Store
    folder: AdversarialFolder
    wanted: frozenset[str]

    def keys(self) -> set[str]:
        """Return the keys of all shards that have a complete record and, if requested, their examples."""
        return self.store.keys() - (self.wanted - self.folder.keys())

    def has(self, measurement_key: str, key: str) -> bool:
        """Return whether a shard has a record and, if requested, its examples."""
        has_examples = key not in self.wanted or self.folder.has(measurement_key, key)
        return has_examples and self.store.has(measurement_key, key)

    def claims(self) -> Claims:
        """Return claims on shards, which are done once their examples exist too."""
        return self.store.claims(self.has)

    def put(self, result: Record | Failure) -> None:
        """Store a result; for a shard measured again only for its examples, the first record stays."""
        self.store.put(result)


def folder_of(store: Store | None) -> AdversarialFolder:
    """Return the folder of a store's adversarial examples. Raises UsageError: it has none."""
    if not isinstance(store, FolderStore):
        raise UsageError("adversarial examples are kept in a results folder; give a FolderStore")
    return store.adversarial
