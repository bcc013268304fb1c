"""Declarations of models that robench does not define: those of timm, and those of the user's own code."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from robench.core.user_code import is_target, target_digest
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Python(ArchitectureBase):
    """Model returned by a function of the user's own package.

    Attributes:
        target: ``package.module:function``, found on the Python path or in the current folder.
        arguments: keyword arguments of the function.
        output: location of the logits in the model's output: the index in a tuple or list, or the name of a key or an
            attribute; None if it returns them alone.
    """

    kind: ClassVar[str] = "python"
    implementation: ClassVar[str] = "robench.models.python_backbone_impl:build_python"
    runs_user_code: ClassVar[bool] = True

    target: str
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    output: Argument = None

    def contradictions(self) -> list[FieldProblem]:
        """Refuse a malformed target, and an output that is neither an index nor a name."""
        problems: list[FieldProblem] = []
        if not is_target(self.target):
            problems.append(("target", f"must be package.module:function, got {self.target}"))
        if isinstance(self.output, (bool, float)):
            problems.append(("output", f"must be a whole number or a name, got {self.output}"))
        return problems

    def code_digest(self) -> str:
        """Return the SHA-256 of the target's sources (``core.user_code.target_digest``), part of the model's identity.

        The code is not run.
        """
        return target_digest(self.target)
