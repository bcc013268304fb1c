"""Analysis of repeated smoothing: powers of the filters of self-attention and of twicing."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

from annotated_types import Ge, Le, MaxLen, MinLen

from robench.analyses.base import AnalysisBase, Statistic, Subject
from robench.analyses.places import LONGEST, log_spaced, problems_of_list
from robench.declarations.base import FieldProblem

MOST = 100_000
_POWER = "power n"
_power = partial(Statistic, axes=("y", "x"), x="eigenvalue x", y=_POWER, is_of_examples=False)
_capacity = partial(Statistic, axes=("x",), x=_POWER, is_of_examples=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmoothingPowers(AnalysisBase):
    """Powers of x and of 2x - x^2, and their integrals over [0, 1]. Twicing, figure 3 and proposition 1.

    Attributes:
        powers: powers n of the curves over x, in ascending order.
        num_points: points x, evenly spaced in [0, 1].
        max_power: largest power of the integrals, which begin at 1.
        num_powers: powers of the integrals, evenly spaced on a logarithmic axis.
    """

    kind: ClassVar[str] = "smoothing-powers"
    implementation: ClassVar[str] = "robench.analyses.smoothing_powers_impl:smoothing_powers"
    title: ClassVar[str] = "what repeated smoothing leaves of each eigenvalue"
    subject: ClassVar[Subject] = "formula"
    statistics: ClassVar[Mapping[str, Statistic]] = {
        "powers": _power(meaning="x^n"),
        "twicing_powers": _power(meaning="(2x - x^2)^n"),
        "capacity": _capacity(meaning="integral of x^n"),
        "twicing_capacity": _capacity(meaning="integral of (2x - x^2)^n", beside="capacity"),
        "capacity_asymptote": _capacity(meaning="1 / n", beside="capacity"),
        "twicing_capacity_asymptote": _capacity(meaning="sqrt(pi) / (2 sqrt(n))", beside="capacity"),
    }

    powers: Annotated[tuple[Annotated[int, Ge(1), Le(MOST)], ...], MinLen(1), MaxLen(LONGEST)] = (1, 2, 6, 12)
    num_points: Annotated[int, Ge(2), Le(10_001)] = 101
    max_power: Annotated[int, Ge(2), Le(MOST)] = 1000
    num_powers: Annotated[int, Ge(2), Le(1000)] = 13

    @property
    def capacity_powers(self) -> tuple[int, ...]:
        """Return the powers of the integrals, from 1."""
        return log_spaced(1, self.max_power, self.num_powers)

    def contradictions(self) -> list[FieldProblem]:
        """Refuse lists of powers that are empty, too long, out of bounds or not in ascending order."""
        return problems_of_list("powers", self.powers, 1, MOST)
