"""Random subsets of the keys up to each token, and the median one, for causal median-of-means attention.

Axes as in ``heads``; L blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from robench.attention.median_subsets import median_subsets
from robench.core.seeds import Stream, stream_seed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from robench.attention.mom import MedianOfMeans
    from robench.attention.state import ForwardState


def prefix_subsets_of(declaration: MedianOfMeans, k_BHND: Tensor, layer: int, state: ForwardState | None) -> Tensor:
    """Return the random subsets of each example's prefixes, (B, L, N, N) booleans on the tokens' device."""
    members_BLNN = prefix_subsets(
        None if state is None else state.seeds,
        batch_size=len(k_BHND),
        layer=layer,
        num_subsets=declaration.num_blocks,
        num_tokens=k_BHND.shape[-2],
        fraction=declaration.block_fraction,
    )
    return members_BLNN.to(k_BHND.device)


def prefix_subsets(
    seeds: Sequence[int] | None, *, batch_size: int, layer: int, num_subsets: int, num_tokens: int, fraction: float
) -> Tensor:
    """Return masks of the members, (B, L, N, N), row i those of the subset of tokens 0..i.

    A subset has ``fraction`` of the tokens, rounded down, at least one; all of them while there are fewer tokens than
    subsets. Whether a token is a member depends on random words of tokens 0..i alone. Without seeds the words are drawn
    from torch's global generator, as in training.
    """
    if seeds is None:
        seeds = torch.randint(2**62, (batch_size,)).tolist()
    counts_N = np.arange(1, num_tokens + 1)
    sizes_N = np.where(counts_N < num_subsets, counts_N, np.maximum(1, (counts_N * fraction).astype(int)))
    return torch.from_numpy(np.stack([_members(seed, layer, num_subsets, sizes_N) for seed in seeds]))


def _members(
    seed: int, layer: int, num_subsets: int, sizes_N: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> np.ndarray[tuple[int, int, int], np.dtype[np.bool_]]:
    key = stream_seed(seed, Stream(purpose="prefix subsets", draw=layer))
    # Position by position, so that the words of a text are those of every longer one.
    words_NL = np.random.Philox(key=key).random_raw(len(sizes_N) * num_subsets).reshape(len(sizes_N), num_subsets)
    places_LN = words_NL.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable").T
    smaller_LNN = places_LN[:, None, :] < places_LN[:, :, None]
    # Of token j among tokens 0..i: how many of these have smaller words; then row i, column j.
    ranks_LNN = smaller_LNN.cumsum(axis=-1, dtype=np.int32).transpose(0, 2, 1)
    members: np.ndarray[tuple[int, int, int], np.dtype[np.bool_]] = np.tril(ranks_LNN < sizes_N[None, :, None])
    return members


def median_prefix_members(log_kernel_BHNN: Tensor, members_BLNN: Tensor) -> Tensor:
    """Return a mask of the keys in each query's median subset, (B, H, N, N); no gradient flows through the choice."""
    with torch.no_grad():
        chosen_BHN = median_subsets(log_kernel_BHNN, members_BLNN)
        batch_B11 = torch.arange(len(members_BLNN), device=members_BLNN.device)[:, None, None]
        places_N = torch.arange(members_BLNN.shape[-1], device=members_BLNN.device)
        return members_BLNN[batch_B11, chosen_BHN, places_N]
