"""RPC-Attention: principal attention pursuit splits the keys into a low-rank part, its output, and a sparse part.

Source: Teo & Nguyen 2024, Algorithm 1 and Definition 1. From S = L = Y = 0, for each of n iterations

    S <- shrink(K - L + Y / mu, threshold)
    L <- softmax(K' K'^T / sqrt(D)) V,  K' = K - S - Y / mu
    Y <- Y + mu (K - L - S)

with shrink(x, t) = sgn(x) max(|x| - t, 0). The output is the last L; V itself is never cleaned. ``qkv`` is [2C, C],
order k, v, with bias.

Two formulas, chosen by a field:

* ``paper``: threshold lambda / mu with mu = N D / (4 |K|_1), D the width of a head.
* ``released``: what the authors' code computes (KPCA_code, Robust/softmax.py): threshold lambda * mu with
  mu = N C / (4 |K|_1), C the width of all heads together. Not a change of units: where keys are large the paper's
  threshold grows and S stays sparse, the code's shrinks and S becomes dense.

In both, |K|_1 is the sum of absolute entries of one example's head, and gradients flow through everything, mu included.

Where this differs: mu is the same in all iterations, so the multiplier is kept as U = Y / mu (the scaled dual form of
ADMM, Boyd et al. 2011, section 3.1.1) and mu itself enters through the threshold alone; the results agree up to
rounding. So K = 0, where mu would be infinite, needs no exception: the paper's threshold is lambda * 4 mean|K| = 0, and
for the code's the mean is held above eps^2 of the number format (1e-14 in float32), below which no entry passes the
threshold anyway unless lambda is 0. All tokens then weigh the same, and the output is V's mean.

Other gradients of the same output: ``sparse_part`` keeps those by K where the last S is not zero, and sets the rest to
zero (those by V stay); ``smooth`` replaces shrink, which is flat within its threshold t, by

    w softplus((x - t) / w) - w softplus((-x - t) / w),  w = t / 4

in the backward pass, whose slope by x is between 0.04 (at 0) and 1.

Causal form: principal attention pursuit with one mu for each token, masked in every iteration.

Source: Teo & Nguyen 2024, Algorithm 1, which the paper runs in the first four layers of its language model without
saying how that is made causal (section 4.2). Here mu_j, and so the threshold of token j's row of S, is of the keys of
tokens 0..j,

    mu_j = (j + 1) D / (4 |K_0..j|_1)

(with C in place of D in the released formula), and the softmax of each iteration is over a token's own and earlier
cleaned keys. All else is row by row, as in ``rpc``. The authors' code of RPC's language model is not published.

Cost: ``num_iterations`` causal softmax attentions.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from robench.attention.geometry import Geometry
from robench.attention.gradients import with_gradient_of
from robench.attention.heads import running_mean
from robench.attention.projected import DotAttention, ProjectedAttention
from robench.attention.rpc import Rpc
from robench.attention.state import ForwardState

GRADIENT_MODES = ("smooth", "sparse_part")
# Width of the smooth step at the threshold, as a part of it.
SMOOTH_WIDTH = 1 / 4


class RpcAttention(DotAttention):
    """RPC-Attention over tokens (B, N, C) -> (B, N, C); ``declaration.layers`` is read by the caller."""

    gradient_modes = GRADIENT_MODES

    def __init__(self, declaration: Rpc, geometry: Geometry) -> None:
        super().__init__(declaration, geometry, num_projections=2)
        self.declaration = declaration

    def compared(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> tuple[Tensor, Tensor]:
        """Return the keys of the last iteration twice; they depend on the values where there are several."""
        cleaned_BHND = self.cleaned(heads)
        return cleaned_BHND, cleaned_BHND

    def cleaned(self, heads: tuple[Tensor, ...]) -> Tensor:
        """Return the keys of the last iteration, (B, H, N, D)."""
        k_BHND, v_BHND = heads
        return cleaned_keys(self, self.declaration, k_BHND, v_BHND)


def cleaned_keys(
    attention: ProjectedAttention, declaration: Rpc, k_BHND: Tensor, v_BHND: Tensor, q_BHND: Tensor | None = None
) -> Tensor:
    """Return the cleaned keys of the last iteration, (B, H, N, D), with the attention's mode of gradients."""

    def pursued(k_BHND: Tensor) -> tuple[Tensor, Tensor]:
        threshold = threshold_of(k_BHND, declaration, is_causal=attention.is_causal)
        shrinking = smooth_shrink if attention.gradient_mode == "smooth" else shrink
        return pursue(
            k_BHND, v_BHND, threshold, declaration.num_iterations, q_BHND, attend=attention.attend, shrinking=shrinking
        )

    if attention.gradient_mode == "sparse_part" and torch.is_grad_enabled():
        with torch.no_grad():
            sparse_BHND = pursued(k_BHND)[1]
        k_BHND = with_gradient_of(k_BHND, k_BHND * (sparse_BHND != 0))
    return pursued(k_BHND)[0]


def pursue(
    k_BHND: Tensor,
    v_BHND: Tensor,
    threshold: Tensor,
    num_iterations: int,
    q_BHND: Tensor | None = None,
    *,
    attend: Callable[[Tensor, Tensor, Tensor], Tensor],
    shrinking: Callable[[Tensor, Tensor], Tensor],
) -> tuple[Tensor, Tensor]:
    """Return K' and S, (B, H, N, D) each, of the last of ``num_iterations`` of principal attention pursuit.

    The output is softmax attention of these keys to the values. The threshold is one for each head, (B, H, 1, 1), or
    one for each of its tokens, (B, H, N, 1). Without separate queries, the cleaned keys are also the queries.
    """
    low_rank_BHND = scaled_dual_BHND = torch.zeros_like(k_BHND)
    for iteration in range(num_iterations):
        sparse_BHND = shrinking(k_BHND - low_rank_BHND + scaled_dual_BHND, threshold)
        cleaned_BHND = k_BHND - sparse_BHND - scaled_dual_BHND
        if iteration < num_iterations - 1:
            low_rank_BHND = attend(cleaned_BHND if q_BHND is None else q_BHND, cleaned_BHND, v_BHND)
            scaled_dual_BHND = scaled_dual_BHND + (k_BHND - low_rank_BHND - sparse_BHND)
    return cleaned_BHND, sparse_BHND


def shrink(x_BHND: Tensor, threshold: Tensor) -> Tensor:
    """Return each entry moved towards zero by the threshold, stopping at zero."""
    return x_BHND.sign() * (x_BHND.abs() - threshold).relu()


def smooth_shrink(x_BHND: Tensor, threshold: Tensor) -> Tensor:
    """Return ``shrink`` with the gradients of w softplus((x - t) / w) - w softplus((-x - t) / w), w = t / 4."""
    with torch.no_grad():
        width = (SMOOTH_WIDTH * threshold).clamp(min=torch.finfo(threshold.dtype).tiny)
        above_BHND, below_BHND = (((sign * x_BHND - threshold) / width).sigmoid() for sign in (1, -1))
    surrogate_BHND = (above_BHND + below_BHND) * x_BHND + (below_BHND - above_BHND) * threshold
    return with_gradient_of(shrink(x_BHND, threshold), surrogate_BHND)


def threshold_of(k_BHND: Tensor, declaration: Rpc, *, is_causal: bool) -> Tensor:
    """Return the threshold of each example's head, (B, H, 1, 1), by the declared formula.

    With ``is_causal`` each token has one, of the keys up to it, (B, H, N, 1).
    """
    sizes_BHND = k_BHND.abs()
    if is_causal:
        mean = running_mean(sizes_BHND.mean(dim=-1, keepdim=True))
    else:
        mean = sizes_BHND.mean(dim=(-2, -1), keepdim=True)
    if declaration.formula == "paper":
        return declaration.sparsity * 4 * mean
    # The bound is far above the square root of the smallest number, so that the gradient, in 1 / mean^2, is finite too.
    mean = mean.clamp(min=torch.finfo(mean.dtype).eps ** 2)
    num_heads = mean.shape[1]
    return declaration.sparsity * num_heads / (4 * mean)
