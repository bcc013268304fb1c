"""Numbers of attention weights as matrices: effective rank, eigenvalues, and smoothing."""

from collections.abc import Mapping

import torch
from torch import Tensor

from robench.analyses.base import Pass
from robench.analyses.by_layer import by_layer, needed, normalised
from robench.analyses.spectra import EffectiveRank, Spectrum
from robench.attention.seen import Seen


def effective_rank(declaration: EffectiveRank, seen: Pass) -> Mapping[str, Tensor]:
    """Return exp(-sum_r p_r ln p_r), (B, layers, heads), p_r the singular value r over the sum of all; 0 for zeros."""

    def of(layer: Seen) -> Tensor:
        sizes_BHN = torch.linalg.svdvals(needed(layer.weights_BHNM))
        ranks_BH: Tensor = torch.special.entr(normalised(sizes_BHN)).sum(dim=-1).exp()
        return ranks_BH.where(sizes_BHN[..., 0] > 0, 0.0)

    return {"effective_rank": by_layer(seen, of)}


def spectrum(declaration: Spectrum, seen: Pass) -> Mapping[str, Tensor]:
    """Return the sizes of the eigenvalues, (B, layers, N), the largest first, and the smoothing, (B, layers, heads)."""
    return {"eigenvalue": by_layer(seen, eigenvalue_sizes), "smoothing": by_layer(seen, smoothing)}


def eigenvalue_sizes(layer: Seen) -> Tensor:
    """Return the sizes of the eigenvalues of each head's weights in descending order, the mean over heads, (B, N)."""
    weights_BHNN = needed(layer.weights_BHNM)
    # Not all builds of torch have this decomposition on a GPU.
    sizes_BHN: Tensor = torch.linalg.eigvals(weights_BHNN.cpu()).abs().to(weights_BHNN.device)
    return sizes_BHN.sort(dim=-1, descending=True).values.mean(dim=1)


def smoothing(layer: Seen) -> Tensor:
    """Return |C W V| / |C V| of the weights W and values V, (B, H); C subtracts the mean over tokens.

    Norms are those of Frobenius. Where all values are equal there is nothing to leave, and it is 0.
    """
    values_BHMD = needed(layer.values_BHMD)
    given_BH = deviation(values_BHMD)
    left_BH = deviation(needed(layer.weights_BHNM) @ values_BHMD)
    return torch.where(given_BH > 0, left_BH / given_BH.where(given_BH > 0, 1.0), 0.0)


def deviation(x_BHND: Tensor) -> Tensor:
    """Return the norm of the tokens' deviation from their mean, (B, H)."""
    norms_BH: Tensor = torch.linalg.matrix_norm(x_BHND - x_BHND.mean(dim=-2, keepdim=True))
    return norms_BH
