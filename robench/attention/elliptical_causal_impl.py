"""Causal elliptical attention: W is of a token and its past, by running means in place of the mean over all tokens.

Source: Nielsen, Abdullaev, Teo & Nguyen 2024, arXiv:2406.13770, as in ``elliptical``, with one W_i for each query,

    H_i = sum_{j <= i} softmax_j(q_i^T W_i k_j / sqrt(D)) v_j

* ``over_layers``: W_i = diag(m_i) / max m_i, m_i the mean over tokens 0..i of |V - V'|.
* ``finite_differences``: the mean over tokens 0..i of the change of their outputs, with F the causal softmax attention.

The authors' language model has one W for a text, of all its tokens, so that each prediction depends on the words to be
predicted: it is not causal, and is not this.

Cost: that of softmax attention, and of a product with an N x N matrix; with ``finite_differences`` 2 D more attentions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from robench.attention.elliptical_impl import EllipticalAttention, normalised
from robench.attention.heads import causal, causal_attend, dot_scores
from robench.attention.running import running_mean

if TYPE_CHECKING:
    from torch import Tensor


class CausalEllipticalAttention(EllipticalAttention):
    """Causal elliptical attention over tokens (B, N, C) -> (B, N, C)."""

    def attend(self, q_BHND: Tensor, k_BHND: Tensor, v_BHND: Tensor) -> Tensor:
        """Return causal softmax attention, (B, H, N, D)."""
        return causal_attend(q_BHND, k_BHND, v_BHND)

    def relevance(self, v_BHND: Tensor, earlier_BHND: Tensor) -> Tensor:
        """Return the diagonal of each W_i, (B, H, N, D), in [0, 1]."""
        return normalised(running_mean((v_BHND - earlier_BHND).detach().abs()))

    @torch.no_grad()
    def sensitivity(self, q_BHND: Tensor, k_BHND: Tensor, v_BHND: Tensor) -> Tensor:
        """Return the diagonal of each W_i, (B, H, N, D)."""
        root = q_BHND.shape[-1] ** -0.5
        step = root / 2
        scores_BHNN = causal(dot_scores(q_BHND, k_BHND))
        changes = []
        for k_BHN in k_BHND.unbind(dim=-1):
            moved_BH1N = (step * root * k_BHN).unsqueeze(-2)
            weights_BHNN = (scores_BHNN + moved_BH1N).softmax(dim=-1) - (scores_BHNN - moved_BH1N).softmax(dim=-1)
            changes.append((weights_BHNN @ v_BHND).abs().sum(dim=-1))
        mean_BHND: Tensor = running_mean(torch.stack(changes, dim=-1)) / (2 * step)
        return mean_BHND
