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
Where an example has fewer landmarks than others of its batch, the missing rows and columns of its A are those of the
identity. This changes neither the rest of the inverse nor |A|_1, which is at least 1.

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

    takes_masks = True

    def __init__(self, declaration: Nystrom, geometry: Geometry) -> None:
        super().__init__(declaration, geometry)
        self.num_landmarks = declaration.num_landmarks
        self.is_released = declaration.formula == "released"
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
        segments_B1MN = None
        if mask_BN is not None and not self.is_released:
            segments_B1MN = segments_within(mask_BN, self.num_landmarks)
        biases = self.position_scores(q_BHND, state, segments_B1MN)
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
                segments_B1MN=segments_B1MN,
            )
        regained_BHND: Tensor = self.conv(v_BHND if mask_BN is None else v_BHND * mask_BN[:, None, :, None])
        return attended_BHND + regained_BHND

    def position_scores(self, like: Tensor, state: ForwardState | None, segments_B1MN: Tensor | None) -> Biases | None:
        """Return the logits of positions, (H, N, M), (H, M, M) and (H, M, N); None without positions.

        With segments of each example's own, (B, H, ...).
        """
        num_landmarks = self.num_landmarks
        if self.positions == "none":
            return None
        if self.positions == "alibi":
            places_1N1 = torch.arange(like.shape[-2], dtype=like.dtype, device=like.device)[None, :, None]
            centres_1M1 = segment_means(places_1N1, num_landmarks, segments_B1MN)
            pairs = ((places_1N1, centres_1M1), (centres_1M1, centres_1M1), (centres_1M1, places_1N1))
            slopes_H11 = slopes_of(self.num_heads, like=like)
            spread, among, gather = (-slopes_H11 * (one - other.mT).abs() for one, other in pairs)
            return spread, among, gather
        q_HND, k_HND = projected_positions(self, state)
        q_HMD, k_HMD = (segment_means(x_HND, num_landmarks, segments_B1MN) for x_HND in (q_HND, k_HND))
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
    segments_B1MN: Tensor | None = None,
) -> Tensor:
    """Return the approximation of softmax(Q K^T / sqrt(D)) V, (B, H, N, D), with at most N landmarks.

    ``biases`` are added to the logits of tokens by landmarks, among landmarks, and of landmarks by tokens, where those
    of tokens outside the mask are left out. ``segments_B1MN`` are those of the landmarks, if examples have their own.
    """
    scale = q_BHND.shape[-1] ** -0.25
    q_BHND, k_BHND = q_BHND * scale, k_BHND * scale
    q_BHMD, k_BHMD = (segment_means(x_BHND, num_landmarks, segments_B1MN) for x_BHND in (q_BHND, k_BHND))
    spread_BHNM, among_BHMM, gather_BHMN = (
        q @ k.transpose(-2, -1) for q, k in ((q_BHND, k_BHMD), (q_BHMD, k_BHMD), (q_BHMD, k_BHND))
    )
    if biases is not None:
        spread_BHNM, among_BHMM, gather_BHMN = spread_BHNM + biases[0], among_BHMM + biases[1], gather_BHMN + biases[2]
    if mask_BN is not None:
        gather_BHMN = without_padding_keys(gather_BHMN, mask_BN)
    if segments_B1MN is None:
        weights_BHMM = among_BHMM.softmax(dim=-1)
    else:
        is_landmark_BM = segments_B1MN[:, 0].any(dim=-1)
        spread_BHNM, among_BHMM = (without_padding_keys(each, is_landmark_BM) for each in (spread_BHNM, among_BHMM))
        identity_MM = torch.eye(among_BHMM.shape[-1], dtype=among_BHMM.dtype, device=among_BHMM.device)
        weights_BHMM = among_BHMM.softmax(dim=-1).where(is_landmark_BM[:, None, :, None], identity_MM)
    inverse_BHMM = pseudo_inverse(weights_BHMM, num_steps, common_scale=common_scale)
    return spread_BHNM.softmax(dim=-1) @ (inverse_BHMM @ (gather_BHMN.softmax(dim=-1) @ v_BHND))


def segments_within(mask_BN: Tensor, num_segments: int) -> Tensor:
    """Return the segments of each example's valid tokens, (B, 1, M, N) booleans, the shorter segments first.

    An example of fewer than M tokens has empty segments after its own.
    """
    num_tokens_B1 = mask_BN.sum(dim=1, keepdim=True)
    count_B1 = num_tokens_B1.clamp(min=1, max=num_segments)
    length_B1, num_shorter_B1 = num_tokens_B1 // count_B1, count_B1 - num_tokens_B1 % count_B1
    place_BN = mask_BN.cumsum(dim=1) - 1
    after_BN = place_BN - num_shorter_B1 * length_B1
    segment_BN = torch.where(
        after_BN < 0, place_BN // length_B1.clamp(min=1), num_shorter_B1 + after_BN // (length_B1 + 1)
    )
    numbers_M1 = torch.arange(min(num_segments, mask_BN.shape[1]), device=mask_BN.device)[:, None]
    return ((segment_BN[:, None] == numbers_M1) & mask_BN[:, None])[:, None]


def segment_means(x_BHND: Tensor, num_segments: int, segments_B1MN: Tensor | None = None) -> Tensor:
    """Return the mean of each of min(M, N) segments of tokens, (B, H, M, D), the shorter segments first.

    Where examples have segments of their own, the means are those, and zero of empty ones.
    """
    if segments_B1MN is not None:
        return segments_B1MN.to(x_BHND.dtype) @ x_BHND / segments_B1MN.sum(dim=-1, keepdim=True).clamp(min=1)
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
