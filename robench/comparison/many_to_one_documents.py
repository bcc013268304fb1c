"""Renderers of comparisons with a control: text, Markdown, LaTeX, CSV and JSON; see ``comparison.documents``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from robench.comparison.compare import detectable_text
from robench.comparison.documents import NOTHING, difference_text, finite, p_text, plain_cell, protocol_text
from robench.comparison.dunnett import DUNNETT
from robench.comparison.many_to_one import ControlledColumn, ControlledGain, ManyToOne
from robench.comparison.spread import seeds_text
from robench.core.inert import NOTE_WIDTH, clipped, inert_json
from robench.reports.grid import cell_text
from robench.reports.latex import latex_of
from robench.reports.table import Table, csv_of, markdown_of, text_of

_CSV_HEADER = (
    *("suite", "column", "model", "control", "unit", "num_examples", "num_seeds", "control_seeds"),
    *("mean", "control_mean", "difference", "low", "high", "covers", "seeds_low", "seeds_high"),
    *("p", "p_corrected", "p_welch_holm", "verdict", "least_seeds_needed", "most_seeds_needed"),
)


def table_of(found: ManyToOne) -> Table:
    """Return the comparison as texts, a row for each column and model."""
    several, digits = len(found.suites) > 1, found.style.digits
    rows = []
    for column in found.columns:
        label = clipped(f"{column.suite}: {column.column.label}" if several else column.column.label)
        examples, control = str(column.control.num_examples), cell_text(column.control, digits)
        for gain in column.gains:
            difference = difference_text(gain.difference, gain.low, gain.high, column.unit, digits)
            seeds = f"{len(found.seeds[gain.model])}, {len(found.seeds[found.control])}"
            decides = seeds_text(*gain.seeds_needed) if gain.verdict == "undecided" else NOTHING
            p_values = map(p_text, (gain.p_value, gain.p_corrected, gain.welch))
            numbers = (examples, seeds, cell_text(gain.cell, digits), control, difference, *p_values)
            rows.append((label, clipped(gain.model), *numbers, gain.verdict, decides))
        if not column.gains:
            rows.append((label, *[NOTHING] * 8, "not tested", column.why_untested))
    return Table(
        header=(
            *("column", "model", "examples", "seeds", "mean", clipped(found.control), "difference"),
            *("p", "p (corrected)", "p (Welch, Holm)", "verdict", "decided by"),
        ),
        rows=tuple(rows),
        paragraphs=tuple(power_of(each) for each in found.columns if each.detectable is not None),
        notes=tuple(clipped(note, NOTE_WIDTH) for note in _notes(found)),
        closing=(found.summary, method_of(found), protocol_text(found)),
        num_names=2,
        style=found.style,
    )


def _notes(found: ManyToOne) -> list[str]:
    return [*([] if found.warning is None else [found.warning]), *found.notes]


def power_of(column: ControlledColumn) -> str:
    """Return the true difference that the test of a column, which was made, finds with 80 % power."""
    assert column.detectable is not None
    bounds = detectable_text(*column.detectable, column.unit)
    unit = "points" if column.unit in ("share", "ratio") else f"({column.unit})"
    return f"{clipped(column.column.label)}: the test finds a true difference of {bounds} {unit} with 80 % power."


def method_of(found: ManyToOne) -> str:
    """Return the sentence on the test and the intervals."""
    covers = " or ".join(dict.fromkeys(each.covers for each in found.columns if each.gains)) or "nothing"
    paired = ", of paired seeds" if found.are_paired else ""
    return (
        f"{DUNNETT} with the variance pooled over all models of a column{paired}; p is corrected for the columns of "
        f"the suite. 95 % intervals cover {covers}, and hold for all models of a column together; supported and "
        "contradicted also need one without zero."
    )


def render_csv(found: ManyToOne) -> str:
    """Return the comparison as CSV, a line for each column and model, numbers unrounded and proportions in [0, 1]."""
    lines = []
    for column in found.columns:
        for gain in column.gains:
            means = [None if each.estimate is None else each.estimate.value for each in (gain.cell, column.control)]
            sizes = (column.control.num_examples, len(found.seeds[gain.model]), len(found.seeds[found.control]))
            lines.append(
                [
                    *(column.suite, column.column.key, gain.model, found.control, column.unit, *sizes),
                    *(*means, gain.difference, gain.low, gain.high, column.covers, *gain.over_seeds),
                    *(gain.p_value, gain.p_corrected, gain.welch, gain.verdict, *gain.seeds_needed),
                ]
            )
    return csv_of(_CSV_HEADER, lines)


def render_json(found: ManyToOne) -> str:
    """Return the comparison as JSON in ASCII, numbers unrounded, proportions in [0, 1], infinite numbers null."""
    document = {
        "control": found.control,
        "models": list(found.models),
        "suites": [{"suite": name, "version": version} for name, version in found.suites],
        "limit": found.limit,
        "all_examples": found.all_examples,
        "seeds": {name: list(of) for name, of in found.seeds.items()},
        "are_paired": found.are_paired,
        "columns": [_plain_column(each) for each in found.columns],
        "notes": _notes(found),
        "summary": found.summary,
        "provenance": dict(found.provenance),
    }
    return inert_json(document) + "\n"


def _plain_column(column: ControlledColumn) -> dict[str, object]:
    document: dict[str, object] = {
        "suite": column.suite,
        "column": column.column.key,
        "unit": column.unit,
        "num_examples": column.control.num_examples,
        "control": plain_cell(column.control),
    }
    if column.pooled is None:
        return document | {"untested": column.why_untested, "models": []}
    return document | {
        "std": column.pooled.std,
        "freedom": column.pooled.freedom,
        "covers": column.covers,
        "detectable": column.detectable,
        "variance_ratio": finite(column.variance_ratio),
        "p_of_variance_ratio": column.p_of_ratio,
        "models": [_plain_gain(each) for each in column.gains],
    }


def _plain_gain(gain: ControlledGain) -> dict[str, object]:
    return {
        "model": gain.model,
        **plain_cell(gain.cell),
        "difference": {"value": gain.difference, "low": gain.low, "high": gain.high},
        "over_seeds": gain.over_seeds,
        "p": gain.p_value,
        "p_corrected": gain.p_corrected,
        "p_welch_holm": gain.welch,
        "verdict": gain.verdict,
        "seeds_needed": gain.seeds_needed,
    }


RENDERERS: Mapping[str, Callable[[ManyToOne], str]] = {
    "text": lambda found: text_of(table_of(found)),
    "markdown": lambda found: markdown_of(table_of(found)),
    "latex": lambda found: latex_of(table_of(found)),
    "json": render_json,
    "csv": render_csv,
}
