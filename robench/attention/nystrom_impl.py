"""Nystrom attention: softmax attention approximated through landmarks, plus a convolution over the values.

Source: Xiong et al. 2021 (Nystromformer), arXiv:2102.03902, algorithm 1. With q and k over D^(1/4), and landmarks Q~
and K~ that are means over M segments of consecutive tokens,

    H = softmax(Q K~^T) Z softmax(Q~ K^T) V + conv(V),  Z ~ pseudo-inverse of A = softmax(Q~ K~^T)

where Z comes from 6 Newton-Schulz steps of third order, from Z = A^T / (|A|_1 |A|_inf),

    Z <- Z (13 I - A Z (15 I - A Z (7 I - A Z))) / 4

Weights: ``qkv`` is [3C, C], order q, k, v, with bias, ``proj``, and ``conv``, [H, 1, 35, 1] without bias: one kernel
for each head, along the tokens in their order, the class token first.

|A|_inf is 1, since rows of a softmax sum to one. Two formulas, chosen by a field, for |A|_1, the largest sum of a
column, and for as many landmarks as tokens:

* ``paper``: |A|_1 is that of each example and head. So it is in the authors' T2T-ViT too (mlpen/Nystromformer,
  ImageNet/T2T-ViT/models/token_nystromformer.py, init_option "exact"). With M = N the equations hold unchanged, and
  tend to softmax attention.
* ``released``: one |A|_1, the largest of all heads of the whole batch, as in the authors' other code by default
  (LRA/code/attention_nystrom.py, code/attention_nystrom.py, init_option "original"); an example's output then depends
  on the rest of the batch, and on its other heads even in a batch of one. Six steps do not make up for a start that is
  too small. With M = N it is softmax attention, and the convolution beside it.

N not a multiple of M, which that code refuses: segments have floor(N / M) or one more tokens, the shorter ones first,
as in the T2T-ViT code. Fewer tokens than landmarks: every token is a landmark.
"""

import torch
from torch import Tensor, nn

from robench.attention.geometry import Geometry
from robench.attention.heads import attend
from robench.attention.nystrom import Nystrom
from robench.attention.projected import ProjectedAttention
from robench.attention.state import ForwardState

NUM_STEPS = 6
KERNEL_SIZE = 35


class NystromAttention(ProjectedAttention):
    """Nystrom attention over tokens (B, N, C) -> (B, N, C)."""

    def __init__(self, declaration: Nystrom, geometry: Geometry) -> None:
        super().__init__(declaration, geometry)
        self.num_landmarks = declaration.num_landmarks
        self.is_released = declaration.formula == "released"
        self.conv = nn.Conv2d(
            self.num_heads,
            self.num_heads,
            (KERNEL_SIZE, 1),
            padding=(KERNEL_SIZE // 2, 0),
            groups=self.num_heads,
            bias=False,
        )

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        q_BHND, k_BHND, v_BHND = heads
        if self.is_released and self.num_landmarks >= q_BHND.shape[-2]:
            attended_BHND = attend(q_BHND, k_BHND, v_BHND)
        else:
            attended_BHND = attend_through_landmarks(
                q_BHND, k_BHND, v_BHND, self.num_landmarks, common_scale=self.is_released
            )
        regained_BHND: Tensor = self.conv(v_BHND)
        return attended_BHND + regained_BHND


def attend_through_landmarks(
    q_BHND: Tensor,
    k_BHND: Tensor,
    v_BHND: Tensor,
    num_landmarks: int,
    num_steps: int = NUM_STEPS,
    *,
    common_scale: bool = False,
) -> Tensor:
    """Return the approximation of softmax(Q K^T / sqrt(D)) V, (B, H, N, D), with at most N landmarks."""
    scale = q_BHND.shape[-1] ** -0.25
    q_BHND, k_BHND = q_BHND * scale, k_BHND * scale
    q_BHMD, k_BHMD = segment_means(q_BHND, num_landmarks), segment_means(k_BHND, num_landmarks)
    spread_BHNM = (q_BHND @ k_BHMD.transpose(-2, -1)).softmax(dim=-1)
    among_BHMM = (q_BHMD @ k_BHMD.transpose(-2, -1)).softmax(dim=-1)
    gather_BHMN = (q_BHMD @ k_BHND.transpose(-2, -1)).softmax(dim=-1)
    inverse_BHMM = pseudo_inverse(among_BHMM, num_steps, common_scale=common_scale)
    return spread_BHNM @ (inverse_BHMM @ (gather_BHMN @ v_BHND))


def segment_means(x_BHND: Tensor, num_segments: int) -> Tensor:
    """Return the mean of each of min(M, N) segments of tokens, (B, H, M, D), the shorter segments first."""
    num_tokens = x_BHND.shape[-2]
    count = min(num_segments, num_tokens)
    length, num_longer = divmod(num_tokens, count)
    boundary = (count - num_longer) * length
    shorter = x_BHND[..., :boundary, :].unflatten(-2, (count - num_longer, length))
    longer = x_BHND[..., boundary:, :].unflatten(-2, (num_longer, length + 1))
    return torch.cat([shorter.mean(dim=-2), longer.mean(dim=-2)], dim=-2)


def pseudo_inverse(weights_BHMM: Tensor, num_steps: int = NUM_STEPS, *, common_scale: bool = False) -> Tensor:
    """Return the approximate Moore-Penrose inverse of matrices whose rows are positive and sum to one.

    With ``common_scale``, all of them start at the scale of the one with the largest sum of a column.
    """
    identity_MM = torch.eye(weights_BHMM.shape[-1], dtype=weights_BHMM.dtype, device=weights_BHMM.device)
    columns_BH1M = weights_BHMM.sum(dim=-2, keepdim=True)
    largest_BH11 = columns_BH1M.amax() if common_scale else columns_BH1M.amax(dim=-1, keepdim=True)
    inverse_BHMM = weights_BHMM.transpose(-2, -1) / largest_BH11
    for _ in range(num_steps):
        product_BHMM = weights_BHMM @ inverse_BHMM
        inner_BHMM = 15 * identity_MM - product_BHMM @ (7 * identity_MM - product_BHMM)
        inverse_BHMM = inverse_BHMM @ (13 * identity_MM - product_BHMM @ inner_BHMM) / 4
    return inverse_BHMM
