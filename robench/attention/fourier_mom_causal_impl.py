"""Causal Fourier attention with median of means: the median of random subsets of each query's past.

Source: Han et al. 2023, arXiv:2210.05794, appendix C, equation 27, as in ``fourier_mom``, with the subsets of the
causal form of ``mom`` and the kernel of the causal form of ``fourier``.

Cost: that of causal Fourier attention, and of ``num_blocks`` more softmaxes over its kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from robench.attention.fourier_impl import FLOOR, LogSincProducts
from robench.attention.fourier_mom_impl import FourierMomAttention
from robench.attention.kernels import gaussian_scores, weights_above
from robench.attention.prefix_subsets import median_prefix_members, prefix_subsets_of

if TYPE_CHECKING:
    from robench.attention.state import ForwardState


class CausalFourierMomAttention(FourierMomAttention):
    """Causal Fourier attention within the median subset, over tokens (B, N, C) -> (B, N, C)."""

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D); random subsets come from the state's seeds."""
        q_BHND, k_BHND, v_BHND = heads
        log_products_BHNN: Tensor = LogSincProducts.apply(self.paramR * q_BHND, self.paramR * k_BHND)
        log_kernel_BHNN = self.declaration.power * log_products_BHNN
        members_BLNN = prefix_subsets_of(self.declaration, k_BHND, self.layer, state)
        formula = self.declaration.formula
        compared_BHNN = log_kernel_BHNN if formula == "paper" else gaussian_scores(q_BHND, k_BHND, self.precision)
        members_BHNN = median_prefix_members(compared_BHNN, members_BLNN, formula)
        weights_BHNN = weights_above(log_kernel_BHNN.masked_fill(~members_BHNN, -torch.inf), FLOOR)
        return weights_BHNN @ v_BHND
