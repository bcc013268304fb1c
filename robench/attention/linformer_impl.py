"""Linformer: projection of keys and values to fewer tokens, K' = E K and V' = E V, before softmax attention.

Source: Wang et al. 2020, arXiv:2006.04768, equation 7, H = softmax(Q (E K)^T / sqrt(D)) F V, here with F = E. Weights:
``qkv`` is [3C, C], order q, k, v, with bias, ``proj``, and ``E``, [H, projection_length, num_tokens], normal with
standard deviation 0.02 at start. It is one linear map over places, so that inputs have exactly ``num_tokens`` tokens.

The paper leaves sharing open. As in the code of the Long Range Arena experiments (mlpen/Nystromformer and, from
it, PrimalAttention) keys and values share E, and each head has its own. That code shares one E over all layers of a
model as well, and of every further model in the process, through an attribute of the class: with ``is_shared`` the
backbone gives the first layer's E to all its layers. By default each layer owns its E. A state dict names ``E`` in
every layer.

With masks, keys and values of padding are zero before the projection, as in that code: outputs depend on the number of
places but not on the padding's contents.

Logits of positions are a definition of robench's own, since no paper or code has them inside Linformer. A projected key
is the mixture E of the keys of all places, and its logit of position is the same mixture of theirs:

    alibi      sum_j E_mj (-m_h |i - j|)       bilateral   p_i^T W (E p)_m / sqrt(D)

with m_h and W of ``alibi`` and ``bilateral``, p those of the backbone. So a projection that selects places gives the
logits of ALiBi and Bilateral there.

Gradients ``within_kernel`` and ``outside_kernel``: those by the queries, keys and values of a head are cut, over its
tokens, to the kernel of its E, whose directions leave K' and V' as they are, or to the rest.
"""

import torch
from torch import Tensor, nn

from robench.attention.alibi_impl import falling_logits
from robench.attention.bilateral_impl import projected_positions
from robench.attention.geometry import Geometry
from robench.attention.gradients import KERNEL_MODES, split_by_kernel
from robench.attention.heads import attend, dot_scores
from robench.attention.linformer import Linformer
from robench.attention.projected import ProjectedAttention
from robench.attention.state import ForwardState

INITIAL_DEVIATION = 0.02


class LinformerAttention(ProjectedAttention):
    """Linformer attention over tokens (B, N, C) -> (B, N, C), N that of the geometry."""

    takes_masks = True
    gradient_modes = KERNEL_MODES

    def __init__(self, declaration: Linformer, geometry: Geometry) -> None:
        super().__init__(declaration, geometry)
        self.E = nn.Parameter(torch.empty(geometry.num_heads, declaration.projection_length, geometry.num_tokens))
        nn.init.normal_(self.E, std=INITIAL_DEVIATION)
        self.shared = ("E",) if declaration.is_shared else ()
        self.positions = declaration.positions

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        q_BHND, k_BHND, v_BHND = heads
        if state is not None and state.mask_BN is not None:
            valid_B1N1 = state.mask_BN[:, None, :, None]
            k_BHND, v_BHND = k_BHND * valid_B1N1, v_BHND * valid_B1N1
        q_BHND, k_BHND, v_BHND = split_by_kernel(self.gradient_mode, (q_BHND, k_BHND, v_BHND), self.E)
        if self.positions == "none":
            return attend(q_BHND, self.E @ k_BHND, self.E @ v_BHND)
        scores_BHNM = dot_scores(q_BHND, self.E @ k_BHND) + self.position_scores(q_BHND, state)
        return scores_BHNM.softmax(dim=-1) @ (self.E @ v_BHND)

    def position_scores(self, q_BHND: Tensor, state: ForwardState | None) -> Tensor:
        """Return the logits of positions, (H, N, M), to be added to those of contents."""
        if self.positions == "alibi":
            return falling_logits(self.num_heads, q_BHND.shape[-2], like=q_BHND) @ self.E.transpose(-2, -1)
        q_HND, k_HND = projected_positions(self, state)
        return dot_scores(q_HND, self.E @ k_HND)
