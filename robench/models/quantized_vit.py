"""Declaration of vision transformers that see rounded inputs: a defence that is known not to be one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Gt, Le

from robench.models.vit import Vit


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedVit(Vit):
    """Vision transformer behind rounding, whose gradient is zero: a reference of masked gradients, for no other use.

    Athalye et al. 2018, arXiv:1802.00420, call it a shattered gradient. Weights are those of ``vit``.

    Attributes:
        step: distance of the values that are left, in units of the normalised input.
    """

    kind: ClassVar[str] = "quantized-vit"
    implementation: ClassVar[str] = "robench.models.quantized_vit_impl:build_quantized_vit"

    step: Annotated[float, Gt(0), Le(100)]
