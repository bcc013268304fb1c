"""Penalty on the largest singular values of attention's projections, of each head on its own.

Source: Hu, Zheng, Wang, Leung, Wu & Xie 2024, SpecFormer: Guarding Vision Transformer Robustness via Maximum Singular
Value Penalization, arXiv:2402.03317. To the loss of a step is added, once for the whole batch,

    sum over layers and heads of  lambda_q sigma(W_q)^2 + lambda_k sigma(W_k)^2 + lambda_v sigma(W_v)^2

with W the rows of a head in a projection, (D, C), and sigma its largest singular value, u^T W v. The singular vectors
are from one step of power iteration in each step of training, v = W^T u / |W^T u| and u = W v / |W v|, and are kept
from step to step; no gradient flows through them, so that the gradient is 2 lambda sigma u v^T. They start at normal
random numbers from the seed of the training.

The authors' code adds the same, with heads that are blocks of columns of W, and so of the layer's inputs; here they are
the rows that make a head's queries, keys or values. Where queries are keys, as in symmetric attention, both their
weights count.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from robench.core.errors import DeclarationError
from robench.models.projections import projecting_layers, projections_of
from robench.training.optimization import seed_for


class SpectralPenalty:
    """Penalty of a model in training, which keeps the left singular vectors (P, H, D) of each layer.

    Raises:
        DeclarationError: the model has no attention with projections of keys and values.
    """

    def __init__(self, model: nn.Module, weights: Sequence[float], seed: int) -> None:
        self._layers = projecting_layers(model)
        if not self._layers:
            raise DeclarationError(
                f"spectral_penalty is {', '.join(f'{each:g}' for each in weights)}, but no layer of the model projects"
                " tokens to keys and values; leave it out of the entry's training"
            )
        self._weights = [_weights_of(layer.num_projections, weights) for layer in self._layers]
        generator = torch.Generator().manual_seed(seed_for(seed, "singular vectors", 0))
        self._left = [
            normalize(torch.randn(each.shape[:3], generator=generator), dim=-1).to(each)
            for each in map(projections_of, self._layers)
        ]

    def __call__(self) -> Tensor:
        """Take a step of power iteration, and return the penalty, a scalar."""
        penalties = []
        for place, (layer, weights) in enumerate(zip(self._layers, self._weights, strict=True)):
            matrices = projections_of(layer)
            with torch.no_grad():
                right = normalize(matrices.mT @ self._left[place].unsqueeze(-1), dim=-2)
                left = normalize(matrices @ right, dim=-2)
                self._left[place] = left.squeeze(-1)
            singular = (left.mT @ matrices @ right).flatten(1)
            penalties.append((singular.square().sum(dim=1) * singular.new_tensor(weights)).sum())
        return torch.stack(penalties).sum()

    def state(self) -> dict[str, Any]:
        """Return the singular vectors, for ``restore``."""
        return {"left": list(self._left)}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the singular vectors from ``state``."""
        self._left = [kept.to(own) for kept, own in zip(state["left"], self._left, strict=True)]


def _weights_of(num_projections: int, weights: Sequence[float]) -> list[float]:
    """Return the weight of each projection; several keys of a token all have that of keys."""
    of_queries, of_keys, of_values = weights
    if num_projections == 2:
        return [of_queries + of_keys, of_values]
    return [of_queries, *[of_keys] * (num_projections - 2), of_values]
