"""Scaled attention: H = softmax(Q K^T / sqrt(D)) (I - S) V with a learned S, zero at start.

Source: Teo & Nguyen 2024, remark 3, equation 12, and appendix E.1. Two parameterizations of S, both learned for each
layer:

* ``matrix``: S = ``s`` itself, [H, N, N], one matrix a head; the factor 1 / N of remark 3 is absorbed.
* ``scalar``: S = s softmax(K K^T / sqrt(D)) with ``s`` of shape [1], shared by the heads. Appendix E.1 derives
  S = A_sym / (N A_sym^T), elementwise, and lets s be the reciprocal.

Paper and released code (KPCA_code, Scaled_Attention/softmax.py) agree. The paper's figures call the second one
"alpha x Asym", its text alpha A_sym; the text and the code are followed. Here (I - S) V is computed as V - S V.
"""

import torch
from torch import Tensor, nn

from robench.attention.geometry import Geometry
from robench.attention.heads import attend
from robench.attention.projected import ProjectedAttention
from robench.attention.scaled import Scaled
from robench.attention.state import ForwardState


class ScaledAttention(ProjectedAttention):
    """Scaled attention over tokens (B, N, C) -> (B, N, C); ``matrix`` requires a fixed number of tokens."""

    def __init__(self, declaration: Scaled, geometry: Geometry) -> None:
        super().__init__(declaration, geometry)
        self.parameterization = declaration.parameterization
        of_matrix = (geometry.num_heads, geometry.num_tokens, geometry.num_tokens)
        self.s = nn.Parameter(torch.zeros(of_matrix if self.parameterization == "matrix" else (1,)))

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        q_BHND, k_BHND, v_BHND = heads
        return attend(q_BHND, k_BHND, v_BHND - self.shift(k_BHND, v_BHND))

    def shift(self, k_BHND: Tensor, v_BHND: Tensor) -> Tensor:
        """Return S V, (B, H, N, D)."""
        if self.parameterization == "matrix":
            return self.s @ v_BHND
        return self.s * attend(k_BHND, k_BHND, v_BHND)
