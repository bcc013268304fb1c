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

Logits of positions are a definition of robench's own, since no paper or code has them inside Nystromformer. A landmark
is the mean of a segment's queries and keys, and its position the mean of theirs: with ``alibi`` the logits get
-m_h |i - j| with the centres of segments in the place of i or j, with ``bilateral`` p_i^T W p_j / sqrt(D) with the
means of the segments' p. With as many landmarks as tokens these are the logits of ``alibi`` and ``bilateral``.

With masks, the released formula is as in that code: queries, keys and convolved values of padding are zero, segments
include them, and padding is left out of the last kernel alone. In the other formula padding belongs to no segment.

N not a multiple of M, which that code refuses: segments have floor(N / M) or one more tokens, the shorter ones first,
as in the T2T-ViT code. Fewer tokens than landmarks: every token is a landmark.
"""

import torch
from torch import Tensor, nn

from robench.attention.alibi_impl import slopes_of
from robench.attention.bilateral_impl import projected_positions
from robench.attention.geometry import Geometry
from robench.attention.heads import dot_scores, without_padding_keys
from robench.attention.nystrom import Nystrom
from robench.attention.projected import ProjectedAttention
from robench.attention.state import ForwardState

NUM_STEPS = 6
# Logits of positions of tokens by landmarks, among landmarks, and of landmarks by tokens.
Biases = tuple[Tensor, Tensor, Tensor]
KERNEL_SIZE = 35


class NystromAttention(ProjectedAttention):
    """Nystrom attention over tokens (B, N, C) -> (B, N, C)."""

    def __init__(self, declaration: Nystrom, geometry: Geometry) -> None:
        super().__init__(declaration, geometry)
        self.num_landmarks = declaration.num_landmarks
        self.is_released = self.takes_masks = declaration.formula == "released"
        self.positions = declaration.positions
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
        mask_BN = None if state is None else state.mask_BN
        if mask_BN is not None:
            valid_B1N1 = mask_BN[:, None, :, None]
            q_BHND, k_BHND = q_BHND * valid_B1N1, k_BHND * valid_B1N1
        biases = self.position_scores(q_BHND, state)
        if self.is_released and self.num_landmarks >= q_BHND.shape[-2]:
            if biases is None:
                attended_BHND = self.attend(q_BHND, k_BHND, v_BHND, state)
            else:
                scores_BHNN = dot_scores(q_BHND, k_BHND) + biases[0]
                attended_BHND = self.masked(scores_BHNN, state).softmax(dim=-1) @ v_BHND
        else:
            attended_BHND = attend_through_landmarks(
                q_BHND,
                k_BHND,
                v_BHND,
                self.num_landmarks,
                common_scale=self.is_released,
                biases=biases,
                mask_BN=mask_BN,
            )
        regained_BHND: Tensor = self.conv(v_BHND if mask_BN is None else v_BHND * mask_BN[:, None, :, None])
        return attended_BHND + regained_BHND

    def position_scores(self, like: Tensor, state: ForwardState | None) -> Biases | None:
        """Return the logits of positions, (H, N, M), (H, M, M) and (H, M, N); None without positions."""
        num_landmarks = self.num_landmarks
        if self.positions == "none":
            return None
        if self.positions == "alibi":
            places_1N1 = torch.arange(like.shape[-2], dtype=like.dtype, device=like.device)[None, :, None]
            centres_1M1 = segment_means(places_1N1, num_landmarks)
            pairs = ((places_1N1, centres_1M1), (centres_1M1, centres_1M1), (centres_1M1, places_1N1))
            slopes_H11 = slopes_of(self.num_heads, like=like)
            spread, among, gather = (-slopes_H11 * (one - other.mT).abs() for one, other in pairs)
            return spread, among, gather
        q_HND, k_HND = projected_positions(self, state)
        q_HMD, k_HMD = segment_means(q_HND, num_landmarks), segment_means(k_HND, num_landmarks)
        return dot_scores(q_HND, k_HMD), dot_scores(q_HMD, k_HMD), dot_scores(q_HMD, k_HND)


def attend_through_landmarks(
    q_BHND: Tensor,
    k_BHND: Tensor,
    v_BHND: Tensor,
    num_landmarks: int,
    num_steps: int = NUM_STEPS,
    *,
    common_scale: bool = False,
    biases: Biases | None = None,
    mask_BN: Tensor | None = None,
) -> Tensor:
    """Return the approximation of softmax(Q K^T / sqrt(D)) V, (B, H, N, D), with at most N landmarks.

    ``biases`` are added to the logits of tokens by landmarks, among landmarks, and of landmarks by tokens, where those
    of tokens outside the mask are left out.
    """
    scale = q_BHND.shape[-1] ** -0.25
    q_BHND, k_BHND = q_BHND * scale, k_BHND * scale
    q_BHMD, k_BHMD = segment_means(q_BHND, num_landmarks), segment_means(k_BHND, num_landmarks)
    spread_BHNM, among_BHMM, gather_BHMN = (
        q @ k.transpose(-2, -1) for q, k in ((q_BHND, k_BHMD), (q_BHMD, k_BHMD), (q_BHMD, k_BHND))
    )
    if biases is not None:
        spread_BHNM, among_BHMM, gather_BHMN = spread_BHNM + biases[0], among_BHMM + biases[1], gather_BHMN + biases[2]
    if mask_BN is not None:
        gather_BHMN = without_padding_keys(gather_BHMN, mask_BN)
    inverse_BHMM = pseudo_inverse(among_BHMM.softmax(dim=-1), num_steps, common_scale=common_scale)
    return spread_BHNM.softmax(dim=-1) @ (inverse_BHMM @ (gather_BHMN.softmax(dim=-1) @ v_BHND))


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
