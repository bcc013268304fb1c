"""Robust KDE attention: h_i = sum_j v_j w_j k(q_i - k_j) / sum_j u_j k(q_i - k_j), with less weight for outliers.

Source: Han et al. 2023, Designing Robust Transformers using Robust Kernel Density Estimation, arXiv:2210.05794,
Algorithm 1 and appendix B. k is the Gaussian kernel of ``kde``, keys normalised. The weights w of the joint density,
of x_j = [k_j, v_j], and u of the marginal one, of x_j = k_j, are each found by iteratively re-weighted least squares
(equations 25 and 26):

    h_j^2 = k(x_j, x_j) - 2 sum_m w_m k(x_m, x_j) + sum_mn w_m w_n k(x_m, x_n),    w_j = psi(h_j) / sum_m psi(h_m)

They start uniform (random in the paper, uniform in the code) and stay as they are where all would vanish. psi(h) is
rho'(h) / h of a robust loss rho with the threshold a:

    huber   1 up to a, then a / h (Han et al. 2023, equation 24)
    hampel  1 up to a, a / h up to b = 2a, a (c - h) / ((c - b) h) up to c = 3a, then nothing (Kim & Scott 2012)
    welsch  exp(-(h / a)^2) (Holland & Welsch 1977)
    tukey   (1 - (h / a)^2)^2 up to a, then nothing (Beaton & Tukey 1974)

Han et al. print that of Huber alone, and b and c of Hampel; for the others the classic form is taken, without a factor
of 1/2 in Welsch's exponent. Logarithms of psi are computed, so that none is too small for the number format. Values are
not normalised, and both densities have the same bandwidth.

Two formulas, chosen by a field:

* ``paper``: as above, k(x, y) = exp(-|x - y|^2 / (2 sqrt(D))), so that k(x, x) = 1.
* ``released``: the authors' code (robust_transformer, imagenet/models.py) has exp(-|x - y|^2 / sqrt(D)), and adds
  sum_m w_m k(x_m, x_j) where the paper subtracts it twice, so that h lies in [1, sqrt(3)] and is *smaller* for
  outliers. So Huber with a <= 1 weighs all by 1 / h for any a, and Hampel with a <= 1/3 is plain KDE. Weights from
  Hampel's c on are 0.01. Welsch and Tukey are not in the code: here they apply their own psi to its h, without a tail.

Where this differs: from the second iteration on the code averages weights over the batch and all heads; here each head
of each example has its own, so that no example depends on its neighbours. Rows do not sum to one, in either formula. A
row's quotient has no bound where u vanishes and w does not, so a weight is held below the fourth root of the largest
number (4e9 in float32), where neither output nor gradient overflows.

Gradients are those of the unrolled iterations. ``implicit`` ones treat the last ln w as a fixed point ln w = T(ln w, G)
of the re-weighting T, after any number of iterations: d ln w = (I - J)^-1 (dT/dG) dG, with the Jacobian J of T by ln w,
solved directly for each head. Both agree once the weights have converged, and not after one or two iterations. Causal
forms, with weights of each prefix, have no implicit gradients.

Causal form: densities, and the weights of their keys, are of keys up to a token.

Source: Han et al. 2023, arXiv:2210.05794, Algorithm 1, as in ``rkde``; section 3.1 says that weights are matrices of
pairs of positions, and start uniform on the unmasked part of a text. A field, ``prefix``, chooses whose past counts:

* ``query``: the paper's. Query i has a density of the keys 0..i, and in it weights of its own: ``rkde`` on the first
  i + 1 tokens, for the last of them.
* ``key``: what the authors' code intends (robust_transformer, src/mem_transformer.py). psi of key j is found once, by
  its distance h_j from the mean of the keys 0..j, and query i divides it by the sum over the keys 0..i. Where all of
  these vanish, its weights stay as they are.
* ``none``: that code as released, which puts the weights at the start on the masked future, so that they stay uniform:
  causal ``kde``.

The last term of that code's h_j^2 is a mean over m <= j of the means over the keys up to m; here both means are over
the keys up to j. It divides psi by the sum over all keys, later ones too; here by the sum over those of the query's
past.

Padding starts with the weight 0 in both densities, and keeps it. In the causal form, whose padding comes after all
valid tokens, no valid query sees it.

Cost: a product of two N x N matrices for each iteration and density, O(N^3) operations where softmax attention has
O(N^2 D). About 20 N x N matrices are kept for gradients, where softmax attention keeps one, and 12 more for each
further iteration.
"""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from robench.attention.base import Formula
from robench.attention.geometry import Geometry
from robench.attention.gradients import with_gradient_of
from robench.attention.heads import causal
from robench.attention.kernels import gaussian_gram, gaussian_scores, precision_of, unit
from robench.attention.projected import WeightedAttention
from robench.attention.rkde import Rkde
from robench.attention.state import ForwardState


class RkdeAttention(WeightedAttention):
    """Robust KDE attention over tokens (B, N, C) -> (B, N, C)."""

    takes_masks = True

    def __init__(self, declaration: Rkde, geometry: Geometry) -> None:
        super().__init__(declaration, geometry)
        self.declaration = declaration
        self.precision = precision_of(declaration.formula, geometry.head_dim)
        # Weights of each prefix would need a matrix of keys for each query.
        self.gradient_modes = () if self.is_causal else ("implicit",)

    def weights(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, N)."""
        q_BHND, k_BHND, v_BHND = heads
        k_BHND = unit(k_BHND)
        joint_BHMM = gaussian_gram(torch.cat([k_BHND, v_BHND], dim=-1), self.precision)
        mask_BM = None if state is None else state.mask_BN
        return quotients(
            gaussian_scores(q_BHND, k_BHND, self.precision),
            self.log_weights(joint_BHMM, mask_BM),
            self.log_weights(gaussian_gram(k_BHND, self.precision), mask_BM),
        )

    def log_weights(self, gram_BHMM: Tensor, mask_BM: Tensor | None) -> Tensor:
        """Return the logarithms of the weights, (B, H, 1, M), in a causal form those of each prefix, (B, H, N, M)."""
        if self.is_causal:
            return prefix_log_weights(gram_BHMM, self.declaration)
        of = implicit_log_weights if self.gradient_mode == "implicit" else robust_log_weights
        return of(gram_BHMM, self.declaration, mask_BM).unsqueeze(-2)


def robust_log_weights(gram_BHMM: Tensor, declaration: Rkde, mask_BM: Tensor | None = None) -> Tensor:
    """Return the logarithms of each point's weight, (B, H, M), after the declared number of re-weightings.

    Points where the mask is false have the weight 0.
    """
    log_weights_BHM = torch.full_like(gram_BHMM[..., 0], -math.log(gram_BHMM.shape[-1]))
    if mask_BM is not None:
        log_weights_BHM = without_padding(log_weights_BHM, mask_BM).log_softmax(dim=-1)
    for _ in range(declaration.num_iterations):
        log_weights_BHM = reweighted(gram_BHMM, log_weights_BHM, declaration, mask_BM)
    return log_weights_BHM


def without_padding(logarithms_BHM: Tensor, mask_BM: Tensor | None) -> Tensor:
    """Return logarithms of weights that are minus infinity where the mask is false."""
    return logarithms_BHM if mask_BM is None else logarithms_BHM.masked_fill(~mask_BM[:, None], -torch.inf)


def reweighted(gram_BHMM: Tensor, log_weights_BHM: Tensor, declaration: Rkde, mask_BM: Tensor | None) -> Tensor:
    """Return the logarithms of the weights, (B, H, M), after one re-weighting."""
    squared_BHM = squared_distances(gram_BHMM, log_weights_BHM, declaration.formula)
    log_psi_BHM = without_padding(log_psi(squared_BHM, declaration), mask_BM)
    vanished_BH1 = log_psi_BHM.isneginf().all(dim=-1, keepdim=True)
    return torch.where(vanished_BH1, log_weights_BHM, log_psi_BHM).log_softmax(dim=-1)


def implicit_log_weights(gram_BHMM: Tensor, declaration: Rkde, mask_BM: Tensor | None = None) -> Tensor:
    """Return the same as ``robust_log_weights``, with implicit gradients (I - J)^-T at the last weights.

    Where I - J is singular, as where all weights vanish, it is replaced by I.
    """
    fixed_BHMM = gram_BHMM.detach()
    log_weights_BHM = robust_log_weights(fixed_BHMM, declaration, mask_BM)
    if not (torch.is_grad_enabled() and gram_BHMM.requires_grad):
        return log_weights_BHM

    def again(logarithms_BHM: Tensor) -> Tensor:
        return reweighted(fixed_BHMM, logarithms_BHM, declaration, mask_BM)

    identity_MM = torch.eye(fixed_BHMM.shape[-1], dtype=fixed_BHMM.dtype, device=fixed_BHMM.device)
    pulled_back = torch.func.vjp(again, log_weights_BHM)[1]
    rows_MBHM = torch.func.vmap(pulled_back)(identity_MM[:, None, None].expand(-1, *log_weights_BHM.shape))[0]
    inverse_BHMM, is_singular_BH = torch.linalg.inv_ex(identity_MM - rows_MBHM.movedim(0, -2))
    inverse_BHMM = torch.where(is_singular_BH[..., None, None] == 0, inverse_BHMM, identity_MM).detach()
    following_BHM = reweighted(gram_BHMM, log_weights_BHM, declaration, mask_BM)
    return with_gradient_of(log_weights_BHM, (inverse_BHMM @ following_BHM.unsqueeze(-1)).squeeze(-1))


def log_psi(squared: Tensor, declaration: Rkde) -> Tensor:
    """Return ln psi of each point, of the shape of h^2."""
    tail = 0.01 if declaration.loss == "hampel" and declaration.formula == "released" else 0.0
    return LOG_WEIGHTS[declaration.loss](squared, declaration.threshold, tail)


def squared_distances(gram_BHMM: Tensor, log_weights_BHM: Tensor, formula: Formula) -> Tensor:
    """Return h^2 of each point, (B, H, M): its squared distance from the weighted mean in the kernel's space."""
    weights_BHM = log_weights_BHM.exp()
    to_mean_BHM = (gram_BHMM @ weights_BHM.unsqueeze(-1)).squeeze(-1)
    of_mean_BH1 = (weights_BHM * to_mean_BHM).sum(dim=-1, keepdim=True)
    if formula == "released":
        return 1 + to_mean_BHM + of_mean_BH1
    return (1 - 2 * to_mean_BHM + of_mean_BH1).clamp(min=0)


def prefix_log_weights(gram_BHNN: Tensor, declaration: Rkde) -> Tensor:
    """Return the logarithms of each prefix's weights, (B, H, N, N): row i for keys 0..i, minus infinity for others."""
    log_weights_BHNN = causal(torch.zeros_like(gram_BHNN)).log_softmax(dim=-1)
    for _ in range(0 if declaration.prefix == "none" else declaration.num_iterations):
        squared_BHNN = prefix_squared_distances(gram_BHNN, log_weights_BHNN.exp(), declaration.formula)
        if declaration.prefix == "key":
            squared_BHNN = squared_BHNN.diagonal(dim1=-2, dim2=-1).unsqueeze(-2).expand_as(squared_BHNN)
        log_psi_BHNN = causal(log_psi(squared_BHNN, declaration))
        vanished_BHN1 = log_psi_BHNN.isneginf().all(dim=-1, keepdim=True)
        log_weights_BHNN = torch.where(vanished_BHN1, log_weights_BHNN, log_psi_BHNN).log_softmax(dim=-1)
    return log_weights_BHNN


def prefix_squared_distances(gram_BHNN: Tensor, weights_BHNN: Tensor, formula: Formula) -> Tensor:
    """Return h^2 of each key j, (B, H, N, N), from the weighted mean of the keys 0..i; for j > i it has no meaning."""
    to_mean_BHNN = weights_BHNN @ gram_BHNN
    of_mean_BHN1 = (weights_BHNN * to_mean_BHNN).sum(dim=-1, keepdim=True)
    if formula == "released":
        return 1 + to_mean_BHNN + of_mean_BHN1
    return (1 - 2 * to_mean_BHNN + of_mean_BHN1).clamp(min=0)


def quotients(scores_BHNM: Tensor, log_joint: Tensor, log_marginal: Tensor) -> Tensor:
    """Return w_j k(q_i - k_j) / sum_m u_m k(q_i - k_m), of shape (B, H, N, M), from the logarithms.

    Weights are the same for all queries, (B, H, 1, M), or those of each query, (B, H, N, M). Quotients are held below
    the fourth root of the largest number.
    """
    marginal_BHN1 = (log_marginal + scores_BHNM).logsumexp(dim=-1, keepdim=True)
    log_quotients_BHNM = log_joint + scores_BHNM - marginal_BHN1
    return log_quotients_BHNM.clamp(max=math.log(torch.finfo(log_quotients_BHNM.dtype).max) / 4).exp()


# Functions of h^2 (squared), because its root has no gradient where points coincide.
def log_huber(squared: Tensor, threshold: float, tail: float) -> Tensor:
    """Return ln psi; it never vanishes, so that ``tail`` is unused."""
    return -0.5 * (squared / threshold**2).clamp(min=1).log()


def log_hampel(squared: Tensor, threshold: float, tail: float) -> Tensor:
    """Return ln psi, and ln ``tail`` from 3a on."""
    remaining = 3 - (squared / threshold**2).clamp(min=1).sqrt()
    descent = _log_where(remaining > 0, remaining.clamp(max=1))
    return (log_huber(squared, threshold, tail) + descent).masked_fill(remaining <= 0, _log(tail))


def log_welsch(squared: Tensor, threshold: float, tail: float) -> Tensor:
    """Return ln psi; it never vanishes, so that ``tail`` is unused."""
    return -squared / threshold**2


def log_tukey(squared: Tensor, threshold: float, tail: float) -> Tensor:
    """Return ln psi, and ln ``tail`` from a on."""
    remaining = 1 - squared / threshold**2
    return (2 * _log_where(remaining > 0, remaining)).masked_fill(remaining <= 0, _log(tail))


def _log_where(positive: Tensor, x: Tensor) -> Tensor:
    # 1 elsewhere, since an unused logarithm would still corrupt the gradient.
    return torch.where(positive, x, 1.0).log()


def _log(tail: float) -> float:
    return math.log(tail) if tail else -math.inf


LOG_WEIGHTS: Mapping[str, Callable[[Tensor, float, float], Tensor]] = {
    "huber": log_huber,
    "hampel": log_hampel,
    "welsch": log_welsch,
    "tukey": log_tukey,
}
