"""Ratios of seconds and bytes within a printed table, beside ratios that were measured on another device.

A time says nothing of a time on another device, but its ratio to the baseline's in the same table may be compared. A
claim's gain is then in per cent of the baseline, positive where the row is cheaper. Measured gains have quartiles in
place of an interval, and none of a gain within a stated tolerance counts.
"""

from collections.abc import Mapping, Sequence

from robench.costs.stored import StoredCost
from robench.declare.printed import PrintedClaim, PrintedCost
from robench.papers.verdicts import ClaimVerdict, ClaimVerdictName

OF_BASELINE = "% of the baseline"
# In per cent of the baseline: repeated medians differ by a few per cent; sums of the sizes of tensors are exact.
TOLERANCES: Mapping[str, float] = {"seconds": 5.0, "bytes": 0.1}


def is_ratio(claim: PrintedClaim) -> bool:
    """Return whether a claim is of seconds or bytes, whose ratio alone may be compared."""
    cost = claim.cell.cost
    return cost is not None and not cost.is_count


def relative_gain(claim: PrintedClaim) -> float:
    """Return the printed gain in per cent of the baseline."""
    return float(100 * claim.gain / claim.baseline.value)


def relative_rounding(claim: PrintedClaim) -> float:
    """Return the largest error of the printed gain in per cent of the baseline, by the rounding of both numbers."""
    row, baseline = claim.cell, claim.baseline
    ratio = row.value / baseline.value
    largest = (row.value + row.rounding) / (baseline.value - baseline.rounding)
    smallest = (row.value - row.rounding) / (baseline.value + baseline.rounding)
    return float(100 * max(largest - ratio, ratio - smallest))


def judged_ratio(claim: PrintedClaim, costs: Sequence[StoredCost]) -> ClaimVerdict | None:
    """Return the verdict on a claim of seconds or bytes; None unless both models are measured under equal conditions.

    A gain is ``supported`` or ``contradicted``, by its direction, where both quartiles are beyond the tolerance on one
    side; the reason says whether its size agrees within the tolerance and the rounding of the print. Any other gain is
    ``undecided`` where the printed one agrees, and else ``smaller``.
    """
    cost = claim.cell.cost
    assert cost is not None  # by ``is_ratio``
    found = _measured(claim, cost, costs)
    if found is None:
        return None
    (ratio, low, high), how = found
    sign = -1 if claim.cell.better == "lower" else 1
    gain, wanted = sign * 100 * (ratio - 1), relative_gain(claim)
    tolerance = TOLERANCES[cost.kind]
    is_distinct = 100 * (low - 1) > tolerance or 100 * (high - 1) < -tolerance
    agrees = abs(gain - wanted) <= tolerance + relative_rounding(claim)
    name: ClaimVerdictName = "undecided" if agrees else "smaller"
    if is_distinct:
        name = "supported" if (gain > 0) == (wanted > 0) else "contradicted"
    quartiles = "" if low == high else f" (quartiles {low:.3f} and {high:.3f})"
    printed = float(claim.cell.value / claim.baseline.value)
    reason = (
        f"ratio of {cost.kind} in {cost.mode} {ratio:.3f}{quartiles}, {how}; printed {printed:.3f} on {_device(claim)};"
        f" its size {'agrees' if agrees else 'differs'}, with a tolerance of {tolerance:g} % and the print's rounding"
    )
    return ClaimVerdict(name=name, gain=gain, reason=reason)


def how_to_measure(claim: PrintedClaim) -> str:
    """Return the command that measures the ratio of a claim."""
    cost, device = claim.cell.cost, _device(claim)
    assert cost is not None  # by ``is_ratio``
    if claim.cell.model is None or claim.baseline.model is None:
        return f"{cost.kind} of {device}; robench has no entry of one of both"
    return (
        f"{cost.kind} of {device}; 'robench cost {claim.cell.model} {claim.baseline.model} --ratio-to"
        f" {claim.baseline.model}' measures the ratio elsewhere"
    )


def _device(claim: PrintedClaim) -> str:
    return claim.cell.protocol.get("device", "the paper's device")


def _measured(
    claim: PrintedClaim, cost: PrintedCost, costs: Sequence[StoredCost]
) -> tuple[tuple[float, float, float], str] | None:
    """Return median and quartiles of the latest ratio under the same conditions, and how it was measured.

    A ratio that was measured in turns comes before one of two measurements.
    """
    row, baseline = claim.cell.model, claim.baseline.model
    of_row = [each for each in costs if each.model == row and cost.mode in each.seconds]
    if cost.kind == "seconds":
        for each in of_row:
            if each.ratio_to == baseline and cost.mode in each.ratios:
                return each.ratios[cost.mode], f"measured in turns on {each.described}"
    for each in of_row:
        for other in costs:
            if other.model == baseline and other.conditions == each.conditions and cost.mode in other.seconds:
                own, others = (
                    found.seconds[cost.mode] if cost.kind == "seconds" else (found.peak_bytes[cost.mode],) * 3
                    for found in (each, other)
                )
                if min(others) > 0:
                    ratios = own[0] / others[0], own[1] / others[2], own[2] / others[1]
                    return ratios, f"measured on {each.described}"
    return None
