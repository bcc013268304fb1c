"""Backbones: what a checkpoint's weights fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt

from robench.declarations.attentions import Layers, PlainResidual, Softmax
from robench.declarations.base import DeclarationBase

Count = Annotated[int, Ge(1)]
Argument = str | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Vit(DeclarationBase):
    """Vision transformer with a class token and learned positions (DeiT), on timm's names of its parameters.

    Attributes:
        image_size, patch_size: side lengths in pixels.
        dim: width of a token, all heads together; ``mlp_ratio``: hidden width of the MLP over ``dim``.
    """

    kind: ClassVar[str] = "vit"

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
    def num_tokens(self) -> int:
        """Patches and the class token."""
        return (self.image_size // self.patch_size) ** 2 + 1

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Timm(DeclarationBase):
    """Any model of the timm library, by its name there."""

    kind: ClassVar[str] = "timm"

    name: str
    arguments: Mapping[str, Argument] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Python(DeclarationBase):
    """A model that a function of the user's own package returns.

    Attributes:
        target: ``package.module:function``, found on the Python path or in the current folder.
        arguments: passed to the function by name.
    """

    kind: ClassVar[str] = "python"

    target: str
    arguments: Mapping[str, Argument] = field(default_factory=dict)

    def contradictions(self) -> list[str]:
        """A target has one colon between two dotted names."""
        module, _, function = self.target.partition(":")
        if all(part.isidentifier() for part in module.split(".")) and function.isidentifier():
            return []
        return [f"target must be package.module:function, got {self.target}"]


BACKBONES: Mapping[str, type[DeclarationBase]] = {"vit": Vit, "timm": Timm, "python": Python}
