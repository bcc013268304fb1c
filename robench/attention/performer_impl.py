"""Performer: softmax attention approximated by positive random features (FAVOR+), linear in the number of tokens.

Source: Choromanski et al. 2021, arXiv:2009.14794, lemma 1 and section 2.4. With x = q / D^(1/4) or k / D^(1/4) and
projections w_f, f = 1..F,

    phi_f(x) = exp(w_f . x - |x|^2 / 2) / sqrt(F),  A_ij = phi(q_i) . phi(k_j) / sum_j' phi(q_i) . phi(k_j')

whose inner products have exp(q . k / sqrt(D)) for their mean. The projections are Gaussian, and orthogonal within each
block of D: directions of a uniformly random orthogonal matrix, lengths of independent Gaussian vectors. Weights are
those of softmax attention: ``qkv`` is [3C, C], order q, k, v, with bias, and ``proj``; beside them the buffer
``projection``, [F, D], the same for all heads, part of the state dict.

Two formulas, chosen by a field:

* ``paper``: the features above, kept as logarithms, so that factors common to a query cancel exactly, and no epsilon is
  needed.
* ``released``: phi_f(x) = (exp(w_f . x - |x|^2 / 2 - m) + ``epsilon``) / sqrt(F), with m the largest w_f . x of a query
  over f, or of a head's keys over f and all tokens. Added after the exponential, the epsilon does not cancel: if |x|^2
  / 2 is so large that only the epsilon remains of a query or key, it is equally similar to all others. 1e-4 is the
  default of the authors' features (google-research, performer/fast_attention/jax/fast_attention.py), whose
  make_fast_softmax_attention passes 1e-6, and of performer_pytorch, which the code of Nystromformer calls. Gradients
  flow through m, as in the authors' code; later versions of performer_pytorch stop them, and its earlier ones take m
  over the keys of the whole batch, which is not here.

Where this differs from all that code: the signs of the QR factorisation are corrected, without which its orthogonal
matrix is not uniform. That code redraws during training and does not save its projection; here a layer draws once, from
``redraw_seed`` and its index, by a separate generator, and the state dict contains the projection. The authors also add
2e-6 to denominators of at most 1e-6; here nothing is added to them. The language models of lmtool-fwp have other
features, (exp(+-w_f . x - |x|^2 / 2) + 1e-4) / sqrt(2 F) without a maximum, and add 1e-5 to denominators.

Causal form: positive random features (FAVOR+), with sums over each query's own and earlier keys.

Source: Choromanski et al. 2021, arXiv:2009.14794, section 2.5 (prefix sums), with the features of ``performer``. The
formula ``released`` has no maximum over keys here, since that of a text depends on later tokens: the features of a key
are exp(w_f . x - |x|^2 / 2) + ``epsilon``, without m, as in the language models of lmtool-fwp. A query keeps its
own maximum. ``paper`` has no maximum in either form. Features are kept as logarithms, and sums over keys as
means (see ``linear``), so that none overflows.

Padding is left out as in ``linear``, and of the maximum over the keys.

Cost: O(N F (L + D)) operations for F features, L = 16 tokens a chunk; N L F numbers in memory. The N / L chunks follow
one another.
"""

import math

import torch
from torch import Tensor

from robench.attention.geometry import Geometry
from robench.attention.linear_impl import smoother, without_padding
from robench.attention.performer import Performer
from robench.attention.projected import ProjectedAttention
from robench.attention.state import ForwardState
from robench.core.seeds import Stream, stream_seed


class PerformerAttention(ProjectedAttention):
    """Performer attention over tokens (B, N, C) -> (B, N, C)."""

    takes_masks = True

    projection: Tensor

    def __init__(self, declaration: Performer, geometry: Geometry) -> None:
        super().__init__(declaration, geometry)
        seed = stream_seed(declaration.redraw_seed, Stream(purpose="performer", draw=geometry.layer))
        drawn_FD = orthogonal_gaussian(declaration.num_features, geometry.head_dim, seed)
        self.register_buffer("projection", drawn_FD.to(self.qkv.weight))
        self.epsilon = declaration.epsilon if declaration.formula == "released" else None

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        q_BHND, k_BHND, v_BHND = heads
        return smoother(*self.log_features(q_BHND, k_BHND, state), state, is_causal=self.is_causal)(v_BHND)

    def log_features(self, q_BHND: Tensor, k_BHND: Tensor, state: ForwardState | None = None) -> tuple[Tensor, Tensor]:
        """Return the logarithms of the features of queries and keys, (B, H, N, F) each, up to factors that cancel."""
        scale = q_BHND.shape[-1] ** -0.25
        log_queries_BHNF = (q_BHND * scale) @ self.projection.T
        log_keys_BHNF = (k_BHND * scale) @ self.projection.T
        key_halves_BHN1 = (k_BHND * scale).square().sum(-1, keepdim=True) / 2
        if self.epsilon is None:
            # The features of one query share |q|^2 / 2, and all of them sqrt(F): both cancel in the weights.
            return log_queries_BHNF, log_keys_BHNF - key_halves_BHN1
        query_halves_BHN1 = (q_BHND * scale).square().sum(-1, keepdim=True) / 2
        of_queries = log_queries_BHNF.amax(dim=-1, keepdim=True)
        return (
            raised(log_queries_BHNF, query_halves_BHN1, self.epsilon, of_queries),
            raised(log_keys_BHNF, key_halves_BHN1, self.epsilon, self.largest(without_padding(log_keys_BHNF, state))),
        )

    def largest(self, products_BHNF: Tensor) -> Tensor:
        """Return m of the keys, the largest w . x of each head, (B, H, 1, 1); in a causal form 0, (B, H, N, 1)."""
        if self.is_causal:
            return torch.zeros_like(products_BHNF[..., :1])
        return products_BHNF.amax(dim=(-2, -1), keepdim=True)


def raised(products_BHNF: Tensor, halves_BHN1: Tensor, epsilon: float, largest: Tensor) -> Tensor:
    """Return ln(exp(w . x - |x|^2 / 2 - m) + epsilon), of the same shape, with m ``largest``."""
    floor = products_BHNF.new_full((), math.log(epsilon))
    return torch.logaddexp(products_BHNF - halves_BHN1 - largest, floor)


def orthogonal_gaussian(num_features: int, head_dim: int, seed: int) -> Tensor:
    """Return (F, D) Gaussian rows in float64 on the CPU, orthogonal within each block of D; equal seeds, equal rows."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu")

    num_blocks = -(-num_features // head_dim)
    q_PDD, r_PDD = torch.linalg.qr(normal(num_blocks, head_dim, head_dim))
    uniform_PDD = q_PDD * r_PDD.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
    lengths_F1 = normal(num_features, head_dim).norm(dim=-1, keepdim=True)
    projection_FD: Tensor = lengths_F1 * uniform_PDD.reshape(-1, head_dim)[:num_features]
    return projection_FD
