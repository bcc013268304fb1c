"""Numbers of each layer of a pass, from what the layer shows."""

from collections.abc import Callable

import torch
from torch import Tensor

from robench.analyses.base import Pass
from robench.attention.seen import Seen


def by_layer(seen: Pass, number_of: Callable[[Seen], Tensor]) -> Tensor:
    """Return a number of each attention layer, (B, layers, ...)."""
    return torch.stack([number_of(layer) for layer in seen.layers], dim=1)


def needed(part: Tensor | None) -> Tensor:
    """Return a part of a layer that the analysis declares to need, in float64."""
    assert part is not None  # checked before any analysis
    return part.double()


def proportions_of(layer: Seen) -> Tensor:
    """Return p_ij = |w_ij| / sum_m |w_im|, (B, H, N, M), of the weights w of a layer; a row of zeros stays one."""
    return normalised(needed(layer.weights_BHNM))


def normalised(weights: Tensor) -> Tensor:
    """Return the sizes of weights, divided by their sums over the last axis where these are above zero."""
    sizes = weights.abs()
    totals = sizes.sum(dim=-1, keepdim=True)
    return sizes / totals.where(totals > 0, 1.0)
