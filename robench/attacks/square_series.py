"""Declaration of the Square attack's form for time series: random search by windows of time."""

from dataclasses import dataclass
from typing import ClassVar

from robench.attacks.base import Norm
from robench.attacks.square import RandomSearch
from robench.domains.series import SERIES


@dataclass(frozen=True, slots=True, kw_only=True)
class SquareSeries(RandomSearch):
    """Random search that changes a window of time in some channels at a time, without gradients.

    After the Square attack on images. Andriushchenko et al. 2020, arXiv:1912.00049.

    Attributes:
        p_init: proportion of a series' values that the first windows cover; it decreases as in ``square``, with the
            schedule rescaled to ``num_queries``.
    """

    kind: ClassVar[str] = "square-series"
    implementation: ClassVar[str] = "robench.attacks.square_series_impl:square_series"
    needed_axes: ClassVar[tuple[str, ...]] = SERIES.axes
    norms: ClassVar[tuple[Norm, ...]] = ("linf",)
    version: ClassVar[int] = 1
