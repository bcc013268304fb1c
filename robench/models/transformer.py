"""Base class of the declarations of vision transformers: sizes, attention and residual connection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt, Le

from robench.attention.base import AttentionBase
from robench.attention.softmax import Softmax
from robench.declarations.base import LARGEST, FieldProblem
from robench.models.base import ArchitectureBase
from robench.models.residuals import PlainResidual, ResidualBase

# Beyond every published model; their combination has separate limits.
Count = Annotated[int, Ge(1), Le(1000)]
Side = Annotated[int, Ge(1), Le(4096)]
Width = Annotated[int, Ge(1), Le(65_536)]
# Images of 4096 pixels in patches of 16; and ViT-G has 1.8 billion parameters, which take a minute to draw.
MOST_TOKENS = 65_537
MOST_PARAMETERS = 2_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer(ArchitectureBase):
    """Backbone of attention layers over square patches.

    Attributes:
        image_size, patch_size: side lengths in pixels.
        num_classes: number of logits.
        depth: number of blocks; ``num_heads``: number of attention heads in each; ``num_channels``: of the images.
        dim: width of a token, all heads together; ``mlp_ratio``: hidden width of the MLP over ``dim``.
        attention: attention of the ``depth`` layers; ``residual``: the connection around it.
    """

    takes_drop_path: ClassVar[bool] = True

    image_size: Side
    patch_size: Side
    num_classes: Annotated[int, Ge(1), Le(LARGEST)]
    depth: Count
    dim: Width
    num_heads: Width
    num_channels: Count = 3
    mlp_ratio: Annotated[float, Gt(0), Le(1000)] = 4.0
    attention: AttentionBase = field(default_factory=Softmax)
    residual: ResidualBase = field(default_factory=PlainResidual)

    @property
    def couples_rows(self) -> bool:
        """Return whether rows of a batch influence each other."""
        return self.attention.is_coupled

    @property
    def num_patches(self) -> int:
        """Return the number of patches of an image."""
        return (self.image_size // self.patch_size) ** 2

    @property
    def num_tokens(self) -> int:
        """Return the number of tokens of an attention layer."""
        return self.num_patches

    @property
    def num_parameters(self) -> int:
        """Return the approximate number of parameters, to refuse models that cannot be built."""
        of_block = round((4 + 2 * self.mlp_ratio) * self.dim**2)
        of_block += self.attention.parameters_in(num_tokens=self.num_tokens, num_heads=self.num_heads, dim=self.dim)
        vectors = self.num_tokens + self.num_classes + self.num_channels * self.patch_size**2
        return self.depth * of_block + vectors * self.dim

    def contradictions(self) -> list[FieldProblem]:
        """Return problems between fields: divisibility of sizes, existence of layers, and sizes of the attention."""
        problems: list[FieldProblem] = []
        if self.image_size % self.patch_size:
            problems.append(
                ("image_size", f"must be a multiple of patch_size {self.patch_size}, got {self.image_size}")
            )
        if self.dim % self.num_heads:
            problems.append(("dim", f"must be a multiple of num_heads {self.num_heads}, got {self.dim}"))
        if self.num_tokens > MOST_TOKENS:
            problems.append(("image_size", f"must give at most {MOST_TOKENS:,} tokens, got {self.num_tokens:,}"))
        elif self.num_parameters > MOST_PARAMETERS:
            problems.append(
                (
                    "dim",
                    f"must be so small, with the other sizes, that there are at most {MOST_PARAMETERS:,} parameters,"
                    f" got about {self.num_parameters:,}",
                )
            )
        return problems + attention_problems(self.attention, num_tokens=self.num_tokens, depth=self.depth)


def attention_problems(attention: AttentionBase, *, num_tokens: int, depth: int) -> list[FieldProblem]:
    """Return the problems of an attention in a backbone: layers that do not exist, and those of the mechanism."""
    problems = attention.problems_in(num_tokens=num_tokens, depth=depth)
    layers = attention.layers
    if layers != "all" and (wrong := [layer for layer in layers if not 0 <= layer < depth]):
        problems = [("layers", f"must lie in 0..{depth - 1} (depth {depth}), got {_some(wrong)}"), *problems]
    return [(f"attention.{name}", message) for name, message in problems]


def _some(values: list[int]) -> str:
    return str(values) if len(values) <= 10 else f"{values[:10]} and {len(values) - 10} more"
