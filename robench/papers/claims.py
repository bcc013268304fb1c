"""Verdicts on claims: a row's printed gain over its baseline in one column, beside the gain that was measured.

Gains are differences in the printed unit, positive where the row is better. The interval of a gain over training seeds
covers other seeds and other examples: half its width is the root of the sum of the squares of those of Welch's
interval and of the mean paired difference over examples, at level 1 - 0.05/k, k being all claims of the row, measured
or not. Where the printed gain itself is compared, the variance over seeds has the paper's own runs as well,
s^2 (2/n + 2/m), and the print may have been rounded. In a row without a true gain, at least one claim is supported with
probability 2.5 % at most, and in a row whose gains are as printed, at least one is called smaller with 2.5 % at most.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import get_args

from robench.comparison.spread import (
    FEWEST_SEEDS,
    PER_CENT,
    POWER,
    Seeds,
    fewest,
    half_width,
    power,
    seeds_text,
    std_range,
    welch,
)
from robench.declare.printed import PrintedClaim, PublishedTable, Reading
from robench.papers.basis import READINGS, Basis, Number
from robench.papers.ratios import OF_BASELINE, how_to_measure, is_ratio, judged_ratio, relative_gain
from robench.papers.verdicts import ALPHA, UNJUDGED, ClaimVerdict, ClaimVerdictName, Verdict, signed


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedGain:
    """Printed gain of a row over its baseline, positive where the row is better.

    Attributes:
        rounding: sum of both numbers' largest rounding errors.
        runs: training runs behind each printed number; ``num_claims``: claims of the row.
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
class JudgedClaim:
    """Claim of a table with its verdict.

    Attributes:
        row: label of the model's row, or name of its column where models are columns; ``column``: the other of both.
        unit: of all gains; of seconds and bytes per cent of the baseline.
        printed_gain: positive where the row is better.
    """

    row: str
    baseline: str
    column: str
    unit: str
    printed_gain: float
    verdict: ClaimVerdict

    @property
    def gain_text(self) -> str:
        """Measured gain with its interval; empty if it is not measured."""
        found = self.verdict
        if found.gain is None:
            return ""
        bounds = "" if found.low is None or found.high is None else f" [{signed(found.low)}, {signed(found.high)}]"
        return f"{signed(found.gain)}{bounds}"


def summary_of(claims: Sequence[JudgedClaim], num_within_rounding: int) -> str:
    """Return the counts of verdicts on claims, and the probability that chance alone supports one."""
    counts = Counter(claim.verdict.name for claim in claims)
    found = ", ".join(f"{counts[name]} {name}" for name in get_args(ClaimVerdictName) if counts[name])
    left_out = f"; {num_within_rounding} within rounding are left out" if num_within_rounding else ""
    rows = len({claim.row for claim in claims})
    chance = min(100.0, 100 * ALPHA / 2 * rows)
    plurals = ["" if count == 1 else "s" for count in (len(claims), rows)]
    return (
        f"{len(claims)} claim{plurals[0]} of gains over baselines: {found}{left_out}. Without true gains, at least one"
        f" is supported in at most {100 * ALPHA / 2:g} % of rows, and in at most {chance:g} % of tables of {rows}"
        f" row{plurals[1]}."
    )


# Measured number and verdict of each cell in each reading of its protocol: by row, column and reading.
Numbers = Mapping[tuple[str, str, Reading | None], tuple[Number, Verdict]]


def judged_claims(published: PublishedTable, numbers: Numbers, basis: Basis) -> tuple[JudgedClaim, ...]:
    """Return the verdict on each printed gain that rounding alone does not explain, model by model."""
    claims = [claim for claim in published.claims if not claim.is_within_rounding]
    counts = Counter(claim.model for claim in claims)
    return tuple(
        JudgedClaim(
            row=claim.model,
            baseline=claim.baseline_model,
            column=claim.place,
            unit=OF_BASELINE if is_ratio(claim) else claim.cell.unit,
            printed_gain=relative_gain(claim) if is_ratio(claim) else float(claim.gain),
            verdict=_judged(claim, published.runs, counts[claim.model], numbers, basis),
        )
        for claim in claims
    )


def _judged(claim: PrintedClaim, runs: int, num_claims: int, numbers: Numbers, basis: Basis) -> ClaimVerdict:
    """Return the verdict in the first reading of the protocol that is measured of both models."""
    printed = PrintedGain(gain=float(claim.gain), rounding=float(claim.rounding), runs=runs, num_claims=num_claims)
    baselines = dict(claim.baseline.as_read)
    found = [ClaimVerdict(name="other protocol", reason="the protocols of row and baseline have other readings")]
    for by, cell in claim.cell.as_read:
        if by in baselines:
            pair = [numbers[each.row, each.column, by] for each in (cell, claim.baseline)]
            verdict = _in_reading(printed, replace(claim, cell=cell, baseline=baselines[by]), pair, basis)
            found.append(verdict if by is None else replace(verdict, reason=f"by the {READINGS[by]}: {verdict.reason}"))
    return min(found[1:] or found, key=lambda verdict: UNJUDGED.get(verdict.name, 0))


def _in_reading(
    printed: PrintedGain, claim: PrintedClaim, pair: Sequence[tuple[Number, Verdict]], basis: Basis
) -> ClaimVerdict:
    (row, of_row), (baseline, of_baseline) = pair
    if is_ratio(claim) and "no entry" not in (of_row.name, of_baseline.name):
        missing = ClaimVerdict(name="other device", reason=how_to_measure(claim))
        return judged_ratio(claim, basis.costs) or missing
    verdicts = dict.fromkeys((of_row, of_baseline))
    names: tuple[ClaimVerdictName, ...] = ("no entry", "other device", "not measured", "other protocol")
    for name in names:
        if reasons := [verdict.reason for verdict in verdicts if verdict.name == name]:
            return ClaimVerdict(name=name, reason="; ".join(reasons))
    sign = -1 if claim.cell.better == "lower" else 1
    cost = claim.cell.cost
    if cost is not None:
        found = _of_counts(printed, sign, row, baseline)
    elif min(len(row.seeds), len(baseline.seeds)) >= FEWEST_SEEDS:
        error = _error_over_examples(claim, basis)
        found = judged_gain(printed, row.seeds.times(sign), baseline.seeds.times(sign), error)
    else:
        found = _of_weights(printed, sign, claim, row, baseline, basis)
    raised = dict.fromkeys((*row.raised, *baseline.raised))
    if raised:
        name = "flagged" if found.name == "supported" else found.name
        found = replace(found, name=name, reason=f"raised: {', '.join(raised)}; {found.reason}")
    notes = [
        "" if row.is_audited and baseline.is_audited else "not both models are audited",
        "" if all(verdict.is_recipe_stated for verdict in verdicts) else "the paper states no recipe",
        "" if cost is None or cost.unit is None else f"printed in {claim.cell.unit}, which must be {cost.unit}",
        f"{', '.join(claim.cell.inferred)} not printed but inferred" if claim.cell.inferred else "",
    ]
    return replace(found, reason="; ".join([found.reason, *filter(None, notes)]))


def _of_counts(printed: PrintedGain, sign: int, row: Number, baseline: Number) -> ClaimVerdict:
    """Return the verdict on a difference of counts, which has no interval."""
    assert row.measured is not None and baseline.measured is not None  # noqa: PT018  # they are counted
    gain = sign * (row.measured - baseline.measured)
    name: ClaimVerdictName = "smaller"
    if gain:
        name = "supported" if (gain > 0) == (printed.gain > 0) else "contradicted"
    reason = f"counted gain {signed(gain)}, which is exact; printed {signed(printed.gain)}"
    return ClaimVerdict(name=name, reason=reason, gain=gain)


def _of_weights(
    printed: PrintedGain, sign: int, claim: PrintedClaim, row: Number, baseline: Number, basis: Basis
) -> ClaimVerdict:
    """Return the verdict on single checkpoints, whose examples are paired where both are measured on the same."""
    assert row.measured is not None and baseline.measured is not None  # noqa: PT018  # they have verdicts
    bounds: list[float | None] = [None, None]
    names = _in_one_column(claim)
    if basis.differences is not None and names is not None and row.num_seeds == baseline.num_seeds == 1:
        difference = basis.differences(*names)
        if difference is not None:
            scale = sign * _scale(claim) * (-1 if claim.cell.complement else 1)
            bounds = [None if bound is None else scale * bound for bound in (difference.low, difference.high)]
            bounds = bounds[::-1] if scale < 0 else bounds
    gain = sign * (row.measured - baseline.measured)
    return judged_on_examples(printed, gain, bounds[0], bounds[1], min(row.num_seeds, baseline.num_seeds))


def _error_over_examples(claim: PrintedClaim, basis: Basis) -> float | None:
    """Return the standard error of a gain over examples, in the printed unit; None where unknown."""
    names = _in_one_column(claim)
    error = None if basis.errors is None or names is None else basis.errors(*names)
    return None if error is None else _scale(claim) * error


def _in_one_column(claim: PrintedClaim) -> tuple[str, str, str, str] | None:
    """Return the suite, both models and the column of a measured claim; None if it is of two columns."""
    cell, other = claim.cell, claim.baseline
    if cell.suite != other.suite or cell.column_key is None or cell.column_key != other.column_key:
        return None
    assert cell.suite is not None and cell.model is not None and other.model is not None  # noqa: PT018  # it is measured
    return cell.suite, cell.model, other.model, cell.column_key


def _scale(claim: PrintedClaim) -> int:
    return 100 if claim.cell.unit == PER_CENT else 1


def judged_gain(
    printed: PrintedGain, row: Seeds, baseline: Seeds, error_over_examples: float | None = None
) -> ClaimVerdict:
    """Return the verdict on a gain over three or more training seeds of both; larger numbers are better.

    ``error_over_examples`` is the gain's standard error over examples; without it the interval is over seeds alone.
    """
    assert min(len(row), len(baseline)) >= FEWEST_SEEDS
    error = error_over_examples or 0.0
    name, (gain, low, high), includes_printed = compared_gain(printed, row, baseline, error)
    counts = f"{len(row)} seeds of each" if len(row) == len(baseline) else f"{len(row)} and {len(baseline)} seeds"
    covered = f"{counts} alone" if error_over_examples is None else f"{counts} and examples"
    reason = f"measured gain {signed(gain)} [{signed(low)}, {signed(high)}] over {covered}"
    if name == "undecided":
        reason += f"; {_power_text(printed, row, baseline, error)}"
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


def compared_gain(
    printed: PrintedGain, row: Seeds, baseline: Seeds, error_over_examples: float = 0.0
) -> tuple[ClaimVerdictName, tuple[float, float, float], bool]:
    """Return verdict, measured gain with its bounds, and whether it allows the printed gain; see ``judged_gain``."""
    gain = row.mean - baseline.mean
    found, allowed = (
        half_width(*welch(row, baseline, runs), printed.alpha, error_over_examples) for runs in (None, printed.runs)
    )
    low, high, allowed = gain - found, gain + found, allowed + printed.rounding
    includes_printed = abs(gain - printed.gain) <= allowed
    name: ClaimVerdictName
    if low <= 0 <= high:
        name = "undecided" if includes_printed else "smaller"
    else:
        name = "supported" if (gain > 0) == (printed.gain > 0) else "contradicted"
    return name, (gain, low, high), includes_printed


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


def _power_text(printed: PrintedGain, row: Seeds, baseline: Seeds, error: float) -> str:
    """Return the power to find the printed gain, and the seeds that it takes, over the interval of the deviation.

    ``error`` is that over examples, which more seeds do not reduce.
    """
    pooled = sqrt(
        ((len(row) - 1) * row.std**2 + (len(baseline) - 1) * baseline.std**2) / (len(row) + len(baseline) - 2)
    )
    smallest, largest = std_range(pooled, len(row) + len(baseline) - 2)
    count = min(len(row), len(baseline))

    def chance(std: float, number: int) -> float:
        return power(printed.gain, std, number, printed.alpha, error)

    chances = [chance(std, count) for std in (largest, smallest)]
    needed = [fewest(lambda number, std=std: chance(std, number) >= POWER) for std in (smallest, largest)]  # type: ignore[misc]
    return (
        f"the printed {signed(printed.gain)} would be found with a power of {100 * chances[0]:.0f} to"
        f" {100 * chances[1]:.0f} % at {count} seeds; {100 * POWER:.0f} % takes {seeds_text(*needed)} of each"
    )


def _floor_note(row: Seeds, baseline: Seeds) -> str:
    equal = [name for name, seeds in (("row", row), ("baseline", baseline)) if seeds.is_floored]
    if not equal:
        return ""
    return (
        f"; seeds of the {' and the '.join(equal)} score equally within one example, so that its standard deviation is"
        " taken to be that of one example's step"
    )
