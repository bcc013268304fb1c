"""Backbones: what a checkpoint's weights fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from robench.declarations.base import LARGEST, DeclarationBase
from robench.declarations.fan import Fan
from robench.declarations.transformer import Transformer

Argument = str | int | float | bool | None
# What models of timm are made large by; their other numbers are at most LARGEST.
ARGUMENT_LIMITS: Mapping[str, int] = {
    "depth": 1000, "img_size": 4096, "patch_size": 4096, "embed_dim": 65_536, "num_heads": 65_536, "in_chans": 1000,
    "mlp_ratio": 1000,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Vit(Transformer):
    """Vision transformer with a class token and learned positions (DeiT), on timm's names of its parameters.

    Attributes:
        distilled: a distillation token with a head of its own beside the class token's; logits are the heads' mean.
    """

    kind: ClassVar[str] = "vit"

    distilled: bool = False

    @property
    def num_tokens(self) -> int:
        """Patches, the class token and, if there is one, the distillation token."""
        return self.num_patches + 1 + self.distilled


@dataclass(frozen=True, slots=True, kw_only=True)
class Timm(DeclarationBase):
    """Any model of the timm library, by its name there."""

    kind: ClassVar[str] = "timm"

    name: str
    arguments: Mapping[str, Argument] = field(default_factory=dict)

    def contradictions(self) -> list[str]:
        """A name that can be printed; sizes within the bounds of robench's own backbones."""
        problems = [] if self.name.isprintable() else [f"name must be printable text, got {self.name!a}"]
        for name, value in self.arguments.items():
            most = ARGUMENT_LIMITS.get(name, LARGEST)
            if isinstance(value, (int, float)) and not -most <= value <= most:
                problems.append(f"arguments.{name} must lie in -{most}..{most}, got {value}")
        return problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Python(DeclarationBase):
    """A model that a function of the user's own package returns.

    Attributes:
        target: ``package.module:function``, found on the Python path or in the current folder.
        arguments: passed to the function by name.
        output: which part of what the model returns are its logits: the index in a tuple or list, or the name of a key
            or an attribute; None where it returns them alone.
    """

    kind: ClassVar[str] = "python"

    target: str
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    output: Argument = None

    def contradictions(self) -> list[str]:
        """A target has one colon between two dotted names; an output is an index or a name."""
        problems = []
        module, _, function = self.target.partition(":")
        if not all(part.isidentifier() for part in module.split(".")) or not function.isidentifier():
            problems.append(f"target must be package.module:function, got {self.target}")
        if isinstance(self.output, (bool, float)):
            problems.append(f"output must be a whole number or a name, got {self.output}")
        return problems


def couples_rows(architecture: DeclarationBase) -> bool | None:
    """Return whether rows of a batch influence each other in an architecture; None where its code is not robench's."""
    return architecture.mechanism.is_coupled if isinstance(architecture, Transformer) else None


BACKBONES: Mapping[str, type[DeclarationBase]] = {"vit": Vit, "fan": Fan, "timm": Timm, "python": Python}
