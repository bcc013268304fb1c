"""Declaration of inputs and labels in the arrays of an npz file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from robench.datasets.user import DomainFormat
from robench.declarations.base import FieldProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrays(DomainFormat):
    """Inputs and labels in an npz file, which is read without pickle.

    Images are uint8 of the shape (N, height, width) or (N, height, width, channels), or floats in [0, 1] of the shape
    (N, channels, height, width); inputs of other domains are floats with the axes of the domain. Labels are N whole
    numbers from 0.

    Attributes:
        inputs, targets: names of the two arrays.
    """

    kind: ClassVar[str] = "npz"
    implementation: ClassVar[str] = "robench.datasets.arrays_impl:open_arrays"

    inputs: str = "inputs"
    targets: str = "targets"

    def contradictions(self) -> list[FieldProblem]:
        """Refuse one array for both inputs and labels."""
        problems = DomainFormat.contradictions(self)
        if self.inputs == self.targets:
            problems.append(("targets", f"must differ from inputs, got {self.targets!r} for both"))
        return problems
