"""Verdicts on printed numbers: pure functions of a printed and a measured number.

With h half a unit of the last printed digit, a single run of the authors is reproduced by their weights within
h + 0.05 points. Retrained models differ by their seeds: with the standard deviation s of n >= 3 of them and m runs of
the paper, the standard error of measured less printed is s sqrt(1/n + 1/m), and that of the authors' weights, one run
among m, s sqrt(1 - 1/m). The paper's standard deviation is taken to be that of the measured seeds, since papers print
none. A number is consistent if its 90 % interval lies within a margin (two one-sided tests of 5 %, Schuirmann 1987,
Journal of Pharmacokinetics and Biopharmaceutics 15), and differs if the interval at level 1 - 0.05/k excludes every
value that rounds to the print, k being all numbers of the row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import Any, Literal

from robench.comparison.spread import (
    FEWEST_SEEDS,
    MOST_SEEDS,
    NO_SEEDS,
    PER_CENT,
    Seeds,
    fewest,
    seeds_text,
    std_range,
    student,
)
from robench.declare.printed import PublishedCell, PublishedTable

VerdictName = Literal[
    "reproduced",
    "consistent",
    "undecided",
    "differs",
    "one of m runs",
    "one seed",
    "inferred",
    "flagged",
    "print inconsistent",
    "other device",
    "other protocol",
    "not measured",
    "no entry",
]
ClaimVerdictName = Literal[
    "supported",
    "contradicted",
    "smaller",
    "undecided",
    "one seed",
    "flagged",
    "other device",
    "other protocol",
    "not measured",
    "no entry",
]
# From the reading of a protocol that is judged to the one about which least is known.
UNJUDGED: Mapping[str, int] = {"inferred": 1, "other protocol": 2, "not measured": 3}
POINTS = 0.05
ALPHA = 0.05
# Far below any printed digit; differences of decimal fractions are not exact.
_ROUNDING_ERROR = 1e-9


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on a printed number.

    Attributes:
        reason: sentence about the numbers; for ``not measured`` the command and its cost, for ``no entry`` the
            lacking capability, for ``other protocol`` the names of the fields that differ.
    """

    name: VerdictName
    reason: str
    is_recipe_stated: bool = True

    @property
    def title(self) -> str:
        """Name, with its qualification."""
        return self.name if self.is_recipe_stated else f"{self.name}, recipe not stated"

    def __str__(self) -> str:
        return f"{self.title}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimVerdict:
    """Verdict on a claim, with the measured gain; ``num_seeds`` is that of row or baseline, whichever has fewer."""

    name: ClaimVerdictName
    reason: str
    gain: float | None = None
    low: float | None = None
    high: float | None = None
    num_seeds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Printed and measured number, both in the printed unit.

    Attributes:
        rounding: half a unit of the last printed digit.
        runs: number of training runs whose mean is printed; ``num_printed``: of printed numbers in the row.
        margin: difference that still counts as consistent.
        measured: the number of one checkpoint, or the mean over ``seeds``, which may be beside authors' weights.
        inferred: fields of the protocol that the paper does not print; ``differing``: fields that differ.
        is_audited: whether the model's checks are known, of a number under attack.
    """

    printed: float
    rounding: float
    unit: str = PER_CENT
    runs: int = 1
    num_printed: int = 1
    margin: float = 0.5
    measured: float
    seeds: Seeds = NO_SEEDS
    of_authors: str | None = None
    is_recipe_stated: bool = True
    inferred: tuple[str, ...] = ()
    differing: tuple[str, ...] = ()
    raised: tuple[str, ...] = ()
    is_audited: bool = True

    @property
    def difference(self) -> float:
        """Measured number less the printed one."""
        return self.measured - self.printed


# Any: further fields of Evidence.
def evidence_on(
    table: PublishedTable,
    cell: PublishedCell,
    measured: float,
    seeds: Seeds,
    differing: tuple[str, ...],
    **known: Any,
) -> Evidence:
    """Return the evidence on a cell of a table, in one reading of its protocol; ``known`` are further fields."""
    printed, rounding = float(cell.value), float(cell.rounding)
    return Evidence(
        printed=printed,
        rounding=rounding,
        unit=cell.unit,
        runs=table.runs,
        num_printed=table.num_printed_of(cell),
        margin=margin_of([float(gain) for gain in table.gains_of(cell)], printed, rounding, cell.unit),
        measured=measured,
        seeds=seeds,
        is_recipe_stated=cell.is_recipe_stated,
        inferred=cell.inferred,
        differing=differing,
        **known,
    )


def margin_of(gains: Sequence[float], printed: float, rounding: float, unit: str) -> float:
    """Return the difference from a printed number that still counts as consistent, in its unit.

    It is half the smallest of the printed gains in the column: the row's own, or those of the rows that are compared
    with it. Where nothing is claimed, it is half a point, or 1 % of numbers other than per cent. It is at least one
    unit of the last printed digit. ``printed``, ``rounding`` and ``unit`` are as of ``Evidence``.
    """
    unclaimed = 0.5 if unit == PER_CENT else abs(printed) / 100
    return max(min((abs(gain) / 2 for gain in gains), default=unclaimed), 2 * rounding)


def judged(evidence: Evidence) -> Verdict:
    """Return the verdict on a measured number."""
    if evidence.differing:
        return Verdict("other protocol", ", ".join(evidence.differing))
    found = _of_authors(evidence) if evidence.of_authors is not None else _of_retrained(evidence)
    is_judged = found.name in ("reproduced", "consistent", "undecided", "differs")
    if evidence.raised:
        name = "flagged" if found.name in ("reproduced", "consistent") else found.name
        found = replace(found, name=name, reason=f"raised: {', '.join(evidence.raised)}; {found.reason}")
    if not evidence.is_audited:
        found = replace(found, reason=f"{found.reason}; the model is not audited")
    if evidence.inferred and is_judged:
        reason = (
            f"{', '.join(evidence.inferred)} not printed but inferred, so that agreement is circular;"
            f" {found.name}: {found.reason}"
        )
        found = replace(found, name="inferred", reason=reason)
    # Authors' weights need no recipe.
    is_stated = evidence.is_recipe_stated or evidence.of_authors is not None or not is_judged
    return replace(found, is_recipe_stated=is_stated)


def _of_authors(evidence: Evidence) -> Verdict:
    if evidence.runs > 1:
        return _one_of_several(evidence)
    points = POINTS if evidence.unit == PER_CENT else 0.0
    allowed = evidence.rounding + points
    agrees = abs(evidence.difference) <= allowed + _ROUNDING_ERROR
    difference = signed(evidence.difference)
    reason = f"authors' weights, {evidence.of_authors}, {difference} of the printed number, {allowed:.3f} allowed"
    return Verdict("reproduced" if agrees else "differs", reason)


def _one_of_several(evidence: Evidence) -> Verdict:
    difference = (
        f"authors' weights, {evidence.of_authors}, {signed(evidence.difference)} of the printed mean of"
        f" {evidence.runs} runs"
    )
    if len(evidence.seeds) < FEWEST_SEEDS:
        reason = (
            f"{difference}, theirs among them; {FEWEST_SEEDS} or more seeds of the entry would show how far single"
            " runs are from the mean"
        )
        return Verdict("one of m runs", reason)
    name, text = _compared(evidence, sqrt(1 - 1 / evidence.runs))
    return Verdict(name, f"{difference}; {text}, by the spread of {len(evidence.seeds)} seeds")


def _of_retrained(evidence: Evidence) -> Verdict:
    count = len(evidence.seeds)
    if count < FEWEST_SEEDS:
        had = "one training" if count < 2 else f"{count} trainings"
        reason = f"{had}, {signed(evidence.difference)} of the printed number; {FEWEST_SEEDS} or more seeds are needed"
        return Verdict("one seed", reason)
    name, text = _compared(evidence, sqrt(1 / count + 1 / evidence.runs))
    if name == "undecided":
        text += f"; {_seeds_needed(evidence)}"
        if _is_never_decided(evidence):
            text += "; with this difference and standard deviation no number of seeds decides it"
    reason = (
        f"mean of {count} seeds, {signed(evidence.difference)} of the printed number, for {evidence.runs}"
        f" run{'s' * (evidence.runs != 1)} of the paper; {text}"
    )
    return Verdict(name, reason)


def _compared(evidence: Evidence, factor: float) -> tuple[VerdictName, str]:
    """Return the verdict on a difference whose standard error is ``factor`` times that of a single seed."""
    seeds, difference = evidence.seeds, evidence.difference
    freedom, error = len(seeds) - 1, seeds.std * factor
    half_width = student(freedom, 0.95) * error
    allowed = student(freedom, 1 - ALPHA / evidence.num_printed / 2) * error + evidence.rounding
    text = (
        f"90 % interval [{signed(difference - half_width)}, {signed(difference + half_width)}], margin"
        f" {evidence.margin:.3f}"
    )
    if seeds.is_floored:
        text += ", seeds with equal scores: the standard deviation is taken to be that of one example's step"
    differs = abs(difference) > allowed + _ROUNDING_ERROR
    if abs(difference) + half_width <= evidence.margin + _ROUNDING_ERROR:
        return "consistent", text + ("; a difference within the margin is there" if differs else "")
    return ("differs", text) if differs else ("undecided", text)


def _seeds_needed(evidence: Evidence) -> str:
    """Return the number of seeds with which the 90 % interval fits within the margin, if the true difference is 0."""
    seeds = evidence.seeds
    needed = [
        fewest(lambda count, std=std: _half_width(std, count, evidence.runs) <= evidence.margin)  # type: ignore[misc]
        for std in std_range(seeds.std, len(seeds) - 1)
    ]
    if needed[0] is None:
        least = _half_width(std_range(seeds.std, len(seeds) - 1)[0], MOST_SEEDS, evidence.runs)
        return (
            f"no number of seeds makes it consistent: with {MOST_SEEDS:,} the interval is still at least"
            f" {least:.3f} wide on each side, since the printed number is of {evidence.runs}"
            f" run{'s' * (evidence.runs != 1)}"
        )
    return f"an interval within the margin takes {seeds_text(*needed)}"


def _is_never_decided(evidence: Evidence) -> bool:
    """Return whether the most seeds, of the measured mean and standard deviation, would be undecided as well."""
    error = evidence.seeds.std * sqrt(1 / MOST_SEEDS + 1 / evidence.runs)
    allowed = student(MOST_SEEDS - 1, 1 - ALPHA / evidence.num_printed / 2) * error + evidence.rounding
    is_inside = abs(evidence.difference) + student(MOST_SEEDS - 1, 0.95) * error <= evidence.margin
    return not is_inside and abs(evidence.difference) <= allowed


def _half_width(std: float, count: int, runs: int) -> float:
    return student(count - 1, 0.95) * std * sqrt(1 / count + 1 / runs) if count > 1 else inf


def signed(number: float) -> str:
    """Return a difference as text, without a minus sign before zero."""
    return f"{number:+z.3f}"
