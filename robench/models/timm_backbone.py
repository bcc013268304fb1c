"""Declaration of models of the timm library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from robench.declarations.base import LARGEST, Argument, FieldProblem
from robench.models.base import ArchitectureBase

# Arguments that make models of timm large; other numbers are at most LARGEST.
ARGUMENT_LIMITS: Mapping[str, int] = {
    "depth": 1000, "img_size": 4096, "patch_size": 4096, "embed_dim": 65_536, "num_heads": 65_536, "in_chans": 1000,
    "mlp_ratio": 1000,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Timm(ArchitectureBase):
    """Model of the timm library.

    Attributes:
        name: name of the model in timm.
        arguments: keyword arguments of ``timm.create_model``, such as ``num_classes``.
    """

    kind: ClassVar[str] = "timm"
    implementation: ClassVar[str] = "robench.models.timm_backbone_impl:build_timm"
    takes_drop_path: ClassVar[bool] = True

    name: str
    arguments: Mapping[str, Argument] = field(default_factory=dict)

    def contradictions(self) -> list[FieldProblem]:
        """Refuse a name that cannot be printed, and sizes outside the bounds of robench's own backbones."""
        problems: list[FieldProblem] = (
            [] if self.name.isprintable() else [("name", f"must be printable text, got {self.name!a}")]
        )
        for name, value in self.arguments.items():
            most = ARGUMENT_LIMITS.get(name, LARGEST)
            if isinstance(value, (int, float)) and not -most <= value <= most:
                problems.append((f"arguments.{name}", f"must lie in -{most}..{most}, got {value}"))
        return problems
