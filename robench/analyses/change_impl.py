"""Change of attention weights and tokens by a perturbation."""

from collections.abc import Mapping

import torch
from torch import Tensor

from robench.analyses.base import Pass
from robench.analyses.by_layer import proportions_of
from robench.analyses.change import AttentionChange
from robench.core.errors import DeclarationError


def attention_change(declaration: AttentionChange, clean: Pass, perturbed: Pass) -> Mapping[str, Tensor]:
    """Return the mean over tokens i of sum_j |p_ij - p'_ij| / 2, (B, layers, heads), and |t' - t| / |t|, (B, 1 + L).

    p_ij = |w_ij| / sum_m |w_im|, and norms of the tokens t are those of Frobenius; tokens of zeros count as unmoved.

    Raises:
        DeclarationError: the perturbation changes the number of tokens.
    """
    before, after = clean.tokens_BNC[0].shape, perturbed.tokens_BNC[0].shape
    if before != after:
        raise DeclarationError(
            f"the perturbation makes {after[1]} tokens of {before[1]}; their attention can be compared only where the"
            " number stays. Choose a perturbation that keeps it"
        )
    moved = [
        (proportions_of(layer) - proportions_of(other)).abs().sum(dim=-1).mean(dim=-1) / 2
        for layer, other in zip(clean.layers, perturbed.layers, strict=True)
    ]
    changes = [relative_change(*tokens_BNC) for tokens_BNC in zip(clean.tokens_BNC, perturbed.tokens_BNC, strict=True)]
    return {"attention_change": torch.stack(moved, dim=1), "token_change": torch.stack(changes, dim=1)}


def relative_change(clean_BNC: Tensor, perturbed_BNC: Tensor) -> Tensor:
    """Return (B,)."""
    lengths_B: Tensor = torch.linalg.matrix_norm(clean_BNC.double())
    moved_B: Tensor = torch.linalg.matrix_norm(perturbed_BNC.double() - clean_BNC.double())
    return torch.where(lengths_B > 0, moved_B / lengths_B.where(lengths_B > 0, 1.0), 0.0)
