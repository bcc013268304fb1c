"""Verdicts on printed numbers: pure functions of a printed and a measured number.

With h half a unit of the last printed digit, a number of the authors' own weights is reproduced within h + 0.05 points.
Retrained models differ by their seeds: with the standard deviation s of n >= 3 of them, and m runs of the paper, the
difference of both means is compared with t(n - 1, 0.975) s sqrt(1/n + 1/m) + h. The paper's standard deviation is taken
to be that of the measured seeds, since papers print none. Source of the interval: Student 1908.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

VerdictName = Literal[
    "reproduced",
    "consistent",
    "differs",
    "one seed",
    "flagged",
    "other protocol",
    "not measured",
    "no entry",
]
PER_CENT = "%"
POINTS = 0.05
FEWEST_SEEDS = 3
# Far below any printed digit; differences of decimal fractions are not exact.
_ROUNDING_ERROR = 1e-9


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on a printed number, with its reason.

    Attributes:
        reason: sentence about the numbers; for ``not measured`` the command and its cost, for ``no entry`` the
            lacking capability, for ``other protocol`` the names of the fields that differ.
    """

    name: VerdictName
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Printed and measured number, both in the printed unit.

    Attributes:
        printed: the number; ``rounding``: half a unit of its last digit.
        unit: unit of both; tolerances in points are of per cent alone.
        runs: training runs that the printed number is the mean of.
        measured: the number of one checkpoint, or the mean over seeds.
        of_seeds: number of each training seed, where there are several.
    """

    printed: float
    rounding: float
    unit: str = PER_CENT
    runs: int = 1
    measured: float
    of_seeds: tuple[float, ...] = ()
    of_authors: bool = False
    differing: tuple[str, ...] = ()
    raised: tuple[str, ...] = ()

    @property
    def difference(self) -> float:
        """Measured number less the printed one."""
        return self.measured - self.printed


def judged(evidence: Evidence) -> Verdict:
    """Return the verdict on a measured number."""
    if evidence.differing:
        return Verdict("other protocol", ", ".join(evidence.differing))
    if evidence.of_authors:
        return _of_authors(evidence)
    return _of_retrained(evidence)


def detectable_difference(of_seeds: Sequence[float], runs: int, rounding: float) -> float:
    """Return t(n - 1, 0.975) s sqrt(1/n + 1/m) + h, the largest difference of means that chance may explain.

    >>> round(detectable_difference([70.0, 71.0, 72.0], 5, 0.005), 4)
    3.1472
    """
    # Imported here: it takes a tenth of a second, and most tables have no seeds.
    from scipy.special import stdtrit  # type: ignore[import-untyped]  # scipy has no types

    count = len(of_seeds)
    return float(stdtrit(count - 1, 0.975)) * stdev(of_seeds) * sqrt(1 / count + 1 / runs) + rounding


def _of_authors(evidence: Evidence) -> Verdict:
    points = POINTS if evidence.unit == PER_CENT else 0.0
    allowed = evidence.rounding + points
    agrees = abs(evidence.difference) <= allowed + _ROUNDING_ERROR
    reason = f"authors' weights, {_signed(evidence.difference)} of the printed number, {_number(allowed)} allowed"
    return _flagged("reproduced" if agrees else "differs", reason, evidence)


def _of_retrained(evidence: Evidence) -> Verdict:
    count = len(evidence.of_seeds)
    if count < FEWEST_SEEDS:
        had = "one training" if count < 2 else f"{count} trainings"
        reason = f"{had}, {_signed(evidence.difference)} of the printed number; {FEWEST_SEEDS} or more seeds are needed"
        return Verdict("one seed", _with_flags(reason, evidence))
    detectable = detectable_difference(evidence.of_seeds, evidence.runs, evidence.rounding)
    difference = fmean(evidence.of_seeds) - evidence.printed
    reason = (
        f"mean of {count} seeds, {_signed(difference)} of the printed number; detectable difference"
        f" {_number(detectable)}, for {evidence.runs} run{'s' * (evidence.runs != 1)} of the paper"
    )
    agrees = abs(difference) <= detectable + _ROUNDING_ERROR
    return _flagged("consistent" if agrees else "differs", reason, evidence)


def _flagged(name: VerdictName, reason: str, evidence: Evidence) -> Verdict:
    is_agreement = name != "differs"
    return Verdict("flagged" if is_agreement and evidence.raised else name, _with_flags(reason, evidence))


def _with_flags(reason: str, evidence: Evidence) -> str:
    return f"raised: {', '.join(evidence.raised)}; {reason}" if evidence.raised else reason


def _signed(number: float) -> str:
    return f"{_rounded(number):+.3f}"


def _number(number: float) -> str:
    return f"{_rounded(number):.3f}"


def _rounded(number: float) -> float:
    # No minus sign before zero.
    return round(number, 3) + 0.0
