"""Fourier attention with median of means: the subset of median density among random subsets of the keys.

Source: Han et al. 2023, Designing Robust Transformers using Robust Kernel Density Estimation, arXiv:2210.05794,
appendix C, equation 27: ``mom`` with the kernel of ``fourier``, prod_d sinc(R (q_d - k_d))^p, and keys that are not
normalised. Random subsets are those of ``mom``. As in ``fourier`` the quotient has 1e-6 below, and ``paramR`` is one
learned radius.

Two formulas of the median, chosen by a field:

* ``paper``: one median for each query of each head, over the sums of these kernels.
* ``released``: one for all queries and heads, of the sum of -|q - k|^2 / sqrt(D), as in ``mom``, but for keys as they
  are: the authors' code (robust_transformer, imagenet/models.py, MomFourierAttention) has the sinc kernel and its
  radius for the weights, and does not choose by them. It differs from this as from ``mom``.

Causal form: the median of random subsets of each query's past.

Source: Han et al. 2023, arXiv:2210.05794, appendix C, equation 27, as in ``fourier_mom``, with the subsets of the
causal form of ``mom`` and the kernel of the causal form of ``fourier``.

Cost: that of causal Fourier attention, and of ``num_blocks`` more softmaxes over its kernel.
"""

import torch
from torch import Tensor, nn

from robench.attention.fourier_impl import FLOOR
from robench.attention.fourier_mom import FourierMom
from robench.attention.geometry import Geometry
from robench.attention.kernels import gaussian_scores, precision_of, weights_above
from robench.attention.mom_impl import MedianOfMeansAttention
from robench.attention.sinc_products import LogSincProducts
from robench.attention.state import ForwardState


class FourierMomAttention(MedianOfMeansAttention):
    """Fourier attention within the median subset, over tokens (B, N, C) -> (B, N, C)."""

    def __init__(self, declaration: FourierMom, geometry: Geometry) -> None:
        super().__init__(declaration, geometry)
        self.power = declaration.power
        self.precision = precision_of("released", geometry.head_dim)
        self.paramR = nn.Parameter(torch.ones(1))

    def weights(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, N)."""
        q_BHND, k_BHND, _ = heads
        log_products_BHNN: Tensor = LogSincProducts.apply(self.paramR * q_BHND, self.paramR * k_BHND)
        log_kernel_BHNN = self.power * log_products_BHNN
        by_kernel = self.declaration.formula == "paper"
        compared_BHNN = log_kernel_BHNN if by_kernel else gaussian_scores(q_BHND, k_BHND, self.precision)
        members_BHNN = self.median_members(compared_BHNN, state)
        return weights_above(log_kernel_BHNN.masked_fill(~members_BHNN, -torch.inf), FLOOR)
