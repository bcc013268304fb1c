"""Mixture of Gaussian keys: each token has several keys, whose kernels are added with learned weights.

Source: Nguyen et al. 2022, Improving Transformers with Probabilistic Attention Keys, arXiv:2110.08678, in the form of
the authors' code (transformer-mgk, language model, ``rbf2keys``):

    h_i = sum_j v_j k_ij / (sum_j k_ij + 1e-6),    k_ij = sum_r pi_r exp(-(r + 1/2) |q_i - k_rj|^2 / sqrt(D))

so that with two keys the factors are 0.5 and 1.5; for more, where the code is silent, the row 0.5, 1.5, 2.5 ... goes
on. ``qkv`` is [(M + 2) C, C] for M keys, order q, k0, k1, ..., v. Queries and keys are not normalised.

``pi0``, ``pi1``, ... are the mixture weights, 1 / M at start, clamped to [0, 1] in use; they need not add up to one. In
the language model each is [H, 1, 1, 256], a weight for each head and each position of a key in a text of 256 tokens;
here it is [H, 1, 1, 1], one weight for all positions, so that any number of tokens is accepted and positions do not
matter. (The code for long sequences has one weight for all heads, too.)

The 1e-6 is missing in the paper but present in the code, and used here, because all weights of a head may be zero, and
then so is its output.

Causal form: the kernels of each query with its own and earlier tokens, over their sum.

Source: Nguyen et al. 2022, arXiv:2110.08678, in the form of the authors' language model (transformer-mgk,
``rbf2keys``), as in ``mgk``. As there, ``pi0``, ``pi1``, ... are [H, 1, 1, num_tokens], a weight for each head and each
position of a key in the text; a shorter text has the first ones. So their shape is not that of the other form.

Kernels of padding are zero, as are those of later keys in the causal form.

Cost: ``num_mixtures`` kernels of N x N where softmax attention has one.
"""

import math

import torch
from torch import Tensor, nn

from robench.attention.geometry import Geometry
from robench.attention.kernels import gaussian_kernels
from robench.attention.mgk import Mgk
from robench.attention.projected import WeightedAttention
from robench.attention.state import ForwardState

FLOOR = 1e-6


class MgkAttention(WeightedAttention):
    """Attention to a mixture of Gaussian keys over tokens (B, N, C) -> (B, N, C)."""

    takes_masks = True

    def __init__(self, declaration: Mgk, geometry: Geometry) -> None:
        super().__init__(declaration, geometry, num_projections=declaration.num_mixtures + 2)
        self.num_mixtures = declaration.num_mixtures
        num_places = geometry.num_tokens if self.is_causal else 1
        for place in range(self.num_mixtures):
            weight_H11M = torch.full((self.num_heads, 1, 1, num_places), 1 / self.num_mixtures)
            self.register_parameter(f"pi{place}", nn.Parameter(weight_H11M))

    def weights(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, M)."""
        q_BHND, keys = heads[0], heads[1:-1]
        kernels_BHNM = torch.stack([self.kernels(r, q_BHND, k_BHND) for r, k_BHND in enumerate(keys)]).sum(dim=0)
        if state is not None and state.mask_BN is not None:
            kernels_BHNM = kernels_BHNM * state.mask_BN[:, None, None, :]
        return kernels_BHNM / (kernels_BHNM.sum(dim=-1, keepdim=True) + FLOOR)

    def kernels(self, place: int, q_BHND: Tensor, k_BHND: Tensor) -> Tensor:
        """Return pi_r exp(-(r + 1/2) |q - k|^2 / sqrt(D)) for one of the keys, (B, H, N, M)."""
        precision = (place + 0.5) / math.sqrt(q_BHND.shape[-1])
        kernels_BHNM = self.weight(place, k_BHND.shape[-2]) * gaussian_kernels(q_BHND, k_BHND, precision)
        return kernels_BHNM.tril() if self.is_causal else kernels_BHNM

    def weight(self, place: int, num_tokens: int) -> Tensor:
        """Return pi_r of each head, (H, 1, 1), in a causal form of each position of a key too, (H, 1, N)."""
        # Not get_parameter, which refuses the plain tensors that torch.func puts in a parameter's place.
        weight_H11M: Tensor = getattr(self, f"pi{place}")
        return weight_H11M.squeeze(-2).clamp(min=0, max=1)[..., :num_tokens]
