"""KDE attention: kernel regression on normalised keys, h_i = sum_j v_j k(q_i - k_j) / sum_j k(q_i - k_j).

Source: Han et al. 2023, Designing Robust Transformers using Robust Kernel Density Estimation, arXiv:2210.05794,
equation 3, with the Gaussian kernel k(x) = exp(-c |x|^2); keys have length 1, queries keep theirs. Two formulas,
chosen by a field:

* ``paper``: sigma^2 = sqrt(D), c = 1 / (2 sqrt(D)): softmax attention on normalised keys.
* ``released``: the authors' code (robust_transformer, imagenet/models.py) has c = 1 / sqrt(D): logits twice as large.

Where this differs: the rows are computed without |q|^2, which cancels. A key that is zero stays zero.

Causal form: kernel regression of each query on its own and earlier normalised keys.

Source: Han et al. 2023, arXiv:2210.05794, equation 3, as in ``kde``, masked like the authors' language model
(robust_transformer, src/mem_transformer.py), whose kernel is the released formula's. Their released RKDE language model
is this one: it sets weights on the masked future, where all kernels are zero, and so they stay uniform.

Cost: that of softmax attention.
"""

from torch import Tensor

from robench.attention.geometry import Geometry
from robench.attention.kde import Kde
from robench.attention.kernels import gaussian_scores, precision_of, unit
from robench.attention.projected import WeightedAttention
from robench.attention.state import ForwardState


class KdeAttention(WeightedAttention):
    """KDE attention over tokens (B, N, C) -> (B, N, C)."""

    takes_masks = True

    def __init__(self, declaration: Kde, geometry: Geometry) -> None:
        super().__init__(declaration, geometry)
        self.precision = precision_of(declaration.formula, geometry.head_dim)

    def weights(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, N)."""
        q_BHND, k_BHND, _ = heads
        scores_BHNN = gaussian_scores(q_BHND, unit(k_BHND), self.precision)
        return self.masked(scores_BHNN, state).softmax(dim=-1)
