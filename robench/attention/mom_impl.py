"""Median-of-means attention: each query attends to the random subset of the keys of median density.

Source: Han et al. 2023, Designing Robust Transformers using Robust Kernel Density Estimation, arXiv:2210.05794, section
3.2, equation 12, and algorithm 1. With kernels k(q, k_j) on keys of unit length and subsets I_1..I_L of S keys each,

    H_i = sum_{j in I_l} v_j k(q_i, k_j) / sum_{j in I_l} k(q_i, k_j)

where l is the subset that has the median of these denominators. Subsets overlap, since the paper samples each anew
from all keys; within one no key is repeated, as in the released code. They are drawn for each example and layer and
shared by its heads and queries; the class token may be left out.

Two formulas, chosen by a field (robust_transformer, imagenet/models.py, 606-669):

* ``paper``: k(q, k) = exp(-|q - k|^2 / (2 sqrt(D))); one median for each query of each head.
* ``released``: k(q, k) = exp(-|q - k|^2 / sqrt(D)); one subset for all queries and heads, the median of the sum of
  -|q - k|^2 / sqrt(D) over them. The code sums over the batch as well and draws from numpy's global generator, so that
  a prediction depends on its neighbours and is not reproducible; here each example has its own subset and seed.

Which subset is the median is a choice, through which no gradient flows.

In a padded example subsets, and the median over all queries, are of the valid tokens alone.

Causal form: each query attends to the median of random subsets of its past.

Source: Han et al. 2023, arXiv:2210.05794, section 3.2, as in ``mom``: query i chooses among subsets of the keys 0..i,
``block_fraction`` of them each, as ``mom`` on the first i + 1 tokens does for the last of them. Subsets come from words
that belong to positions: one for each subset and key, from the example's seed and the layer; the keys of the
smallest words among the keys 0..i are the subset. While there are fewer keys than blocks, all of them are taken.

The authors' language model is not causal, and has no counterpart here: its mask is applied with queries and keys
exchanged, so that each query sees itself and *later* keys alone, and its weights are normalised over queries. Its
blocks share no keys. ``formula: released`` is refused.

Cost: that of ``num_blocks`` + 1 softmax attentions over the same scores, and masks of N x N bytes for each block and
example, made on the CPU.
"""

from typing import Any

import torch
from torch import Tensor

from robench.attention.geometry import Geometry
from robench.attention.kernels import gaussian_scores, precision_of, unit
from robench.attention.mom import MedianOfMeans
from robench.attention.projected import WeightedAttention
from robench.attention.state import ForwardState
from robench.attention.subsets import median, median_subsets, prefix_subsets, random_subsets


class MedianOfMeansAttention(WeightedAttention):
    """Base of attention within the median subset of the keys, over tokens (B, N, C) -> (B, N, C)."""

    takes_masks = True

    def __init__(self, declaration: MedianOfMeans, geometry: Geometry) -> None:
        super().__init__(declaration, geometry)
        self.declaration = declaration
        self.layer = geometry.layer

    def median_members(self, log_kernel_BHNN: Tensor, state: ForwardState | None) -> Tensor:
        """Return a mask of the keys in each query's median subset, (B, H, N, N) or of a shape that expands to it.

        Random subsets come from the state's seeds.
        """
        seeds, mask_BN = (None, None) if state is None else (state.seeds, state.mask_BN)
        batch_size, num_tokens = len(log_kernel_BHNN), log_kernel_BHNN.shape[-1]
        sizes: dict[str, Any] = {
            "layer": self.layer,
            "num_subsets": self.declaration.num_blocks,
            "num_tokens": num_tokens,
            "fraction": self.declaration.block_fraction,
        }
        if self.is_causal:
            members_BLNN = prefix_subsets(seeds, **sizes, batch_size=batch_size).to(log_kernel_BHNN.device)
            return median_prefix_members(log_kernel_BHNN, members_BLNN)
        lengths = [num_tokens] * batch_size if mask_BN is None else mask_BN.sum(dim=1).tolist()
        members_BLN = random_subsets(seeds, **sizes, lengths=lengths).to(log_kernel_BHNN.device)
        return median_members(log_kernel_BHNN, members_BLN, self.declaration.formula, mask_BN)


class MomAttention(MedianOfMeansAttention):
    """Median-of-means attention over tokens (B, N, C) -> (B, N, C)."""

    def weights(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, N)."""
        q_BHND, k_BHND, _ = heads
        precision = precision_of(self.declaration.formula, q_BHND.shape[-1])
        log_kernel_BHNN = gaussian_scores(q_BHND, unit(k_BHND), precision)
        members_BHNN = self.median_members(log_kernel_BHNN, state)
        return log_kernel_BHNN.masked_fill(~members_BHNN, -torch.inf).softmax(dim=-1)


def median_members(log_kernel_BHNM: Tensor, members_BLM: Tensor, formula: str, mask_BN: Tensor | None = None) -> Tensor:
    """Return a mask of the keys in the median subset, (B, H, N, M); no gradient flows through the choice.

    Queries where ``mask_BN`` is false do not count in a median of all queries.
    """
    with torch.no_grad():
        if formula == "paper":
            chosen_BHN = median_subsets(log_kernel_BHNM, members_BLM.unsqueeze(-2))
        else:
            if mask_BN is not None:
                log_kernel_BHNM = log_kernel_BHNM * mask_BN[:, None, :, None]
            # The sum of the logarithms over all queries and heads.
            sums_B = [
                (log_kernel_BHNM * each_BM[:, None, None, :]).sum(dim=(1, 2, 3)) for each_BM in members_BLM.unbind(1)
            ]
            chosen_BHN = median(sums_B)[:, None, None].expand(log_kernel_BHNM.shape[:3])
        batch_B11 = torch.arange(len(members_BLM), device=members_BLM.device)[:, None, None]
        return members_BLM[batch_B11, chosen_BHN]


def median_prefix_members(log_kernel_BHNN: Tensor, members_BLNN: Tensor) -> Tensor:
    """Return a mask of the keys in each query's median subset, (B, H, N, N); no gradient flows through the choice."""
    with torch.no_grad():
        chosen_BHN = median_subsets(log_kernel_BHNN, members_BLNN)
        batch_B11 = torch.arange(len(members_BLNN), device=members_BLNN.device)[:, None, None]
        places_N = torch.arange(members_BLNN.shape[-1], device=members_BLNN.device)
        return members_BLNN[batch_B11, chosen_BHN, places_N]
