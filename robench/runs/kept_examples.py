"""A shard that is to leave its adversarial examples is done once its record and its examples are both kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from robench.core.errors import UsageError
from robench.store import FolderStore

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from robench.core.protocols import Store
    from robench.core.records import Failure, Manifest, Record
    from robench.core.shard import ShardHeader
    from robench.store import AdversarialFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class WithExamples:
    """A store (``core.protocols.Store``) that passes over records whose wanted adversarial examples are missing.

    Attributes:
        wanted: keys of the shards that are to leave their examples in ``folder``.
    """

    store: Store
    folder: AdversarialFolder
    wanted: frozenset[str]

    def keys(self) -> set[str]:
        """Keys of all shards that have a whole record and, where they are wanted, their examples."""
        return self.store.keys() - (self.wanted - self.folder.keys())

    def put(self, result: Record | Failure) -> None:
        """Keep a result; of a shard that was measured again only for its examples, the first record stays."""
        self.store.put(result)

    def records(self, select: Callable[[ShardHeader], bool]) -> Iterator[Record]:
        """All records of the store."""
        return self.store.records(select)

    def records_of(self, measurement_keys: Collection[str]) -> Iterator[Record]:
        """All records of some measurements."""
        return self.store.records_of(measurement_keys)

    def manifests(self) -> Iterator[Manifest]:
        """The description of every kept measurement."""
        return self.store.manifests()

    def failures(self) -> Iterator[Failure]:
        """All failures of the store."""
        return self.store.failures()


def folder_of(store: Store | None) -> AdversarialFolder:
    """Return where a store's adversarial examples are.

    Raises:
        UsageError: it has no place for them.
    """
    if not isinstance(store, FolderStore):
        raise UsageError("adversarial examples are kept in a results folder; give a FolderStore")
    return store.adversarial
