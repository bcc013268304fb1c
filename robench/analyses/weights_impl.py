"""Numbers of the weights of attention: entropy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from robench.analyses.base import Pass
    from robench.analyses.weights import Entropy


def entropy(declaration: Entropy, seen: Pass) -> Mapping[str, Tensor]:
    """Return the mean over tokens i of -sum_j p_ij ln p_ij, (B, layers, heads), p_ij = |w_ij| / sum_m |w_im|."""
    return {"entropy": per_layer(seen, entropy_of)}


def entropy_of(weights_BHNM: Tensor) -> Tensor:
    """Return (B, H); a row of zeros has no entropy, and counts as 0."""
    sizes_BHNM = weights_BHNM.abs().double()
    totals_BHN1 = sizes_BHNM.sum(dim=-1, keepdim=True)
    p_BHNM = sizes_BHNM / totals_BHN1.where(totals_BHN1 > 0, 1.0)
    entropies_BHN: Tensor = torch.special.entr(p_BHNM).sum(dim=-1)
    return entropies_BHN.mean(dim=-1)


def per_layer(seen: Pass, number_of: Callable[[Tensor], Tensor]) -> Tensor:
    """Return a number of the weights of each layer, (B, layers, ...)."""
    found = []
    for layer in seen.layers:
        assert layer.weights_BHNM is not None  # the analysis needs them
        found.append(number_of(layer.weights_BHNM))
    return torch.stack(found, dim=1)
