"""Random seeds of training, a function of the recipe's seed and the purpose alone.

The libraries that augment and mix images draw from the global generators of Python, numpy and torch. Here each of those
draws starts from its own seed, and the generators are restored: neither the number of decoding processes, nor
interruptions of the training, change a byte.
"""

from __future__ import annotations

import random
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch

from robench.core.seeds import Stream, stream_seed

if TYPE_CHECKING:
    from collections.abc import Iterator


def seed_for(seed: int, purpose: str, epoch: int, position: int = 0) -> int:
    """Return the 64-bit seed for one purpose in one epoch (0-based), at one position of it."""
    return stream_seed(seed, Stream(purpose=purpose, step=epoch, draw=position))


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global generators of this process, except those of GPUs, for the block; restore them afterwards."""
    generator = torch.default_generator
    before = random.getstate(), np.random.get_state(), generator.get_state()
    random.seed(seed)
    np.random.seed(seed % 2**32)
    generator.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
        generator.set_state(before[2])
