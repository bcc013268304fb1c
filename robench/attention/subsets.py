"""Per-example random subsets of tokens, drawn from the example's seed and the layer alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from robench.core.seeds import Stream, stream_seed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


def random_subsets(
    seeds: Sequence[int] | None, *, batch_size: int, layer: int, num_subsets: int, num_tokens: int, size: int
) -> Tensor:
    """Return masks of the members, (B, L, N): L subsets of ``size`` tokens, without repetition.

    Without seeds they are drawn from torch's global generator, as in training.
    """
    if seeds is None:
        seeds = torch.randint(2**62, (batch_size,)).tolist()
    rows = [_members(seed, layer, num_subsets, num_tokens, size) for seed in seeds]
    return torch.from_numpy(np.stack(rows))


def _members(
    seed: int, layer: int, num_subsets: int, num_tokens: int, size: int
) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    key = stream_seed(seed, Stream(purpose="subsets", draw=layer))
    words = np.random.Philox(key=key).random_raw(num_subsets * num_tokens).reshape(num_subsets, num_tokens)
    # The tokens with the smallest words: each subset is as likely as any other.
    ranks = words.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    return ranks < size
