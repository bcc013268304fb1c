"""Randomness that belongs to the example.

Every draw is a function of (root seed, dataset fingerprint, kind of perturbation, example id, stream) and of nothing
else: not of the worker, the batch, the shard, the checkpoint, the condition's name or budget, or how many examples are
asked for. So resharding changes no number, budgets share their noise, five restarts are a prefix of ten, and every
checkpoint meets the same draws (common random numbers, which sharpen paired comparisons).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Which of an example's independent sequences of draws is meant."""

    purpose: str
    restart: int = 0
    step: int = 0
    query: int = 0
    draw: int = 0


def example_seed(root_seed: int, fingerprint: str, kind: str, example_id: str) -> int:
    """Return the 64-bit seed of one example under one kind of perturbation."""
    return _hash("example", root_seed, fingerprint, kind, example_id)


def stream_seed(seed: int, stream: Stream) -> int:
    """Return the 64-bit seed of one stream of an example's draws."""
    # Spelt out, since dataclasses.astuple takes four times as long as all the rest.
    return _hash("stream", seed, stream.purpose, stream.restart, stream.step, stream.query, stream.draw)


def _hash(*parts: str | int) -> int:
    # repr quotes text, so that no two different tuples run together.
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big")
