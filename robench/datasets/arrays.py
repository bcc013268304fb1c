"""Declaration of inputs and labels in the arrays of an npz file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from robench.core.errors import did_you_mean
from robench.datasets.user import FilesFormat
from robench.declarations.base import FieldProblem
from robench.domains import DOMAINS
from robench.domains.images import IMAGES


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrays(FilesFormat):
    """Inputs and labels in an npz file, which is read without pickle.

    Images are uint8 of the shape (N, height, width) or (N, height, width, channels), or floats in [0, 1] of the shape
    (N, channels, height, width); inputs of other domains are floats with the axes of the domain. Labels are N whole
    numbers from 0.

    Attributes:
        inputs, targets: names of the two arrays.
        domain: name of the domain of the inputs, one of real numbers.
    """

    kind: ClassVar[str] = "npz"
    implementation: ClassVar[str] = "robench.datasets.arrays_impl:open_arrays"

    inputs: str = "inputs"
    targets: str = "targets"
    domain: str = IMAGES.name

    @property
    def input_domain(self) -> str:
        """Return the name of the domain."""
        return self.domain

    def contradictions(self) -> list[FieldProblem]:
        """Refuse one array for both inputs and labels, and a domain that is unknown or not of real numbers."""
        problems = FilesFormat.contradictions(self)
        if self.domain not in DOMAINS:
            problems.append(("domain", f"unknown domain {self.domain!r}.{did_you_mean(self.domain, DOMAINS)}"))
        elif not DOMAINS[self.domain].is_real_valued:
            problems.append(("domain", f"must be of real numbers, got {self.domain}"))
        if self.inputs == self.targets:
            problems.append(("targets", f"must differ from inputs, got {self.targets!r} for both"))
        return problems
