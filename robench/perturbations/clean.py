"""The perturbation that does nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from robench.declarations.perturbation_base import PerturbationBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Clean(PerturbationBase):
    """The input as it is: clean accuracy is robustness to nothing."""

    kind: ClassVar[str] = "clean"
    implementation: ClassVar[str] = "robench.perturbations.clean_impl:clean"
    is_clean: ClassVar[bool] = True
    makes_inputs: ClassVar[bool] = False
