"""Per-example random seeds.

Every draw is a function of (root seed, dataset fingerprint, kind of perturbation, example id, stream) and of nothing
else: not of the worker, the batch, the shard, the checkpoint, the condition's name or budget, or the number of examples
requested. So resharding changes no number, budgets share their noise, five restarts are a prefix of ten, and every
checkpoint receives the same draws (common random numbers, which sharpen paired comparisons).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import overload


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Identifier of one of an example's independent sequences of draws."""

    purpose: str
    restart: int = 0
    step: int = 0
    query: int = 0
    draw: int = 0


class LazySeeds(Sequence[int]):
    """Seeds computed on first access: code that draws nothing does not pay for them.

    Attributes:
        were_read: whether any seed was read; if unread, no result depends on them.
    """

    def __init__(self, make: Callable[[], Sequence[int]], size: int) -> None:
        self._make, self._size = make, size
        self._made: tuple[int, ...] | None = None

    @property
    def were_read(self) -> bool:
        """Return whether any seed was read, here or in a part."""
        return self._made is not None

    def part(self, start: int, stop: int, size: int) -> LazySeeds:
        """Return the seeds of [start, stop), still unread, with the last repeated up to ``size``."""
        stop = min(stop, self._size)
        return LazySeeds(lambda: (*self[start:stop], *[self[stop - 1]] * (start + size - stop)), size)

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[int, ...]: ...

    def __getitem__(self, index: int | slice) -> int | tuple[int, ...]:
        if self._made is None:
            self._made = tuple(self._make())
        return self._made[index]


def example_seed(root_seed: int, fingerprint: str, kind: str, example_id: str) -> int:
    """Return the 64-bit seed of one example under one kind of perturbation."""
    return _hash("example", root_seed, fingerprint, kind, example_id)


def stream_seed(seed: int, stream: Stream) -> int:
    """Return the 64-bit seed of one stream of an example's draws."""
    # Written out, since dataclasses.astuple takes four times as long as everything else.
    return _hash("stream", seed, stream.purpose, stream.restart, stream.step, stream.query, stream.draw)


def _hash(*parts: str | int) -> int:
    # repr quotes text, so that no two different tuples run together.
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big")
