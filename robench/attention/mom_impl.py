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
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from robench.attention.kernels import gaussian_scores, precision_of, unit
from robench.attention.median_subsets import median, median_subsets
from robench.attention.projected import ProjectedAttention
from robench.attention.subsets import random_subsets

if TYPE_CHECKING:
    from robench.attention.geometry import Geometry
    from robench.attention.mom import MedianOfMeans, Mom
    from robench.attention.state import ForwardState


class MomAttention(ProjectedAttention):
    """Median-of-means attention over tokens (B, N, C) -> (B, N, C)."""

    def __init__(self, declaration: Mom, geometry: Geometry) -> None:
        super().__init__(declaration, geometry)
        self.declaration = declaration
        self.precision = precision_of(declaration.formula, geometry.head_dim)
        self.layer = geometry.layer

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D); random subsets come from the state's seeds."""
        q_BHND, k_BHND, v_BHND = heads
        log_kernel_BHNN = gaussian_scores(q_BHND, unit(k_BHND), self.precision)
        members_BHNN = self.median_members(log_kernel_BHNN, k_BHND, state)
        weights_BHNN = log_kernel_BHNN.masked_fill(~members_BHNN, -torch.inf).softmax(dim=-1)
        return weights_BHNN @ v_BHND

    def median_members(self, log_kernel_BHNN: Tensor, k_BHND: Tensor, state: ForwardState | None) -> Tensor:
        """Return a mask of the keys in each query's median subset, (B, H, N, N) or of a shape that expands to it."""
        members_BLN = subsets_of(self.declaration, k_BHND, self.layer, state)
        return median_members(log_kernel_BHNN, members_BLN, self.declaration.formula)


def subsets_of(declaration: MedianOfMeans, k_BHND: Tensor, layer: int, state: ForwardState | None) -> Tensor:
    """Return the random subsets of each example's tokens, (B, L, N) booleans on the tokens' device."""
    num_tokens = k_BHND.shape[-2]
    members_BLN = random_subsets(
        None if state is None else state.seeds,
        batch_size=len(k_BHND),
        layer=layer,
        num_subsets=declaration.num_blocks,
        num_tokens=num_tokens,
        size=max(1, int(num_tokens * declaration.block_fraction)),
    )
    return members_BLN.to(k_BHND.device)


def median_members(log_kernel_BHNM: Tensor, members_BLM: Tensor, formula: str) -> Tensor:
    """Return a mask of the keys in the median subset, (B, H, N, M); no gradient flows through the choice."""
    with torch.no_grad():
        if formula == "paper":
            chosen_BHN = median_subsets(log_kernel_BHNM, members_BLM.unsqueeze(-2))
        else:
            totals = [_total(log_kernel_BHNM, members_BM) for members_BM in members_BLM.unbind(1)]
            chosen_BHN = median(totals).expand(log_kernel_BHNM.shape[:3])
        batch_B11 = torch.arange(len(members_BLM), device=members_BLM.device)[:, None, None]
        return members_BLM[batch_B11, chosen_BHN]


def _total(log_kernel_BHNM: Tensor, members_BM: Tensor) -> Tensor:
    """Return the sum of the logarithms over all queries and heads, (B, 1, 1)."""
    return (log_kernel_BHNM * members_BM[:, None, None, :]).sum(dim=(1, 2, 3))[:, None, None]
