"""Declaration of median-of-means over FourierFormer's kernel."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from robench.attention.mom import MedianOfMeans


@dataclass(frozen=True, slots=True, kw_only=True)
class FourierMom(MedianOfMeans):
    """Median of means with FourierFormer's kernel, for keys that are not normalised. Han et al. 2022, appendix C.

    Attributes:
        power: see ``fourier``.
    """

    kind: ClassVar[str] = "fourier-mom"
    # As of ``fourier``.
    version: ClassVar[int] = 2
    implementation: ClassVar[str] = "robench.attention.fourier_mom_impl:FourierMomAttention"
    has_causal_form: ClassVar[bool] = True

    power: Annotated[int, Ge(1), Le(1000)] = 4
