"""Declaration of images and labels in the arrays of an npz file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from robench.datasets.user import FilesFormat
from robench.declarations.base import FieldProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrays(FilesFormat):
    """Images and labels in an npz file, which is read without pickle.

    Images are uint8 of the shape (N, height, width) or (N, height, width, channels), or floats in [0, 1] of the shape
    (N, channels, height, width), with 1 or 3 channels; labels are N whole numbers from 0.

    Attributes:
        inputs, targets: names of the two arrays.
    """

    kind: ClassVar[str] = "npz"
    implementation: ClassVar[str] = "robench.datasets.arrays_impl:open_arrays"

    inputs: str = "inputs"
    targets: str = "targets"

    def contradictions(self) -> list[FieldProblem]:
        """Refuse one array for both images and labels."""
        problems = FilesFormat.contradictions(self)
        if self.inputs != self.targets:
            return problems
        return [*problems, ("targets", f"must differ from inputs, got {self.targets!r} for both")]
