"""Per-example random numbers, independent of the batch.

Each example and stream has its own Philox counter. Raw 64-bit words are used, because numpy guarantees that a bit
generator's words never change, but not the distributions derived from them. Values are generated on the CPU, so that
every device receives the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
import torch

from robench.core.seeds import Stream, stream_seed
from robench.devices import to_device

Row = np.ndarray[tuple[int], np.dtype[np.float32]]

PREDICTION = Stream(purpose="prediction")


class ExampleDraws:
    """Draws of the examples of one batch (``core.protocols.Draws``).

    Without ``prediction_seeds``, these are derived from the other seeds.
    """

    def __init__(
        self, seeds: Sequence[int], device: torch.device | str = "cpu", prediction_seeds: Sequence[int] | None = None
    ) -> None:
        self._seeds = tuple(seeds)
        self._device = device
        self._prediction_seeds = None if prediction_seeds is None else tuple(prediction_seeds)

    @property
    def prediction_seeds(self) -> tuple[int, ...]:
        """Return one seed per example, used for the model's final prediction."""
        return self.seeds(PREDICTION) if self._prediction_seeds is None else self._prediction_seeds

    def seeds(self, stream: Stream) -> tuple[int, ...]:
        """Return one 64-bit seed per example."""
        return tuple(stream_seed(seed, stream) for seed in self._seeds)

    def uniform(self, stream: Stream, shape: Sequence[int]) -> torch.Tensor:
        """Return (B, *shape) float32 values in [0, 1), multiples of 2**-24."""
        return self._rows(_uniform_row, stream, shape)

    def normal(self, stream: Stream, shape: Sequence[int]) -> torch.Tensor:
        """Return (B, *shape) float32 values of the standard normal distribution, by its quantile function."""
        return self._rows(_normal_row, stream, shape)

    def signs(self, stream: Stream, shape: Sequence[int]) -> torch.Tensor:
        """Return (B, *shape) float32 values, each -1 or 1, from one bit of a word each."""
        return self._rows(_sign_row, stream, shape)

    def take(self, rows: Sequence[int]) -> ExampleDraws:
        """Return the draws of a subset of the examples."""
        given = self._prediction_seeds
        return ExampleDraws(
            [self._seeds[row] for row in rows], self._device, None if given is None else [given[row] for row in rows]
        )

    def _rows(self, make: Callable[[Words, int, int], Row], stream: Stream, shape: Sequence[int]) -> torch.Tensor:
        words = Words()
        rows = [make(words, seed, prod(shape)) for seed in self.seeds(stream)]
        return to_device(torch.from_numpy(np.stack(rows)).reshape(len(rows), *shape), self._device)


class Words:
    """Raw words of ``np.random.Philox(key=seed)`` for one seed after another, without a new generator for each."""

    def __init__(self) -> None:
        self._generator = np.random.Philox(key=0)
        self._fresh = self._generator.state

    def of(self, seed: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        """Return the first ``count`` words of a seed below 2**64."""
        self._fresh["state"]["key"][0] = seed
        self._generator.state = self._fresh
        words: np.ndarray[tuple[int], np.dtype[np.uint64]] = self._generator.random_raw(count)
        return words


def _uniform_row(words: Words, seed: int, size: int) -> Row:
    halves = words.of(seed, (size + 1) // 2).view(np.uint32)[:size]
    # 24 bits fill a float32's mantissa exactly: no value is rounded up to 1.
    return (halves >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


def _normal_row(words: Words, seed: int, size: int) -> Row:
    # Midpoints of 2**53 equal intervals of (0, 1), so that no quantile is infinite.
    middles = ((words.of(seed, size) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    row: Row = torch.special.ndtri(torch.from_numpy(middles)).float().numpy()
    return row


def _sign_row(words: Words, seed: int, size: int) -> Row:
    bits = np.unpackbits(words.of(seed, (size + 63) // 64).astype("<u8").view(np.uint8), bitorder="little")[:size]
    return bits.astype(np.float32) * np.float32(2.0) - np.float32(1.0)
