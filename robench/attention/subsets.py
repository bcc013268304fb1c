"""Random subsets of the keys, and the choice of the one that has the median density for each query.

Subsets are drawn from the example's seed and the layer alone. The density of a subset is the sum of its kernels,
compared as a logarithm: ``log_density`` takes a masked log-sum-exp for each subset. On a processor sums of kernels
relative to the largest one are taken first, for one exponential of all keys and a product with the subsets' masks. They
decide wherever the median is farther from both its neighbours than the rounding of ``log_density``; the queries that
are left, which are few unless all kernels are nearly equal, are decided by that, so that each has the choice that it
would have without the sums. Other devices use ``log_density`` alone, since picking rows would wait for the device.

Axes as in ``heads``; L subsets, K queries that are left, P queries of all heads.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from robench.core.seeds import Stream, stream_seed

# Sums relative to the largest kernel that are smaller than this may have lost terms to underflow.
SMALLEST_SUM = 1e-30
# Bound on the rounding of a log-sum-exp's exponentials and of their sum, in units of the number format. Sums over M
# keys in any order are within M / 2 of these units.
ROUNDING = 32


def random_subsets(
    seeds: Sequence[int] | None,
    *,
    lengths: Sequence[int],
    layer: int,
    num_subsets: int,
    num_tokens: int,
    fraction: float,
) -> Tensor:
    """Return masks of the members, (B, L, N): L subsets of the first tokens of each example, without repetition.

    ``lengths`` are the numbers of these tokens, at most N. A subset has ``fraction`` of them, rounded down, at least
    one. Without seeds they are drawn from torch's global generator, as in training.
    """
    if seeds is None:
        seeds = torch.randint(2**62, (len(lengths),)).tolist()
    members_BLN = np.zeros((len(lengths), num_subsets, num_tokens), dtype=bool)
    for members_LN, seed, length in zip(members_BLN, seeds, lengths, strict=True):
        members_LN[:, :length] = _members(seed, layer, num_subsets, length, max(1, int(length * fraction)))
    return torch.from_numpy(members_BLN)


def _members(
    seed: int, layer: int, num_subsets: int, num_tokens: int, size: int
) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    key = stream_seed(seed, Stream(purpose="subsets", draw=layer))
    words = np.random.Philox(key=key).random_raw(num_subsets * num_tokens).reshape(num_subsets, num_tokens)
    # The tokens with the smallest words: each subset is as likely as any other.
    ranks = words.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    return ranks < size


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
    return torch.from_numpy(np.stack([_prefix_members(seed, layer, num_subsets, sizes_N) for seed in seeds]))


def _prefix_members(
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


def median_subsets(log_kernel_BHNM: Tensor, members_BLNM: Tensor) -> Tensor:
    """Return the index of each query's median subset, (B, H, N); of equal densities the first counts as smaller.

    ``members_BLNM`` are masks, for each query or, as (B, L, 1, M), for all of them.
    """
    log_kernel_BHNM = log_kernel_BHNM.detach()
    if log_kernel_BHNM.device.type != "cpu" or log_kernel_BHNM.dtype not in (torch.float32, torch.float64):
        return median([log_density(log_kernel_BHNM, each.unsqueeze(1)) for each in members_BLNM.unbind(1)])
    chosen_BHN, is_left_BHN = chosen_by_sums(log_kernel_BHNM, members_BLNM)
    b, h, n = is_left_BHN.nonzero(as_tuple=True)
    if len(b):
        rows_KM = log_kernel_BHNM[b, h, n]
        members_BLNM = members_BLNM.expand(-1, -1, log_kernel_BHNM.shape[-2], -1)
        chosen_BHN[b, h, n] = median([log_density(rows_KM, each[b, n]) for each in members_BLNM.unbind(1)])
    return chosen_BHN


def log_density(log_kernel: Tensor, members: Tensor) -> Tensor:
    """Return the logarithm of the sum of the members' kernels, (...) for (..., M)."""
    return log_kernel.masked_fill(~members, -torch.inf).logsumexp(dim=-1)


def median(densities: list[Tensor]) -> Tensor:
    """Return the place of the median density, of the shape of each."""
    return torch.stack(densities, dim=-1).argsort(dim=-1, stable=True)[..., len(densities) // 2]


def chosen_by_sums(log_kernel_BHNM: Tensor, members_BLNM: Tensor) -> tuple[Tensor, Tensor]:
    """Return the median subset of each query by sums of kernels, (B, H, N), and a mask of queries left undecided."""
    if members_BLNM.shape[-2] > 1:
        # A later key may be so much nearer that all others would vanish beside it.
        log_kernel_BHNM = log_kernel_BHNM.masked_fill(~members_BLNM.any(dim=1).unsqueeze(1), -torch.inf)
    largest_BHN1 = log_kernel_BHNM.amax(dim=-1, keepdim=True)
    kernel_BHNM = (log_kernel_BHNM - largest_BHN1).exp_()
    sums_BHNL, order_BHNL = sums_of_members(kernel_BHNM, members_BLNM).sort(dim=-1, stable=True)
    num_subsets = members_BLNM.shape[1]
    middle = num_subsets // 2
    medians_BHN = sums_BHNL[..., middle]
    size_BHN = largest_BHN1.squeeze(-1).abs() + medians_BHN.log().abs()
    units_BHN = 2 * size_BHN + ROUNDING + members_BLNM.shape[-1] / 2
    factor_BHN = 1 + torch.finfo(kernel_BHNM.dtype).eps * units_BHN
    is_distinct_BHN = medians_BHN > SMALLEST_SUM
    if num_subsets > 1:
        is_distinct_BHN &= sums_BHNL[..., middle - 1] * factor_BHN < medians_BHN
        is_distinct_BHN &= medians_BHN * factor_BHN < sums_BHNL[..., middle + 1]
    return order_BHNL[..., middle].clone(), ~is_distinct_BHN


def sums_of_members(kernel_BHNM: Tensor, members_BLNM: Tensor) -> Tensor:
    """Return the sum of the kernels of each subset, (B, H, N, L)."""
    members_BLNM = members_BLNM.to(kernel_BHNM.dtype)
    if members_BLNM.shape[-2] == 1:
        # This order takes half of the time of the other one, with a matrix for each head.
        sums_BLP: Tensor = members_BLNM.squeeze(-2) @ kernel_BHNM.flatten(1, 2).mT
        sums_BHNL: Tensor = sums_BLP.reshape(*sums_BLP.shape[:2], *kernel_BHNM.shape[1:3]).movedim(1, -1)
        return sums_BHNL
    parts = [(kernel_BHNM * members_BNM.unsqueeze(1)).sum(dim=-1) for members_BNM in members_BLNM.unbind(1)]
    return torch.stack(parts, dim=-1)
