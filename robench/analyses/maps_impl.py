"""Attention on the grid of patches: heat maps, attention received, and rollout."""

from collections.abc import Mapping

import torch
from torch import Tensor

from robench.analyses.base import Pass
from robench.analyses.by_layer import by_layer, proportions_of
from robench.analyses.maps import AttentionMap, AttentionReceived, Rollout
from robench.attention.geometry import TokenLayout
from robench.attention.seen import Seen


def attention_map(declaration: AttentionMap, seen: Pass) -> Mapping[str, Tensor]:
    """Return the mean over heads of p_ij of the class token i, divided by the largest, (B, layers, rows, columns).

    p_ij = |w_ij| / sum_m |w_im| over all tokens m.
    """

    def of(layer: Seen) -> Tensor:
        map_BRS = of_class_token(proportions_of(layer).mean(dim=1), seen.layout)
        largest_B11 = map_BRS.amax(dim=(-2, -1), keepdim=True)
        return map_BRS / largest_B11.where(largest_B11 > 0, 1.0)

    return {"attention": by_layer(seen, of)}


def attention_received(declaration: AttentionReceived, seen: Pass) -> Mapping[str, Tensor]:
    """Return the mean over heads and tokens i of p_ij of each patch j, (B, layers, rows, columns)."""
    return {
        "received": by_layer(seen, lambda layer: on_grid(proportions_of(layer).mean(dim=(1, 2)), seen.layout)),
    }


def rollout(declaration: Rollout, seen: Pass) -> Mapping[str, Tensor]:
    """Return the class token's row of (A_l + I) / 2 ... (A_1 + I) / 2, (B, layers, rows, columns)."""
    rolled_BNN: Tensor | None = None
    maps = []
    for layer in seen.layers:
        p_BNN = proportions_of(layer).mean(dim=1)
        mixing_BNN = (p_BNN + torch.eye(p_BNN.shape[-1]).to(p_BNN)) / 2
        rolled_BNN = mixing_BNN if rolled_BNN is None else mixing_BNN @ rolled_BNN
        maps.append(of_class_token(rolled_BNN, seen.layout))
    return {"rollout": torch.stack(maps, dim=1)}


def of_class_token(rows_BNN: Tensor, layout: TokenLayout) -> Tensor:
    """Return the class token's row, without one the mean over rows, on the grid of patches."""
    return on_grid(rows_BNN[:, 0] if layout.num_special else rows_BNN.mean(dim=1), layout)


def on_grid(numbers_BN: Tensor, layout: TokenLayout) -> Tensor:
    """Return the numbers of patches, (B, rows, columns), from those of all tokens."""
    assert layout.grid is not None  # checked before any analysis
    map_BRS: Tensor = numbers_BN[:, layout.num_special :].unflatten(-1, layout.grid)
    return map_BRS
