"""Numbers of the rows of attention weights: entropy, and mean distance."""

from collections.abc import Mapping

import torch
from torch import Tensor

from robench.analyses.base import Pass, TokenLayout
from robench.analyses.by_layer import by_layer, needed, normalised, proportions_of
from robench.analyses.weights import AttentionDistance, Entropy
from robench.attention.seen import Seen


def entropy(declaration: Entropy, seen: Pass) -> Mapping[str, Tensor]:
    """Return the mean over tokens i of -sum_j p_ij ln p_ij, (B, layers, heads), p_ij = |w_ij| / sum_m |w_im|.

    A row of zeros has no entropy, and counts as 0.
    """

    def of(layer: Seen) -> Tensor:
        entropies_BHN: Tensor = torch.special.entr(proportions_of(layer)).sum(dim=-1)
        return entropies_BHN.mean(dim=-1)

    return {"entropy": by_layer(seen, of)}


def attention_distance(declaration: AttentionDistance, seen: Pass) -> Mapping[str, Tensor]:
    """Return the mean over tokens i of sum_j p_ij d_ij, (B, layers, heads), d_ij the distance of the tokens.

    With patches both i and j are patches, and p_ij = |w_ij| / sum_m |w_im| over patches m.
    """
    num_special = seen.layout.num_special if seen.layout.grid else 0

    def of(layer: Seen) -> Tensor:
        p_BHNM = normalised(needed(layer.weights_BHNM)[..., num_special:, num_special:])
        distances_NM = distances(p_BHNM.shape[-1], seen.layout).to(p_BHNM)
        return (p_BHNM * distances_NM).sum(dim=-1).mean(dim=-1)

    return {"distance": by_layer(seen, of)}


def distances(num_tokens: int, layout: TokenLayout) -> Tensor:
    """Return the distances of patches, or of tokens without patches, from each other, (N, N)."""
    if layout.grid is None:
        places_NA = torch.arange(num_tokens, dtype=torch.float64).unsqueeze(-1)
    else:
        rows, columns = (torch.arange(size, dtype=torch.float64) for size in layout.grid)
        places_NA = torch.cartesian_prod(rows, columns)
    return (places_NA.unsqueeze(1) - places_NA).square().sum(dim=-1).sqrt()
