"""Causal Fourier attention with median of means: the median of random subsets of each query's past.

Source: Han et al. 2023, arXiv:2210.05794, appendix C, equation 27, as in ``fourier_mom``, with the subsets of the
causal form of ``mom`` and the kernel of the causal form of ``fourier``.

Cost: that of causal Fourier attention, and of ``num_blocks`` more softmaxes over its kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.attention.fourier_mom_impl import FourierMomAttention
from robench.attention.prefix_subsets import median_prefix_members, prefix_subsets_of

if TYPE_CHECKING:
    from torch import Tensor

    from robench.attention.state import ForwardState


class CausalFourierMomAttention(FourierMomAttention):
    """Causal Fourier attention within the median subset, over tokens (B, N, C) -> (B, N, C)."""

    def median_members(self, compared_BHNN: Tensor, k_BHND: Tensor, state: ForwardState | None) -> Tensor:
        """Return a mask of the keys in each query's median subset, (B, H, N, N)."""
        members_BLNN = prefix_subsets_of(self.declaration, k_BHND, self.layer, state)
        return median_prefix_members(compared_BHNN, members_BLNN)
