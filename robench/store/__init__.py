"""Where measured shards are kept: a folder of immutable files, or memory."""

from __future__ import annotations

from robench.store.folder import FolderStore
from robench.store.memory import MemoryStore

__all__ = ["FolderStore", "MemoryStore"]
