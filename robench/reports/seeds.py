"""Means over the training seeds of an entry, which combine several rows of a report into one.

Source of the interval: Student 1908, for the mean of n independent values, mean +- t(n - 1, 0.975) s / sqrt(n).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite
from statistics import fmean, stdev

from robench.core.checkpoint import entry_name
from robench.core.flags import Flag
from robench.core.report import Cell, Estimate, Report, Row
from robench.reports.notes import grouped_notes

SEED_INTERVAL = "Student's t 95 % over training seeds"


def over_seeds(report: Report, entry_of: Callable[[str], str] = entry_name) -> Report:
    """Return the report with one row per entry: the mean over the rows of its seeds, ``NAME`` and ``NAME@SEED``.

    Rows of equal weights count once, and a note names the others. An entry with one row is unchanged. A cell has a
    number only if it has one for every seed.

    Args:
        report: report with a row for each checkpoint.
        entry_of: returns the entry of a checkpoint, by their names.
    """
    groups: dict[str, list[Row]] = {}
    for row in report.rows:
        groups.setdefault(entry_of(row.model), []).append(row)
    rows = tuple(_mean_row(name, _distinct(rows)) for name, rows in groups.items())
    if not any(row.seeds for row in rows):
        return replace(report, rows=rows)
    return replace(report, rows=rows, provenance={**report.provenance, "intervals over seeds": SEED_INTERVAL})


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


def mean_cell(cells: Sequence[Cell]) -> Cell:
    """Return the mean of one number over the rows of an entry's seeds; no number unless every seed has one."""
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
    # The median distance of attacks that mostly fail is infinite.
    low, high = t_interval(values) if all(map(isfinite, values)) else (None, None)
    unit = estimates[0].unit
    if unit == "share" and low is not None and high is not None:
        # No proportion lies outside, so that no true mean is lost.
        low, high = max(0.0, low), min(1.0, high)
    mean = Estimate(value=fmean(values), low=low, high=high, num_examples=num_examples, unit=unit, of_seeds=values)
    return Cell(estimate=mean, num_examples=num_examples, missing=0)


def _distinct(rows: Sequence[Row]) -> list[Row]:
    """Return the first row of each set of weights, with a note that names the others."""
    kept: dict[str, Row] = {}
    for row in rows:
        same = kept.get(row.weights or row.model)
        if same is None:
            kept[row.weights or row.model] = row
        else:
            note = f"{row.model} has the weights of {same.model}, and does not count again"
            kept[row.weights or row.model] = replace(same, notes=(*same.notes, note))
    return list(kept.values())


def _mean_row(name: str, rows: Sequence[Row]) -> Row:
    if len(rows) == 1:
        return rows[0]
    notes = grouped_notes([(row.model, row.notes) for row in rows], of_all="all seeds: ")
    return replace(
        rows[0],
        model=name,
        weights=None,
        seeds=tuple(row.model for row in rows),
        cells={key: mean_cell([row.cells[key] for row in rows]) for key in rows[0].cells},
        notes=tuple(notes),
        flags=_joined_flags(rows),
        is_audited=all(row.is_audited for row in rows),
        measurements=tuple(sorted({key for row in rows for key in row.measurements})),
    )


def _joined_flags(rows: Sequence[Row]) -> tuple[Flag, ...] | None:
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
