"""Elliptical attention: coordinates in which attention changes most have the most weight in the scores.

Source: Nielsen, Abdullaev, Teo & Nguyen 2024 (Elliptical Attention), arXiv:2406.13770, in the form of its code
(Elliptical-Attention, Elliptical_ImageNet/models.py, MahalaAttention). With a diagonal W of one example's head

    H = softmax(Q W K^T / sqrt(D)) V

``qkv`` is [3C, C], order q, k, v. As in the code, no gradient flows through W, except with
gradients ``through_constants``. A field chooses what W is:

* ``over_layers`` (W_over_layers in the code, with which its models are trained): in each layer l > 0

      W = diag(m) / max m,  m_d = mean over tokens of |V_d - V'_d| / delta

  with V' the values of layer l - 1. Layer 0 is softmax attention. The code also passes keys on, which affect nothing,
  since its delta is the constant 5. delta cancels in the division by the maximum, so it does not enter the arithmetic
  here: models that differ in it alone are one model up to rounding. Where this differs: a head in which no value
  changes at all (the code divides 0 by 0) has W = I, that is, no coordinate changes more than another, so that it is
  softmax attention.
* ``finite_differences`` (compute_W): in every layer, layer 0 as well

      W_dd = mean over tokens of |F(Q + t e_d) - F(Q - t e_d)|_1 / 2t,  F(Q) = softmax(Q K^T / sqrt(D)) V

  with e_d the coordinate's unit vector, added to every query, and t = 1 / (2 sqrt(D)). There is no division by the
  maximum. None of the code's command lines trains such a model, so that the layers intended by its authors are unknown.
  It takes two more softmax attentions for each of the D coordinates.

Not implemented here: change over layers divided by that of the queries, token by token (delta None, which no call
passes), and two ablations (the one moving all coordinates at once does not run).

Causal form: W is of a token and its past, by running means in place of the mean over all tokens.

Source: Nielsen, Abdullaev, Teo & Nguyen 2024, arXiv:2406.13770, as in ``elliptical``, with one W_i for each query,

    H_i = sum_{j <= i} softmax_j(q_i^T W_i k_j / sqrt(D)) v_j

* ``over_layers``: W_i = diag(m_i) / max m_i, m_i the mean over tokens 0..i of |V - V'|.
* ``finite_differences``: the mean over tokens 0..i of the change of their outputs, with F the causal softmax attention.

The authors' language model has one W for a text, of all its tokens, so that each prediction depends on the words to be
predicted: it is not causal, and is not this.

Cost: that of softmax attention, and of a product with an N x N matrix; with ``finite_differences`` 2 D more attentions.
"""

import torch
from torch import Tensor

from robench.attention.elliptical import Elliptical
from robench.attention.geometry import Geometry
from robench.attention.heads import causal, dot_scores, running_mean
from robench.attention.projected import DotAttention
from robench.attention.state import ForwardState


class EllipticalAttention(DotAttention):
    """Elliptical attention over tokens (B, N, C) -> (B, N, C); over layers, each hands its values on to the next."""

    gradient_modes = ("through_constants",)

    def __init__(self, declaration: Elliptical, geometry: Geometry) -> None:
        super().__init__(declaration, geometry)
        self.layer = geometry.layer
        self.is_over_layers = declaration.estimator == "over_layers"

    def compared(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> tuple[Tensor, Tensor]:
        """Return the queries times the diagonal of W, which depends on the values, and the keys.

        Raises:
            ContractError: this is a later layer that reads earlier values, and the state holds none of the one before.
        """
        return self.stretched(heads, state), heads[1]

    def stretched(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return the queries times the diagonal of W, (B, H, N, D), and publish this layer's values to the next."""
        q_BHND, k_BHND, v_BHND = heads
        if not self.is_over_layers:
            is_constant = self.gradient_mode == "own"
            of_heads = sensitivity(q_BHND, k_BHND, v_BHND, is_causal=self.is_causal, is_constant=is_constant)
            return q_BHND * of_heads
        state = ForwardState() if state is None else state
        if self.layer > 0:
            q_BHND = q_BHND * self.relevance(v_BHND, state.values_of(self.layer - 1))
        state.values_BHND[self.layer] = v_BHND
        return q_BHND

    def relevance(self, v_BHND: Tensor, earlier_BHND: Tensor) -> Tensor:
        """Return the diagonal of W, (B, H, 1, D), in a causal form those of all W_i, (B, H, N, D).

        The change of each coordinate over the largest change is in [0, 1], and 1 where nothing changes.
        """
        changes_BHND = (v_BHND - earlier_BHND).abs()
        if self.gradient_mode == "own":
            changes_BHND = changes_BHND.detach()
        change = running_mean(changes_BHND) if self.is_causal else changes_BHND.mean(dim=-2, keepdim=True)
        largest = change.amax(dim=-1, keepdim=True)
        return (change / largest.where(largest > 0, 1.0)).where(largest > 0, 1.0)


def sensitivity(
    q_BHND: Tensor, k_BHND: Tensor, v_BHND: Tensor, *, is_causal: bool = False, is_constant: bool = True
) -> Tensor:
    """Return the diagonal of W, (B, H, 1, D): mean change of the output per unit of each coordinate of the queries.

    With ``is_causal`` each query has its own, of the mean over the outputs up to it, (B, H, N, D). No gradient flows
    through it if it ``is_constant``.
    """
    if is_constant:
        q_BHND, k_BHND, v_BHND = q_BHND.detach(), k_BHND.detach(), v_BHND.detach()
    root = q_BHND.shape[-1] ** -0.5
    step = root / 2
    scores_BHNN = causal(dot_scores(q_BHND, k_BHND)) if is_causal else dot_scores(q_BHND, k_BHND)
    changes = []
    for k_BHN in k_BHND.unbind(dim=-1):
        # Moving a coordinate of all queries by the step moves the scores of each key by the key's own coordinate.
        moved_BH1N = (step * root * k_BHN).unsqueeze(-2)
        weights_BHNN = (scores_BHNN + moved_BH1N).softmax(dim=-1) - (scores_BHNN - moved_BH1N).softmax(dim=-1)
        changes.append((weights_BHNN @ v_BHND).abs().sum(dim=-1))
    if is_causal:
        mean_BHND: Tensor = running_mean(torch.stack(changes, dim=-1)) / (2 * step)
        return mean_BHND
    return torch.stack([change_BHN.mean(dim=-1) / (2 * step) for change_BHN in changes], dim=-1).unsqueeze(-2)
