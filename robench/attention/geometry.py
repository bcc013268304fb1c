"""Sizes of one attention layer, its place in the backbone, and the places of its tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLayout:
    """Meaning of the tokens of a pass.

    Attributes:
        num_special: number of tokens before the patches or words: the class token and then the distillation token.
        grid: rows and columns of patches, whose tokens are row after row; None without patches. Tokens after them are
            special too, such as those of classes in a segmenter's decoder.
        is_padded: whether inputs may have fewer tokens: the state of a pass then has ``mask_BN``, or ``lengths``.
    """

    num_special: int = 0
    grid: tuple[int, int] | None = None
    is_padded: bool = False

    def distances(self, num_tokens: int) -> Tensor:
        """Return the distances of the tokens from each other, (N, N) in float64, 0 for those of special tokens.

        They are Euclidean in steps of the grid, and |i - j| without patches.
        """
        import torch

        rows, columns = self.grid or (1, num_tokens - self.num_special)
        places_P2 = torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).double()
        distances_NN = torch.zeros(num_tokens, num_tokens, dtype=torch.float64)
        inside = slice(self.num_special, self.num_special + len(places_P2))
        distances_NN[inside, inside] = (places_P2.unsqueeze(1) - places_P2).square().sum(dim=-1).sqrt()
        return distances_NN


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """Sizes of one attention layer.

    Attributes:
        dim: width of a token, all heads together.
        num_tokens: number of tokens of an input, including the class token; needed by mechanisms with parameters per
            token pair. Inputs may have fewer in a causal form, and where the layout ``is_padded``.
        depth: number of layers of the backbone; ``layer``: 0-based index of this one.
        is_causal: whether the output of a token must depend on it and earlier ones alone.
        separate_queries: whether the backbone keeps the queries' projection apart from that of keys and values.
        layout: places of the tokens.

    Raises:
        ValueError: the heads do not share the width evenly, or the layer lies outside the backbone.
    """

    dim: int
    num_heads: int
    num_tokens: int
    depth: int
    layer: int
    separate_queries: bool = False
    is_causal: bool = False
    layout: TokenLayout = TokenLayout()

    def __post_init__(self) -> None:
        if self.dim % self.num_heads:
            raise ValueError(f"dim must be a multiple of num_heads {self.num_heads}, got {self.dim}")
        if not 0 <= self.layer < self.depth:
            raise ValueError(f"layer must lie in 0..{self.depth - 1}, got {self.layer}")

    @property
    def head_dim(self) -> int:
        """Return the width of one head."""
        return self.dim // self.num_heads

    def distances(self) -> Tensor:
        """Return the distances of the tokens from each other, (N, N); see ``TokenLayout.distances``."""
        return self.layout.distances(self.num_tokens)
