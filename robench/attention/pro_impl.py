"""ProAttention: a query's output is the robust mean of the values, z = argmin sum_j A_j rho(|v_j - z|).

Source: Hou, Gao, Shen, Wang & Liu 2024, ProTransformer: Robustify Transformers via Plug-and-Play Paradigm,
arXiv:2410.23182, section 3 (Newton-IRLS). A are the softmax weights, with which rho(r) = r^2 is softmax attention. From
z = A V, each of ``num_steps`` steps is

    z <- sum_j A_j w_j v_j / sum_j A_j w_j,    w_j proportional to rho'(r_j) / r_j,  r_j = |v_j - z|

with the weights w of a penalty rho:

    l1         1 / r
    huber      1 up to delta, then delta / r
    mcp        1 / r - 1 / gamma up to gamma, then nothing
    huber-mcp  1 up to delta, then delta (gamma / r - 1) / (gamma - delta) up to gamma, then nothing

Factors that all weights share cancel. There are no parameters beside those of softmax attention, whose weights the
paper uses without training. Its authors' code for images has ``mcp`` with gamma = 4 and three steps, the defaults here;
its delta is 4 where this one is 1, so that ``huber-mcp`` has a delta below gamma.

Two formulas, chosen by a field:

* ``paper``: as above. A query all of whose values would have no weight keeps its estimate z.
* ``released``: the authors' code (ProTransformer, protransformers/pro_attention.py) adds 0.01 to every r, and does not
  let w fall below 0.01 with ``mcp`` and ``huber-mcp``, so that no weight vanishes.

Where this differs: r^2 = |v|^2 - 2 v.z + |z|^2 is of a product of matrices in float64 in any pass, since it cancels
where z is near a value, as it often becomes. It is held above 2 eps^2 |z|^2, which the format of z does not resolve (in
float64 above 8 eps), and has no gradient there. So weights are finite. Steps are computed in float32 at least; a query
has no weights if all A_j w_j are below its smallest numbers.

Gradients are those of the unrolled steps.

Causal form: the robust mean of the values up to each query, with A the causal softmax weights.

Source: Hou et al. 2024, arXiv:2410.23182, section 3, as in ``pro``, whose A may have any zeros; the authors' code has
it for LLaMA.

Cost: two products of N x N matrices with values for each step, where softmax attention has two products in all. For
gradients about 8 N x N matrices are kept for each step, where softmax attention keeps one.
"""

import torch
from torch import Tensor

from robench.attention.geometry import Geometry
from robench.attention.heads import dot_scores
from robench.attention.pro import Pro
from robench.attention.projected import WeightedAttention
from robench.attention.state import ForwardState

# Added to distances, and the least weight, in the authors' code.
_RELEASED_EPSILON = 1e-2
# Least square of a distance, where all values are zero.
_LEAST_SQUARE = 1e-20


class ProAttention(WeightedAttention):
    """ProAttention over tokens (B, N, C) -> (B, N, C)."""

    takes_masks = True

    def __init__(self, declaration: Pro, geometry: Geometry) -> None:
        super().__init__(declaration, geometry)
        self.declaration = declaration

    def weights(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return A w / sum A w of the last step, (B, H, N, M)."""
        q_BHND, k_BHMD, v_BHMD = heads
        scores_BHNM = self.masked(dot_scores(q_BHND, k_BHMD), state)
        dtype = torch.promote_types(scores_BHNM.dtype, torch.float32)
        softmax_BHNM: Tensor = scores_BHNM.softmax(dim=-1, dtype=dtype)
        # A w of the last step that left any, and its sum.
        weighted_BHNM, total_BHN1 = softmax_BHNM, softmax_BHNM.new_ones(1)
        for _ in range(self.declaration.num_steps):
            mean_BHND = weighted_BHNM @ v_BHMD.to(dtype) / total_BHN1
            reweighted_BHNM = softmax_BHNM * penalty_weights(mean_BHND, v_BHMD, self.declaration).to(dtype)
            vanished_BHN1 = reweighted_BHNM.sum(dim=-1, keepdim=True) == 0
            weighted_BHNM = torch.addcmul(reweighted_BHNM, weighted_BHNM, vanished_BHN1.to(dtype))
            total_BHN1 = weighted_BHNM.sum(dim=-1, keepdim=True)
        return (weighted_BHNM / total_BHN1).to(scores_BHNM.dtype)


def squared_distances(z_BHND: Tensor, v_BHMD: Tensor) -> Tensor:
    """Return |z - v|^2, (B, H, N, M), held above what the format of z resolves, in float32 or a longer format."""
    eps = max(torch.finfo(z_BHND.dtype).eps ** 2, 4 * torch.finfo(torch.float64).eps)
    dtype = torch.promote_types(z_BHND.dtype, torch.float32)
    z_BHND, v_BHMD = z_BHND.double(), v_BHMD.double()
    z_squares_BHN1, v_squares_BHM1 = (each.square().sum(dim=-1, keepdim=True) for each in (z_BHND, v_BHMD))
    # One product with all three terms of the square.
    left = torch.cat([-2 * z_BHND, z_squares_BHN1, torch.ones_like(z_squares_BHN1)], dim=-1)
    right = torch.cat([v_BHMD, torch.ones_like(v_squares_BHM1), v_squares_BHM1], dim=-1)
    squares_BHNM: Tensor = (left @ right.transpose(-2, -1)).to(dtype)
    return squares_BHNM.clamp(min=(2 * eps * z_squares_BHN1.detach() + _LEAST_SQUARE).to(dtype))


def penalty_weights(z_BHND: Tensor, v_BHMD: Tensor, declaration: Pro) -> Tensor:
    """Return the weight w of each value for each estimate z, (B, H, N, M)."""
    is_released, delta, gamma = declaration.formula == "released", declaration.delta, declaration.gamma
    squares_BHNM = squared_distances(z_BHND, v_BHMD)
    inverse_BHNM = 1 / (squares_BHNM.sqrt() + _RELEASED_EPSILON) if is_released else squares_BHNM.rsqrt()
    if declaration.penalty == "l1":
        return inverse_BHNM
    if declaration.penalty == "huber":
        return (delta * inverse_BHNM).clamp(max=1)
    least = _RELEASED_EPSILON if is_released else 0
    if declaration.penalty == "mcp":
        return (inverse_BHNM - 1 / gamma).clamp(min=least)
    return ((inverse_BHNM - 1 / gamma) * (gamma * delta / (gamma - delta))).clamp(min=least, max=1)
