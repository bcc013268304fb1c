"""Sparse mixtures of experts in place of a block's MLP.

Sources: Shazeer et al. 2017, arXiv:1701.06538, section 2, without noise in the gate, and Fedus et al. 2021,
arXiv:2101.03961, section 2. With gate logits h(x) = W x, of which T(x) are the indices of the largest ones,

    y = sum_{i in T(x)} w_i(x) E_i(x),  w(x) = softmax(h_T(x))  (``chosen``),  w_i(x) = softmax(h(x))_i  (``all``)

Of equal logits the expert with the lower index comes first. There is no capacity: every token reaches its experts, so
that no text's outputs depend on another's. Authors' implementations drop tokens of a full expert, by their order in the
batch.

The load-balancing loss is that of Fedus et al., equations 4 to 6, over the tokens of one example:

    L = E sum_i f_i P_i,  f_i: share of the tokens' choices that are expert i,  P_i: mean of softmax(h(x))_i

With ``num_chosen`` 1 this is their f_i; it is 1 if choices and probabilities are even. They take it over a batch; here
each example has its own, so that no example's loss depends on its neighbours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable

    from robench.attention.state import ForwardState
    from robench.models.experts import Experts


class ExpertMlp(nn.Module):
    """Sparse mixture over tokens (B, N, C) -> (B, N, C); E experts, of which each token goes to K.

    Args:
        declaration: the mixture.
        dim: width of a token.
        make_expert: function that returns a new MLP, (T, C) -> (T, C).
    """

    def __init__(self, declaration: Experts, dim: int, make_expert: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.num_chosen = declaration.num_chosen
        self.weights = declaration.weights
        self.gate = nn.Linear(dim, declaration.num_experts, bias=False)
        self.experts = nn.ModuleList(make_expert() for _ in range(declaration.num_experts))

    def forward(self, x_BNC: Tensor, state: ForwardState | None = None) -> Tensor:
        """Return (B, N, C); the load-balancing loss is added to the losses of the state if requested there."""
        logits_BNE = self.gate(x_BNC)
        best_BNE, order_BNE = logits_BNE.sort(dim=-1, descending=True, stable=True)
        chosen_BNK = order_BNE[..., : self.num_chosen]
        if state is not None and state.losses_B is not None:
            state.losses_B.append(balance_loss(logits_BNE, chosen_BNK))
        if self.weights == "chosen":
            weights_BNK = best_BNE[..., : self.num_chosen].softmax(dim=-1)
        else:
            weights_BNK = logits_BNE.softmax(dim=-1).gather(-1, chosen_BNK)
        rows = (x_BNC, chosen_BNK, weights_BNK)
        if self.training:
            B, N, C = x_BNC.shape
            mixed_TC = self._mixed(*(part.reshape(B * N, -1) for part in rows))
            return mixed_TC.reshape(B, N, C)
        # Example by example: sizes of matrices, and so the rounding of sums, do not depend on other examples.
        return torch.stack([self._mixed(*row) for row in zip(*rows, strict=True)])

    def _mixed(self, x_TC: Tensor, chosen_TK: Tensor, weights_TK: Tensor) -> Tensor:
        """Return the weighted outputs (T, C) of the experts of each token, each of which computes its own tokens."""
        num_experts, num_chosen = len(self.experts), self.num_chosen
        by_expert = chosen_TK.flatten().argsort(stable=True)
        counts = torch.bincount(chosen_TK.flatten(), minlength=num_experts).tolist()
        parts = x_TC[by_expert // num_chosen].split(counts)
        outputs = torch.cat([expert(part) for expert, part in zip(self.experts, parts, strict=True)])
        outputs_TKC = outputs[by_expert.argsort()].reshape(len(x_TC), num_chosen, -1)
        mixed_TC: Tensor = (weights_TK[..., None] * outputs_TKC).sum(dim=1)
        return mixed_TC


def balance_loss(logits_BNE: Tensor, chosen_BNK: Tensor) -> Tensor:
    """Return the load-balancing loss (B,) of examples with these gate logits and chosen experts; see the module."""
    num_experts = logits_BNE.shape[-1]
    is_chosen_BNKE = nn.functional.one_hot(chosen_BNK, num_experts)
    shares_BE = is_chosen_BNKE.to(logits_BNE.dtype).mean(dim=(1, 2))
    return num_experts * (shares_BE * logits_BNE.softmax(dim=-1).mean(dim=1)).sum(dim=-1)
