"""Causal median-of-means attention: each query attends to the median of random subsets of its past.

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

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.attention.mom_impl import MomAttention
from robench.attention.prefix_subsets import median_prefix_members, prefix_subsets_of

if TYPE_CHECKING:
    from torch import Tensor

    from robench.attention.state import ForwardState


class CausalMomAttention(MomAttention):
    """Causal median-of-means attention over tokens (B, N, C) -> (B, N, C)."""

    def median_members(self, log_kernel_BHNN: Tensor, k_BHND: Tensor, state: ForwardState | None) -> Tensor:
        """Return a mask of the keys in each query's median subset, (B, H, N, N)."""
        members_BLNN = prefix_subsets_of(self.declaration, k_BHND, self.layer, state)
        return median_prefix_members(log_kernel_BHNN, members_BLNN)
