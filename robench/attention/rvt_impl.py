"""Position-aware attention scaling of RVT: the logits are multiplied by the sigmoid of a learned matrix.

Source: Mao et al. 2022, arXiv:2105.07926 (Towards Robust Vision Transformer), with the matrix W_p as in its code:

    H = softmax(W_p * Q K^T / sqrt(D)) V,  * elementwise, W_p = sigmoid(``att_mask``), of shape [H, N, N]

In RVT itself there is no class token, and only some blocks are scaled. Here every layer is and the class token is
included, as in the code of Robust KDE, one of whose baselines this is (robust_transformer, imagenet/models.py,
RvtAttention). Two formulas, chosen by a field:

* ``paper``: the keys are as projected, as in RVT and its own code.
* ``released``: the keys are of unit length, as in that of Robust KDE (those shorter than 1e-12 are divided by 1e-12).

Both codes leave ``att_mask`` uninitialised; here it starts at zero, which halves every logit. Softmax attention is the
limit of large entries, with keys of unit length in the released form.
"""

import torch
from torch import Tensor, nn

from robench.attention.geometry import Geometry
from robench.attention.heads import dot_scores
from robench.attention.kernels import unit
from robench.attention.projected import WeightedAttention
from robench.attention.rvt import Rvt
from robench.attention.state import ForwardState


class RvtAttention(WeightedAttention):
    """Position-aware scaled attention over tokens (B, N, C) -> (B, N, C), for a fixed N."""

    def __init__(self, declaration: Rvt, geometry: Geometry) -> None:
        super().__init__(declaration, geometry)
        self.normalises_keys = declaration.formula == "released"
        self.att_mask = nn.Parameter(torch.zeros(geometry.num_heads, geometry.num_tokens, geometry.num_tokens))

    def weights(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, N)."""
        q_BHND, k_BHND, _ = heads
        if self.normalises_keys:
            k_BHND = unit(k_BHND)
        scores_BHNN = dot_scores(q_BHND, k_BHND) * self.att_mask.sigmoid()
        return scores_BHNN.softmax(dim=-1)
