"""What vision transformers share: sizes that must fit each other, an attention and a residual connection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge, Gt

from robench.declarations.attentions import PlainResidual, Softmax
from robench.declarations.base import DeclarationBase

if TYPE_CHECKING:
    from robench.declarations.attentions import Layers

Count = Annotated[int, Ge(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer(DeclarationBase):
    """A backbone of attention layers over square patches.

    Attributes:
        image_size, patch_size: side lengths in pixels.
        dim: width of a token, all heads together; ``mlp_ratio``: hidden width of the MLP over ``dim``.
        attention: of the ``depth`` layers; ``residual``: the connection around it.
    """

    image_size: Count
    patch_size: Count
    num_classes: Count
    depth: Count
    dim: Count
    num_heads: Count
    num_channels: Count = 3
    mlp_ratio: Annotated[float, Gt(0)] = 4.0
    attention: DeclarationBase = field(default_factory=Softmax)
    residual: DeclarationBase = field(default_factory=PlainResidual)

    @property
    def num_patches(self) -> int:
        """Squares that an image is cut into."""
        return (self.image_size // self.patch_size) ** 2

    @property
    def num_tokens(self) -> int:
        """Tokens that an attention meets."""
        return self.num_patches

    def contradictions(self) -> list[str]:
        """Sizes that do not divide, layers that do not exist, and fields of the attention that do not fit the sizes."""
        problems = []
        if self.image_size % self.patch_size:
            problems.append(f"image_size must be a multiple of patch_size {self.patch_size}, got {self.image_size}")
        if self.dim % self.num_heads:
            problems.append(f"dim must be a multiple of num_heads {self.num_heads}, got {self.dim}")
        layers: Layers = getattr(self.attention, "layers", "all")
        if layers != "all" and (wrong := [layer for layer in layers if not 0 <= layer < self.depth]):
            problems.append(f"attention.layers must lie in 0..{self.depth - 1} (depth {self.depth}), got {wrong}")
        # Mechanisms whose fields have bounds that the backbone sets, such as the number of tokens, have this method.
        if (problems_in := getattr(self.attention, "problems_in", None)) is not None:
            found = problems_in(num_tokens=self.num_tokens, depth=self.depth)
            problems += [f"attention.{problem}" for problem in found]
        return problems
