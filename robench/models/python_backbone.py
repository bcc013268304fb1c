"""Declaration of a model in the user's own code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from robench.core.user_code import is_target, target_digest
from robench.declarations.base import Argument
from robench.models.base import ArchitectureBase

if TYPE_CHECKING:
    from robench.declarations.base import FieldProblem


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
