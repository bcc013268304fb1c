"""SPKDE attention: h_i = sum_j v_j w_j k(q_i - k_j) / sum_j u_j k(q_i - k_j), with weights by scaling and projecting.

Source: Han et al. 2023, Designing Robust Transformers using Robust Kernel Density Estimation, arXiv:2210.05794,
Algorithm 1 and equations 6 to 9, after Vandermeulen & Scott 2014. k is the Gaussian kernel of ``kde``, keys normalised.
The weights w of the joint density, of x_j = [k_j, v_j], and u of the marginal one, of x_j = k_j, are each the weighted
density nearest to beta times the usual one, in the space of the kernel:

    min_w  w^T G w / 2 - q^T w,  w >= 0,  sum w = 1,    G_jm = k(x_j - x_m),  q = (beta / N) G 1

(equation 7, halved), a quadratic program for each example, head and density, solved in float64 by ``simplex_qp``. For
beta = 1 all weights are 1 / N, and this is ``kde``; for large beta all weight goes to the densest point.

Two formulas, chosen by a field:

* ``paper``: k(x) = exp(-|x|^2 / (2 sqrt(D))), D the width of a head, for the joint density too. Gradients flow through
  the weights, which the paper does not specify.
* ``released``: the authors' code (robust_transformer, imagenet/models.py) has k(x) = exp(-|x|^2 / sqrt(D)), and solves
  for the weights apart from the graph (cvxopt), so that no gradient flows through them. The program is the same.

Where this differs: the code averages G over the batch and all heads and has one w and one u for all; here each head of
each example has its own, so that no example depends on its neighbours. The code's beta is 1 / (1 - f), with an outlier
fraction f of 0.1 on its command line (0.05 in its classes) where none is given; here it is the paper's 1.4 in both.

Rows do not sum to one. A row's quotient has no bound where u vanishes and w does not, so weights are held above 1e-15,
their rounding (the code's solver stops short of zero, at about 1e-9), and quotients below the bound of ``rkde``. For
equal tokens G is singular, and they get equal weights by the solver's ridge: 1e-11 in float64, 1e-7 where gradients are
float32 or coarser (the objective is within 1e-8 there too), and a bound on the rounding of distances, which counts for
values of size 50 and more.

Padding has the weight 0 in both densities. In the causal form, whose padding comes after all valid tokens, no valid
query sees it.

Causal form: a quadratic program for the past of each query.

Source: Han et al. 2023, arXiv:2210.05794, Algorithm 1 and equations 6 to 9, as in ``spkde``: query i has the weights of
the densities of the keys 0..i: ``spkde`` on the first i + 1 tokens, for the last of them. The paper prints results of a
language model without more details, and the authors' code has none.

Cost: 2 N quadratic programs a head in place of 2, each O(n^3) for n keys, and so O(N^4) operations where softmax
attention has O(N^2 D), and O(N^3) numbers in memory under gradients. 256 tokens take 256 times the operations of 64.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from robench.attention.geometry import Geometry
from robench.attention.kernels import gaussian_gram, gaussian_scores, precision_of, unit
from robench.attention.projected import WeightedAttention
from robench.attention.rkde_impl import quotients
from robench.attention.simplex_qp import RIDGE, mean_over, minimise_on_simplex
from robench.attention.spkde import Spkde
from robench.attention.state import ForwardState

SMALLEST_WEIGHT = 1e-15


class SpkdeAttention(WeightedAttention):
    """SPKDE attention over tokens (B, N, C) -> (B, N, C)."""

    takes_masks = True

    def __init__(self, declaration: Spkde, geometry: Geometry) -> None:
        super().__init__(declaration, geometry)
        self.beta = declaration.beta
        self.stops_gradients = declaration.formula == "released"
        self.precision = precision_of(declaration.formula, geometry.head_dim)

    def weights(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, N)."""
        q_BHND, k_BHND, v_BHND = heads
        k_BHND = unit(k_BHND)
        mask_BN = None if state is None else state.mask_BN
        return quotients(
            gaussian_scores(q_BHND, k_BHND, self.precision),
            self.row_log_weights(torch.cat([k_BHND, v_BHND], dim=-1), mask_BN),
            self.row_log_weights(k_BHND, mask_BN),
        )

    def row_log_weights(self, points_BHND: Tensor, mask_BN: Tensor | None) -> Tensor:
        """Return the logarithms of the weights, (B, H, 1, N), in a causal form for each prefix, (B, H, N, N).

        Those of padding and of keys after a prefix are minus infinity.
        """
        if not self.is_causal:
            return self.log_weights(points_BHND, mask_BN).unsqueeze(-2)
        num_tokens = points_BHND.shape[-2]
        rows = [
            pad(self.log_weights(points_BHND[..., :count, :]), (0, num_tokens - count), value=-torch.inf)
            for count in range(1, num_tokens + 1)
        ]
        return torch.stack(rows, dim=-2)

    def log_weights(self, points_BHND: Tensor, mask_BN: Tensor | None = None) -> Tensor:
        """Return the logarithms of the weights of the density of these points, (B, H, N), in their dtype.

        Points where the mask is false have the weight 0.
        """
        exact_BHND = points_BHND.double()
        gram_BHNN = gaussian_gram(exact_BHND, self.precision)
        if self.stops_gradients:
            gram_BHNN = gram_BHNN.detach()
        mask_BHN = None if mask_BN is None else mask_BN[:, None].expand(points_BHND.shape[:-1])
        weights_BHN = minimise_on_simplex(
            gram_BHNN,
            self.beta * mean_over(gram_BHNN, None if mask_BHN is None else mask_BHN.unsqueeze(-2)),
            ridge=ridges(points_BHND, self.precision, mask_BN),
            points=mask_BHN,
        )
        log_weights_BHN = weights_BHN.clamp(min=SMALLEST_WEIGHT).log().to(points_BHND.dtype)
        return log_weights_BHN if mask_BHN is None else log_weights_BHN.masked_fill(~mask_BHN, -torch.inf)


def ridges(points_BHND: Tensor, precision: float, mask_BN: Tensor | None = None) -> Tensor:
    """Return the ridge of each program, (B, H): the solver's or the rounding of gradients, and that of distances."""
    # Gradients come back in the points' dtype; the rounding of coarser ones than float32 would make weights uniform.
    least = RIDGE if points_BHND.dtype == torch.float64 else torch.finfo(torch.float32).eps
    squares_BHN = points_BHND.detach().double().square().sum(dim=-1)
    num_tokens, dim = points_BHND.shape[-2:]
    num_terms: Tensor | int = num_tokens + dim
    if mask_BN is not None:
        squares_BHN, num_terms = squares_BHN * mask_BN[:, None], mask_BN.sum(dim=-1, keepdim=True) + dim
    return least + num_terms * torch.finfo(torch.float64).eps * precision * squares_BHN.amax(dim=-1)
