"""Verdicts on claims: a row's printed gain over its baseline in one column, beside the gain that was measured.

Gains are differences in the printed unit, positive where the row is better. Over training seeds, the interval of the
measured gain is Welch's at level 1 - 0.05/k, k being all claims of the row, measured or not. Where the printed gain
itself is compared, the standard error has the paper's own runs as well, s sqrt(2/n + 2/m), and the print may have been
rounded. In a row without a true gain, at least one claim is supported with probability 2.5 % at most, and in a row
whose gains are as printed, at least one is called smaller with 2.5 % at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Literal

from robench.papers.spread import (
    FEWEST_SEEDS,
    POWER,
    Seeds,
    fewest,
    power,
    seeds_text,
    std_range,
    student,
    welch,
)
from robench.papers.verdicts import signed

ClaimVerdictName = Literal[
    "supported",
    "contradicted",
    "smaller",
    "undecided",
    "one seed",
    "flagged",
    "other protocol",
    "not measured",
    "no entry",
]
ALPHA = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedGain:
    """Printed gain of a row over its baseline.

    Attributes:
        gain: the row's number less the baseline's, reversed where smaller is better.
        rounding: sum of both numbers' largest rounding errors.
        runs: training runs behind each printed number.
        num_claims: number of claims of the row.
    """

    gain: float
    rounding: float
    runs: int = 1
    num_claims: int = 1

    @property
    def alpha(self) -> float:
        """Level of a single claim's tests."""
        return ALPHA / self.num_claims


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimVerdict:
    """Verdict on a claim.

    Attributes:
        gain: measured gain, with bounds ``low`` and ``high`` of its interval; None where there is none.
        num_seeds: training seeds of the row or of its baseline, whichever has fewer; 0 if nothing is measured.
    """

    name: ClaimVerdictName
    reason: str
    gain: float | None = None
    low: float | None = None
    high: float | None = None
    num_seeds: int = 0


def judged_gain(printed: PrintedGain, row: Seeds, baseline: Seeds) -> ClaimVerdict:
    """Return the verdict on a gain that was measured over training seeds.

    Args:
        printed: the claim.
        row: numbers of the row's model; three or more.
        baseline: numbers of its baseline; three or more. Both larger where they are better, see ``PrintedGain``.
    """
    assert min(len(row), len(baseline)) >= FEWEST_SEEDS
    gain = row.mean - baseline.mean
    error, freedom = welch(row, baseline)
    half_width = student(freedom, 1 - printed.alpha / 2) * error
    low, high = gain - half_width, gain + half_width
    error, freedom = welch(row, baseline, printed.runs)
    allowed = student(freedom, 1 - printed.alpha / 2) * error + printed.rounding
    includes_printed = abs(gain - printed.gain) <= allowed
    name: ClaimVerdictName
    if low <= 0 <= high:
        name = "undecided" if includes_printed else "smaller"
    else:
        name = "supported" if (gain > 0) == (printed.gain > 0) else "contradicted"
    reason = f"measured gain {_interval(gain, low, high)} over {_counts(row, baseline)}"
    if name == "undecided":
        reason += f"; {_power_text(printed, row, baseline)}"
    elif name in ("supported", "contradicted"):
        reason += (
            f"; the printed {signed(printed.gain)} is {'within' if includes_printed else 'outside'} what it allows"
        )
    return ClaimVerdict(
        name=name,
        reason=reason + _floor_note(row, baseline),
        gain=gain,
        low=low,
        high=high,
        num_seeds=min(len(row), len(baseline)),
    )


def judged_on_examples(
    printed: PrintedGain, gain: float, low: float | None, high: float | None, num_seeds: int = 1
) -> ClaimVerdict:
    """Return the verdict on a gain of single checkpoints, whose interval is over examples."""
    bounds = "" if low is None or high is None else f", interval over examples [{signed(low)}, {signed(high)}]"
    reason = (
        f"measured gain {signed(gain)}{bounds} of these weights only; printed {signed(printed.gain)};"
        f" {FEWEST_SEEDS} or more training seeds of both models are needed"
    )
    return ClaimVerdict(name="one seed", reason=reason, gain=gain, low=low, high=high, num_seeds=num_seeds)


def _power_text(printed: PrintedGain, row: Seeds, baseline: Seeds) -> str:
    """Return the power to find the printed gain, and the seeds that it takes, over the interval of the deviation."""
    pooled = sqrt(
        ((len(row) - 1) * row.std**2 + (len(baseline) - 1) * baseline.std**2) / (len(row) + len(baseline) - 2)
    )
    smallest, largest = std_range(pooled, len(row) + len(baseline) - 2)
    count = min(len(row), len(baseline))
    chances = [power(printed.gain, std, count, printed.alpha) for std in (largest, smallest)]
    needed = [
        fewest(lambda number, std=std: power(printed.gain, std, number, printed.alpha) >= POWER)  # type: ignore[misc]
        for std in (smallest, largest)
    ]
    return (
        f"the printed {signed(printed.gain)} would be found with a power of {100 * chances[0]:.0f} to"
        f" {100 * chances[1]:.0f} % at {count} seeds; {100 * POWER:.0f} % takes {seeds_text(*needed)} of each"
    )


def _interval(gain: float, low: float, high: float) -> str:
    return f"{signed(gain)} [{signed(low)}, {signed(high)}]"


def _counts(row: Seeds, baseline: Seeds) -> str:
    if len(row) == len(baseline):
        return f"{len(row)} seeds of each"
    return f"{len(row)} and {len(baseline)} seeds"


def _floor_note(row: Seeds, baseline: Seeds) -> str:
    equal = [name for name, seeds in (("row", row), ("baseline", baseline)) if seeds.is_floored]
    if not equal:
        return ""
    return (
        f"; seeds of the {' and the '.join(equal)} score equally within one example, so that its standard deviation is"
        " taken to be that of one example's step"
    )
