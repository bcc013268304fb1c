"""Random numbers that belong to the example, whatever batch it stands in.

Each example and stream has a Philox counter of its own. Its raw 64-bit words are used, because numpy promises that a
bit generator's words never change, and does not promise it of the distributions made from them. Values are made on
the CPU, so that every kind of device meets the same ones.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
import torch

from robench.core.seeds import Stream, stream_seed

if TYPE_CHECKING:
    from collections.abc import Sequence


class ExampleDraws:
    """The draws of the examples of one batch (``core.protocols.Draws``)."""

    def __init__(self, seeds: Sequence[int], device: torch.device | str = "cpu") -> None:
        self._seeds = tuple(seeds)
        self._device = device

    def uniform(self, stream: Stream, shape: Sequence[int]) -> torch.Tensor:
        """Return (B, *shape) float32 values in [0, 1), multiples of 2**-24."""
        rows = [_uniform_row(stream_seed(seed, stream), prod(shape)) for seed in self._seeds]
        return torch.from_numpy(np.stack(rows)).reshape(len(rows), *shape).to(self._device)


def _uniform_row(seed: int, size: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    words = np.random.Philox(key=seed).random_raw((size + 1) // 2)
    halves = words.view(np.uint32)[:size]
    # 24 bits fill a float32's mantissa exactly: no value is rounded up to 1.
    return (halves >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
