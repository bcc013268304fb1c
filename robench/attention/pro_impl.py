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
where z is near a value, as it often becomes. It is held above eps^2 (|v|^2 + |z|^2), which the format of z does not
resolve (in float64 above 4 eps), and has no gradient there. So weights are finite; they are normalised as logarithms.

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
        weights_BHNM: Tensor = scores_BHNM.softmax(dim=-1)
        logits_BHNM = scores_BHNM
        for _ in range(self.declaration.num_steps):
            distances_BHNM = distances(weights_BHNM @ v_BHMD, v_BHMD)
            log_weights_BHNM = log_weights(distances_BHNM, self.declaration)
            reweighted_BHNM = scores_BHNM + log_weights_BHNM.to(scores_BHNM.dtype)
            vanished_BHN1 = reweighted_BHNM.isneginf().all(dim=-1, keepdim=True)
            logits_BHNM = torch.where(vanished_BHN1, logits_BHNM, reweighted_BHNM)
            weights_BHNM = logits_BHNM.softmax(dim=-1)
        return weights_BHNM


def distances(z_BHND: Tensor, v_BHMD: Tensor) -> Tensor:
    """Return |z - v|, (B, H, N, M), held above what the format of z resolves, in float32 or a longer format."""
    eps = max(torch.finfo(z_BHND.dtype).eps ** 2, 4 * torch.finfo(torch.float64).eps)
    dtype = torch.promote_types(z_BHND.dtype, torch.float32)
    z_BHND, v_BHMD = z_BHND.double(), v_BHMD.double()
    lengths_BHNM = z_BHND.square().sum(dim=-1).unsqueeze(-1) + v_BHMD.square().sum(dim=-1).unsqueeze(-2)
    squares_BHNM = (lengths_BHNM - 2 * z_BHND @ v_BHMD.transpose(-2, -1)).to(dtype)
    least_BHNM = eps * lengths_BHNM.detach().to(dtype) + _LEAST_SQUARE
    return torch.maximum(squares_BHNM, least_BHNM).sqrt()


def log_weights(distances_BHNM: Tensor, declaration: Pro) -> Tensor:
    """Return ln w of each distance, of the same shape; minus infinity for no weight."""
    is_released = declaration.formula == "released"
    r_BHNM = distances_BHNM + _RELEASED_EPSILON if is_released else distances_BHNM
    delta, gamma = declaration.delta, declaration.gamma
    if declaration.penalty == "l1":
        return -r_BHNM.log()
    if declaration.penalty == "huber":
        return -(r_BHNM / delta).clamp(min=1).log()
    weights_BHNM = 1 / r_BHNM - 1 / gamma
    if declaration.penalty == "huber-mcp":
        weights_BHNM = (weights_BHNM * (gamma * delta / (gamma - delta))).clamp(max=1)
    if is_released:
        return weights_BHNM.clamp(min=_RELEASED_EPSILON).log()
    # 1 where there is no weight, since an unused logarithm would still corrupt the gradient.
    has_weight_BHNM = weights_BHNM > 0
    return torch.where(has_weight_BHNM, weights_BHNM, 1.0).log().masked_fill(~has_weight_BHNM, -torch.inf)
