"""Gains of several models over their baselines, tested together: which are supported, and what decides the others.

Every tested column of every comparison is one test of a family: p-values are corrected by Holm's method over all of
them, so that with a probability of 95 % none is called supported or contradicted by chance alone. Tests are Welch's
over training seeds; a comparison of single checkpoints says nothing of the mechanism and is never tested here.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from robench.comparison.compare import ComparedColumn, Comparison, detectable_in, spread_over_seeds
from robench.comparison.evidence import holm_of_known
from robench.comparison.pairing import LEVEL
from robench.comparison.spread import POWER, fewest, power
from robench.metrics import METRICS

GainVerdict = Literal["supported", "contradicted", "undecided", "one seed", "not measured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """Difference of a model and its baseline in one column.

    Attributes:
        model, baseline: names of the two.
        compared: their numbers, with the difference.
        gain: the difference, positive where the model is better; None where a number is missing.
        p_value: two-sided p-value, corrected over all gains that were tested; None if it was not.
        detectable: range of the smallest gain that the corrected test finds in 80 % of cases with these seeds, over the
            80 % interval of the standard deviation between seeds; None without seeds.
        seeds_needed: fewest seeds of each with which a true gain of the measured size is found in 80 % of cases, over
            the same interval; None where it is over 1,000, and of gains that were not tested.
    """

    model: str
    baseline: str
    compared: ComparedColumn
    verdict: GainVerdict
    gain: float | None = None
    p_value: float | None = None
    detectable: tuple[float, float] | None = None
    seeds_needed: tuple[int | None, int | None] | None = None


def gains_of(comparisons: Sequence[Comparison], columns: Collection[str] | None = None) -> list[Gain]:
    """Return the gain of each comparison's first model over its second in each column, tested together.

    ``columns`` are the keys of the columns, ``suite/key``; None for all.
    """
    rows = [
        (each, row)
        for each in comparisons
        for row in each.rows
        if columns is None or f"{row.suite}/{row.column.key}" in columns
    ]
    tested = [row.p_value if each.seeds is not None else None for each, row in rows]
    alpha = LEVEL / max(1, sum(p_value is not None for p_value in tested))
    return [_gain(each, row, p_value, alpha) for (each, row), p_value in zip(rows, holm_of_known(tested), strict=True)]


def _gain(comparison: Comparison, row: ComparedColumn, p_value: float | None, alpha: float) -> Gain:
    found = Gain(model=comparison.first, baseline=comparison.second, compared=row, verdict="not measured")
    if row.difference is None:
        return found
    value = row.difference.value
    gain = -value if METRICS[row.column.metric].lower_is_better else value
    if p_value is None:
        return replace(found, verdict="one seed", gain=gain)
    verdict: GainVerdict = "undecided"
    if p_value < LEVEL:
        verdict = "supported" if gain > 0 else "contradicted"
    spread = spread_over_seeds(row)
    assert spread is not None  # the p-value is that of means over seeds
    return replace(
        found,
        verdict=verdict,
        gain=gain,
        p_value=p_value,
        detectable=detectable_in(row, alpha),
        seeds_needed=(_needed(gain, spread[0], alpha), _needed(gain, spread[1], alpha)),
    )


def _needed(gain: float, std: float, alpha: float) -> int | None:
    return fewest(lambda count: power(gain, std, count, alpha) >= POWER)


def summary_of(gains: Sequence[Gain]) -> str:
    """Return the counts of verdicts.

    >>> summary_of([])
    'no gain'
    """
    counts = Counter(each.verdict for each in gains)
    found = ", ".join(f"{counts[name]} {name}" for name in get_args(GainVerdict) if counts[name])
    return f"{len(gains)} gains: {found}" if gains else "no gain"
