"""Declaration of the identity perturbation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from robench.declarations.base import PerturbationBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Clean(PerturbationBase):
    """Unperturbed inputs."""

    kind: ClassVar[str] = "clean"
    implementation: ClassVar[str] = "robench.perturbations.clean_impl:clean"
    is_clean: ClassVar[bool] = True
    makes_inputs: ClassVar[bool] = False
