"""Fourier attention with median of means: of random subsets of the keys, the one of median density under sinc kernels.

Source: Han et al. 2023, Designing Robust Transformers using Robust Kernel Density Estimation, arXiv:2210.05794,
appendix C, equation 27: ``mom`` with the kernel of ``fourier``, prod_d sinc(R (q_d - k_d))^p, and keys that are not
normalised. Random subsets, and the two formulas of their median, are those of ``mom``; for ``released`` the sum is of
the logarithms of these kernels. As in ``fourier`` the quotient has 1e-6 below, and ``paramR`` is one learned radius.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from robench.attention.fourier import FLOOR, LogSincProducts
from robench.attention.kernels import weights_above
from robench.attention.mom import median_members, subsets_of
from robench.attention.projected import ProjectedAttention

if TYPE_CHECKING:
    from robench.attention.geometry import Geometry
    from robench.attention.state import ForwardState
    from robench.declarations.mom_attentions import FourierMom


class FourierMomAttention(ProjectedAttention):
    """Fourier attention within the median subset, over tokens (B, N, C) -> (B, N, C)."""

    def __init__(self, declaration: FourierMom, geometry: Geometry) -> None:
        super().__init__(declaration, geometry)
        self.declaration = declaration
        self.layer = geometry.layer
        self.paramR = nn.Parameter(torch.ones(1))

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D); random subsets come from the state's seeds."""
        q_BHND, k_BHND, v_BHND = heads
        log_products_BHNN: Tensor = LogSincProducts.apply(self.paramR * q_BHND, self.paramR * k_BHND)
        log_kernel_BHNN = self.declaration.power * log_products_BHNN
        members_BLN = subsets_of(self.declaration, k_BHND, self.layer, state)
        members_BHNN = median_members(log_kernel_BHNN, members_BLN, self.declaration.formula)
        weights_BHNN = weights_above(log_kernel_BHNN.masked_fill(~members_BHNN, -torch.inf), FLOOR)
        return weights_BHNN @ v_BHND
