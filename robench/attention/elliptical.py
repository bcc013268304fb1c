"""Elliptical attention: coordinates in which the values change most from layer to layer count most in the scores.

Source: Nielsen, Abdullaev, Teo & Nguyen 2024 (Elliptical Attention), arXiv:2406.13770, in the form of its code
(stefvk/Elliptical-Attention, ImageNet). In each layer l > 0

    H = softmax(Q W K^T / sqrt(D)) V,  W = diag(m) / max m,  m_d = mean over tokens of |V_d - V'_d| / delta

with V' the values of layer l - 1; m and its maximum are of one example's head. Layer 0 is softmax attention. ``qkv``
is [3C, C], order q, k, v. As in the code, no gradient flows through W.

delta cancels in the division by the maximum, so it does not enter the arithmetic: models that differ in it alone are
one model up to rounding. Where this differs: a head in which no value changes at all (the code divides 0 by 0) has
W = I, that is, no coordinate changes more than another, and is softmax attention. The ``over_layers`` variant of the
code, which compares keys instead of values, is not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from robench.attention.heads import attend
from robench.attention.projected import ProjectedAttention
from robench.attention.state import ForwardState

if TYPE_CHECKING:
    from robench.attention.geometry import Geometry
    from robench.declarations.dot_attentions import Elliptical


class EllipticalAttention(ProjectedAttention):
    """Elliptical attention over tokens (B, N, C) -> (B, N, C); each layer hands its values on to the next."""

    def __init__(self, declaration: Elliptical, geometry: Geometry) -> None:
        super().__init__(declaration, geometry)
        self.layer = geometry.layer

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D).

        Raises:
            ContractError: this is a later layer, and the state holds no values of the one before it.
        """
        q_BHND, k_BHND, v_BHND = heads
        state = ForwardState() if state is None else state
        if self.layer > 0:
            q_BHND = q_BHND * relevance(v_BHND, state.values_of(self.layer - 1))
        state.values_BHND[self.layer] = v_BHND
        return attend(q_BHND, k_BHND, v_BHND)


def relevance(v_BHND: Tensor, earlier_BHND: Tensor) -> Tensor:
    """Return the diagonal of W, (B, H, 1, D), in [0, 1]: how much each coordinate changed, over the largest change."""
    change_BH1D = (v_BHND - earlier_BHND).detach().abs().mean(dim=-2, keepdim=True)
    largest_BH11 = change_BH1D.amax(dim=-1, keepdim=True)
    return (change_BH1D / largest_BH11).where(largest_BH11 > 0, 1.0)
