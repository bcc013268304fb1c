"""Stores of measured shards: a folder of immutable files, or memory."""

from robench.store.adversarial import AdversarialExamples, AdversarialFolder
from robench.store.folder import FolderStore
from robench.store.memory import MemoryStore

__all__ = ["AdversarialExamples", "AdversarialFolder", "FolderStore", "MemoryStore"]
