"""FourierFormer attention: h_i = sum_j v_j k(q_i, k_j) / (sum_j k(q_i, k_j) + 1e-6), k = prod_d sinc(R (q_d - k_d))^p.

Source: Nguyen et al. 2022, FourierFormer: Transformer Meets Generalized Fourier Integral Theorem, arXiv:2206.00206,
with sinc(x) = sin(x) / x and phi(x) = x^p. ``paramR`` is R, of shape [1], one at start, as in the authors' code for
images (FourierFormer_NeurIPS, robust_transformer). The 1e-6 is missing in the paper but present in the code, and used
here, because all kernels of a query that is far from all keys may vanish: its output is then zero.

Where this differs from the code: its CUDA kernel reads ``paramR[d]``, past the end of the parameter; here one R serves
all coordinates. Kernels are added up as logarithms, since products over 64 coordinates leave float32. ``power`` must be
even, because odd powers make kernels negative, and their sum possibly zero.

Coordinates are visited in blocks that a budget of memory allows (``sinc_products``), so that no tensor of shape
N x N x D is formed: memory is that of a few N x N matrices and the budget, for D times the passes over them.

Causal form: the sinc kernels of each query with its own and earlier keys, over their sum.

Source: Nguyen et al. 2022, arXiv:2206.00206, as in ``fourier``, masked before the sum, to which the authors' language
model adds 1e-6 too. Its ``paramR`` starts at 2; here it starts at 1, as for images.

Cost: D passes over the N x N kernel, as in ``fourier``, where softmax attention has one product; no more memory.
"""

import torch
from torch import Tensor, nn

from robench.attention.fourier import Fourier
from robench.attention.geometry import Geometry
from robench.attention.kernels import weights_above
from robench.attention.projected import WeightedAttention
from robench.attention.sinc_products import LogSincProducts
from robench.attention.state import ForwardState

FLOOR = 1e-6


class FourierAttention(WeightedAttention):
    """FourierFormer attention over tokens (B, N, C) -> (B, N, C)."""

    takes_masks = True

    def __init__(self, declaration: Fourier, geometry: Geometry) -> None:
        super().__init__(declaration, geometry)
        self.power = declaration.power
        self.paramR = nn.Parameter(torch.ones(1))

    def weights(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, N)."""
        q_BHND, k_BHND, _ = heads
        log_products_BHNN: Tensor = LogSincProducts.apply(self.paramR * q_BHND, self.paramR * k_BHND)
        return weights_above(self.masked(self.power * log_products_BHNN, state), FLOOR)
