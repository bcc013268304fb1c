"""Numbers of the rows of attention weights: entropy, and mean distance."""

from collections.abc import Mapping

import torch
from torch import Tensor

from robench.analyses.base import Pass
from robench.analyses.by_layer import by_layer, needed, normalised, proportions_of
from robench.analyses.weights import AttentionDistance, Entropy
from robench.attention.geometry import TokenLayout
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
    layout = seen.layout if seen.layout.grid else TokenLayout()
    num_special = layout.num_special

    def of(layer: Seen) -> Tensor:
        weights_BHNM = needed(layer.weights_BHNM)
        p_BHNM = normalised(weights_BHNM[..., num_special:, num_special:])
        distances_NM = layout.distances(weights_BHNM.shape[-1])[num_special:, num_special:].to(p_BHNM)
        return (p_BHNM * distances_NM).sum(dim=-1).mean(dim=-1)

    return {"distance": by_layer(seen, of)}
