"""Means over the training seeds of an entry, which combine several rows of a report into one.

Source of the interval over seeds alone: Student 1908, for the mean of n independent values, mean +- t(n - 1, 0.975) s /
sqrt(n). Of that over seeds and examples: ``crossed_interval``.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf, isfinite
from statistics import NormalDist, fmean, stdev, variance
from typing import TYPE_CHECKING

from robench.core.checkpoint import entry_name
from robench.core.flags import Flag
from robench.core.ids import order_of
from robench.core.report import Cell, Estimate, Report
from robench.metrics.contributions import Contributions
from robench.metrics.intervals import wilson_interval
from robench.reports.arrangement import AnyRow
from robench.reports.notes import grouped_notes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SEED_INTERVAL = "Student's t 95 % over training seeds"
CROSSED_INTERVAL = "crossed random effects 95 % over training seeds and examples"


def over_seeds(report: Report, entry_of: Callable[[str], str] = entry_name) -> Report:
    """Return the report with one row per entry: the mean over the rows of its seeds, ``NAME`` and ``NAME@SEED``.

    Rows of equal weights count once, and a note names the others. An entry with one row is unchanged. A cell has a
    number only if it has one for every seed.

    Args:
        report: report with a row for each checkpoint.
        entry_of: returns the entry of a checkpoint, by their names.
    """
    rows = mean_rows(report.rows, lambda key, rows: mean_cell([row.cells[key] for row in rows]), entry_of)
    if not any(row.seeds for row in rows):
        return replace(report, rows=rows)
    return replace(report, rows=rows, provenance={**report.provenance, "intervals over seeds": SEED_INTERVAL})


def mean_rows(
    rows: Sequence[AnyRow],
    cell_of: Callable[[str, Sequence[AnyRow]], Cell],
    entry_of: Callable[[str], str] = entry_name,
) -> tuple[AnyRow, ...]:
    """Return one row per entry, see ``over_seeds``; ``cell_of`` returns the cell of a key over the rows of seeds."""
    groups: dict[str, list[AnyRow]] = {}
    for row in rows:
        groups.setdefault(entry_of(row.model), []).append(row)
    return tuple(_mean_row(name, _distinct(rows), cell_of) for name, rows in groups.items())


def t_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the bounds of the 95 % interval of the mean of at least two independent values.

    >>> [round(bound, 3) for bound in t_interval([0.317, 0.442, 0.465, 0.417])]
    [0.307, 0.514]
    """
    # Imported here: it takes a tenth of a second, and most reports have one checkpoint a row.
    from scipy.special import stdtrit  # type: ignore[import-untyped]  # scipy has no types

    count, mean = len(values), fmean(values)
    half_width = float(stdtrit(count - 1, 0.975)) * stdev(values) / count**0.5
    return mean - half_width, mean + half_width


def crossed_interval(seeds: Sequence[Estimate], contributions: Sequence[object]) -> tuple[float, float]:
    """Return the bounds of the 95 % interval of the mean over other training seeds and other examples.

    All k seeds see the same n examples. Seeds, examples, and both together are random effects (Searle, Casella and
    McCulloch 1992, "Variance components", chapter 4; of readers and cases, Gallas 2006, "One-shot estimate of MRMC
    variance"): the value of seed i on example j is m + a_i + b_j + e_ij, and the variance of the mean

        var(a) / k + var(b) / n + var(e) / (k n)  =  A + B - E,

    with A the variance of the seeds' numbers over k, B the variance of the examples' means over seeds over n, and E
    the residual variance over k n, which A and B both have. The sum is at least A and at least B. Degrees of freedom
    are Satterthwaite's (1946): (A + B - E)^2 / (A^2 / (k - 1) + B^2 / (n - 1)).

    Of proportions it is Wilson's interval with Student's quantile and p (1 - p) / (A + B - E) trials (the effective
    sample size of Korn and Graubard 1998), at most k n, and n where no two values differ. Where the number is not a
    mean over examples, or the seeds' examples differ, the mean of the seeds' squared half-widths over 1.96^2 replaces
    B - E: at least as much, since no correlation of two seeds is above 1. Without half-widths it is ``t_interval``.

    Args:
        seeds: numbers of at least two seeds.
        contributions: what of each seed was tested; other than ``Contributions`` count as unknown.
    """
    # Imported here: it takes a tenth of a second, and most reports have one checkpoint a row.
    from scipy.special import stdtrit

    values, count = values_of_seeds(contributions), len(seeds)
    mean, of_seeds = fmean(seed.value for seed in seeds), variance(seed.value for seed in seeds) / count
    if values is None:
        num_examples = min(seed.num_examples for seed in seeds)
        of_examples = variance_over_examples(seeds) or 0.0
        total = of_seeds + of_examples
    else:
        num_examples = values.shape[1]
        means = values.mean(0)
        residuals = values - means - values.mean(1, keepdims=True) + mean
        of_examples = float(means.var(ddof=1)) / num_examples
        of_both = float((residuals**2).sum()) / ((count - 1) * (num_examples - 1) * count * num_examples)
        total = max(of_seeds, of_examples, of_seeds + of_examples - of_both)
    spread = of_seeds**2 / (count - 1) + of_examples**2 / max(1, num_examples - 1)
    quantile = float(stdtrit(total**2 / spread if spread else inf, 0.975))
    if all(isinstance(each, Contributions) and each.is_binary for each in contributions):
        trials = (min(count * num_examples, mean * (1 - mean) / total) if total else 0.0) or num_examples
        return wilson_interval(mean * trials, trials, quantile)
    return mean - quantile * total**0.5, mean + quantile * total**0.5


def variance_over_examples(seeds: Sequence[Estimate | None]) -> float | None:
    """Return a variance of the mean over other examples, at least as large as the true one; None without intervals.

    It is the mean over seeds of the squared half-widths over 1.96^2: the same examples are at most fully correlated.
    """
    normal = NormalDist().inv_cdf(0.975)
    bounds = [(seed.low, seed.high) for seed in seeds if seed is not None]
    halves = [(high - low) / 2 for low, high in bounds if low is not None and high is not None]
    return fmean((half / normal) ** 2 for half in halves) if len(halves) == len(seeds) else None


def values_of_seeds(contributions: Sequence[object]) -> "NDArray[np.float64] | None":
    """Return the values (seeds, examples) whose means are the numbers, of examples in the order of their ids.

    None where a number is not a mean over examples, or the examples differ.
    """
    import numpy as np

    samples = [each.samples[0] for each in contributions if isinstance(each, Contributions) and each.is_mean]
    orders = [order_of(sample.ids) for sample in samples]
    ids = [sample.ids[order].tolist() for sample, order in zip(samples, orders, strict=True)]
    if len(ids) < len(contributions) or any(each != ids[0] for each in ids) or len(ids[0]) < 2:
        return None
    return np.array([sample.values[order] for sample, order in zip(samples, orders, strict=True)], np.float64)


def mean_cell(
    cells: Sequence[Cell], interval_of: Callable[[Sequence[Estimate]], tuple[float, float]] | None = None
) -> Cell:
    """Return the mean of one number over the rows of an entry's seeds; no number unless every seed has one.

    ``interval_of`` returns the bounds for finite numbers of the seeds; None for ``t_interval``.
    """
    estimates = [cell.estimate for cell in cells if cell.estimate is not None]
    num_examples = min(cell.num_examples for cell in cells)
    if len(estimates) < len(cells):
        missing = [cell.missing for cell in cells if cell.estimate is None]
        known = [number for number in missing if number is not None]
        return Cell(
            estimate=None,
            num_examples=num_examples,
            missing=max(known) if len(known) == len(missing) else None,
            is_applicable=any(cell.is_applicable for cell in cells),
        )
    values = tuple(estimate.value for estimate in estimates)
    low, high = None, None
    # The median distance of attacks that mostly fail is infinite.
    if all(map(isfinite, values)):
        bounds = t_interval(values) if interval_of is None else interval_of(estimates)
        low, high = bounds if all(map(isfinite, bounds)) else (None, None)
    unit = estimates[0].unit
    if unit == "share" and low is not None and high is not None:
        # No proportion lies outside, so that no true mean is lost.
        low, high = max(0.0, low), min(1.0, high)
    mean = Estimate(value=fmean(values), low=low, high=high, num_examples=num_examples, unit=unit, of_seeds=values)
    return Cell(estimate=mean, num_examples=num_examples, missing=0)


def _distinct(rows: Sequence[AnyRow]) -> list[AnyRow]:
    """Return the first row of each set of weights, with a note that names the others."""
    kept: dict[str, AnyRow] = {}
    for row in rows:
        same = kept.get(row.weights or row.model)
        if same is None:
            kept[row.weights or row.model] = row
        else:
            note = f"{row.model} has the weights of {same.model}, and does not count again"
            kept[row.weights or row.model] = replace(same, notes=(*same.notes, note))
    return list(kept.values())


def _mean_row(name: str, rows: Sequence[AnyRow], cell_of: Callable[[str, Sequence[AnyRow]], Cell]) -> AnyRow:
    if len(rows) == 1:
        return rows[0]
    notes = grouped_notes([(row.model, row.notes) for row in rows], of_all="all seeds: ")
    return replace(
        rows[0],
        model=name,
        weights=None,
        seeds=tuple(row.model for row in rows),
        cells={key: cell_of(key, rows) for key in rows[0].cells},
        notes=tuple(notes),
        flags=_joined_flags(rows),
        is_audited=all(row.is_audited for row in rows),
        measurements=tuple(sorted({key for row in rows for key in row.measurements})),
    )


def _joined_flags(rows: Sequence[AnyRow]) -> tuple[Flag, ...] | None:
    """Return each flag once: raised if it is for any seed, with the names of those in its finding."""
    if all(row.flags is None for row in rows):
        return None
    by_name: dict[str, list[tuple[str, Flag]]] = {}
    for row in rows:
        for flag in row.flags or ():
            by_name.setdefault(flag.name, []).append((row.model, flag))
    joined = []
    for found in by_name.values():
        raised = [(model, flag) for model, flag in found if flag.is_raised]
        if raised:
            findings = "; ".join(f"{model}: {flag.finding}" for model, flag in raised)
            joined.append(replace(raised[0][1], finding=findings))
        else:
            joined.append(found[0][1])
    return tuple(joined)
