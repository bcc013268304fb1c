"""Sizes of one attention layer and its place in the backbone."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """Sizes of one attention layer.

    Attributes:
        dim: width of a token, all heads together.
        num_tokens: number of tokens of an input, including the class token; needed by mechanisms with parameters per
            token pair.
        depth: number of layers of the backbone; ``layer``: 0-based index of this one.
        is_causal: whether the output of a token must depend on it and earlier ones alone; inputs may then have fewer
            tokens than ``num_tokens``.
        separate_queries: whether the backbone keeps the queries' projection apart from that of keys and values.

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

    def __post_init__(self) -> None:
        if self.dim % self.num_heads:
            raise ValueError(f"dim must be a multiple of num_heads {self.num_heads}, got {self.dim}")
        if not 0 <= self.layer < self.depth:
            raise ValueError(f"layer must lie in 0..{self.depth - 1}, got {self.layer}")

    @property
    def head_dim(self) -> int:
        """Return the width of one head."""
        return self.dim // self.num_heads
