"""Declaration of a vignette: images that darken toward their borders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Le
from robench.declarations.base import PerturbationBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Vignette(PerturbationBase):
    """Brightness that falls off with the squared distance from a random point near the middle of each image.

    Attributes:
        severity: 1 (weak) to 5 (strong).
    """

    kind: ClassVar[str] = "vignette"
    implementation: ClassVar[str] = "robench_example_plugin.vignette_impl:vignette"

    severity: Annotated[int, Ge(1), Le(5)]

    @property
    def corruption(self) -> tuple[str, int]:
        """Return type and severity."""
        return self.kind, self.severity
