"""Renderers of comparisons (text, Markdown, LaTeX, CSV, JSON) and of checks (text, Markdown, JSON, JUnit XML).

Names come from files that strangers write: they are printable in all formats, literal in Markdown, and no formula in
CSV.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import isfinite
from xml.etree import ElementTree

from robench.comparison.check import FAILING, Check, CheckedCell
from robench.comparison.compare import ComparedColumn, Comparison
from robench.comparison.evidence import Difference
from robench.comparison.many_to_one import ManyToOne
from robench.core.inert import NOTE_WIDTH, clipped, inert_json, printable
from robench.core.report import Cell
from robench.reports.grid import cell_text, number_text
from robench.reports.latex import latex_of
from robench.reports.table import Table, csv_of, escaped, markdown_of, markdown_table, text_of

NOTHING = "—"
_CSV_HEADER = (
    *("suite", "column", "first_model", "second_model", "unit"),
    *("first", "first_missing", "second", "second_missing", "difference", "low", "high"),
    *("test", "p", "p_corrected", "only_first", "only_second"),
)


def table_of(comparison: Comparison, *, flipped: bool = False) -> Table:
    """Return the comparison as texts; ``flipped`` adds the ids of the examples that only one model is right about."""
    several = len(comparison.suites) > 1
    return Table(
        header=(
            *("column", clipped(comparison.first), clipped(comparison.second)),
            *("difference", "test", "p", "p (corrected)", "only A right", "only B right"),
        ),
        rows=tuple(
            (
                clipped(f"{row.suite}: {row.column.label}" if several else row.column.label),
                *_texts(row, comparison.style.digits),
            )
            for row in comparison.rows
        ),
        paragraphs=tuple(_flipped(comparison)) if flipped else (),
        notes=tuple(clipped(note, NOTE_WIDTH) for note in comparison.notes),
        closing=(comparison.conclusion, protocol_text(comparison)),
        style=comparison.style,
    )


def render_csv(comparison: Comparison, *, flipped: bool = False) -> str:
    """Return the comparison as CSV, a line a column, numbers unrounded and proportions in [0, 1].

    A missing number is an empty field. ``flipped`` adds two fields of ids, a space between two.
    """
    lines = []
    for row in comparison.rows:
        difference = row.difference
        numbers = (None,) * 3 if difference is None else (difference.value, difference.low, difference.high)
        ids = [" ".join(each or ()) for each in (row.only_first, row.only_second)]
        lines.append(
            [
                *(row.suite, row.column.key, comparison.first, comparison.second, row.unit),
                *(cell_value(row.first), row.first.missing, cell_value(row.second), row.second.missing),
                *(*numbers, row.test, row.p_value, row.p_corrected),
                *(None if each is None else len(each) for each in (row.only_first, row.only_second)),
                *(ids if flipped else ()),
            ]
        )
    return csv_of([*_CSV_HEADER, *(("only_first_ids", "only_second_ids") if flipped else ())], lines)


def render_json(comparison: Comparison, *, flipped: bool = False) -> str:
    """Return the comparison as JSON in ASCII, numbers unrounded and proportions in [0, 1]; infinite numbers are null.

    ``flipped`` adds ``only_first_ids`` and ``only_second_ids`` to each row.
    """
    document = {
        "first": comparison.first,
        "second": comparison.second,
        "suites": [{"suite": name, "version": version} for name, version in comparison.suites],
        "limit": comparison.limit,
        "all_examples": comparison.all_examples,
        "seeds": None if comparison.seeds is None else [list(names) for names in comparison.seeds],
        "rows": [_plain(row, flipped=flipped) for row in comparison.rows],
        "notes": list(comparison.notes),
        "conclusion": comparison.conclusion,
        "provenance": dict(comparison.provenance),
    }
    return inert_json(document) + "\n"


RENDERERS: Mapping[str, Callable[..., str]] = {
    "text": lambda comparison, flipped=False: text_of(table_of(comparison, flipped=flipped)),
    "markdown": lambda comparison, flipped=False: markdown_of(table_of(comparison, flipped=flipped)),
    "latex": lambda comparison, flipped=False: latex_of(table_of(comparison, flipped=flipped)),
    "json": render_json,
    "csv": render_csv,
}


def p_text(p_value: float | None) -> str:
    """Return a p-value with two digits, such as ``0.012`` or ``3.1e-06``."""
    return NOTHING if p_value is None else f"{p_value:.2g}"


def difference_text(value: float, low: float | None, high: float | None, unit: str, digits: int | None = None) -> str:
    """Return a difference with its sign and interval, such as ``+2.5 [-0.1, +5.1]``."""
    if low is None or high is None:
        return _signed(value, unit, digits)
    return f"{_signed(value, unit, digits)} [{_signed(low, unit, digits)}, {_signed(high, unit, digits)}]"


def _signed(number: float, unit: str, digits: int | None) -> str:
    text = number_text(number, unit, digits)
    if not text.strip("-0."):
        return text.removeprefix("-")
    return f"+{text}" if number > 0 else text


def _texts(row: ComparedColumn, digits: int | None) -> list[str]:
    found = row.difference
    shown = found and difference_text(found.value, found.low, found.high, row.unit, digits)
    flips = [NOTHING if ids is None else str(len(ids)) for ids in (row.only_first, row.only_second)]
    return [
        cell_text(row.first, digits),
        cell_text(row.second, digits),
        shown or (f"{NOTHING} (missing)" if any(map(_is_missing, (row.first, row.second))) else NOTHING),
        row.test or NOTHING,
        p_text(row.p_value),
        p_text(row.p_corrected),
        *flips,
    ]


def _is_missing(cell: Cell) -> bool:
    return cell.estimate is None and cell.is_applicable


def _flipped(comparison: Comparison) -> Iterator[str]:
    """Yield a paragraph for each column and model that is right where the other is not."""
    for row in comparison.rows:
        for model, ids in ((comparison.first, row.only_first), (comparison.second, row.only_second)):
            if ids:
                label = f"{clipped(row.column.label)}, only {clipped(model)} right ({len(ids)}):"
                yield f"{label} {' '.join(map(clipped, ids))}"


def protocol_text(comparison: Comparison | ManyToOne) -> str:
    """Return the suites, limits and provenance of a comparison in a line."""
    titles = [f"{name}, version {version}" for name, version in comparison.suites]
    titles += ["all examples"] if comparison.all_examples else []
    limit = [] if comparison.limit is None else [f"first {comparison.limit} examples"]
    facts = [f"{name} {text}" for name, text in comparison.provenance.items()]
    return clipped("; ".join([*titles, *limit, *facts, "shares and their differences in per cent"]), NOTE_WIDTH)


def _plain(row: ComparedColumn, *, flipped: bool) -> dict[str, object]:
    difference = row.difference
    document: dict[str, object] = {
        "suite": row.suite,
        "column": row.column.key,
        "unit": row.unit,
        "first": plain_cell(row.first),
        "second": plain_cell(row.second),
        "difference": difference and _plain_difference(difference) | {"interval": difference.method},
        "test": row.test,
        "p": row.p_value,
        "p_corrected": row.p_corrected,
        "differs": row.differs,
        "only_first": None if row.only_first is None else len(row.only_first),
        "only_second": None if row.only_second is None else len(row.only_second),
    }
    if flipped:
        document |= {"only_first_ids": row.only_first, "only_second_ids": row.only_second}
    return document


def _plain_difference(difference: Difference) -> dict[str, object]:
    return {name: finite(getattr(difference, name)) for name in ("value", "low", "high")}


def plain_cell(cell: Cell) -> dict[str, object]:
    """Return the number of a cell, and those of its training seeds, for JSON."""
    of_seeds = () if cell.estimate is None else cell.estimate.of_seeds
    document: dict[str, object] = {"value": cell_value(cell), "missing": cell.missing}
    return document | ({"of_seeds": [finite(value) for value in of_seeds]} if of_seeds else {})


def cell_value(cell: Cell) -> float | None:
    """Return the number of a cell; None where it is missing or infinite."""
    return None if cell.estimate is None else finite(cell.estimate.value)


def finite(number: float | None) -> float | None:
    """Return a number that JSON can say, else None."""
    return number if number is not None and isfinite(number) else None


def _checked_table(cells: Iterable[CheckedCell], check: Check) -> Table:
    return Table(
        header=("suite", "model", "column", "before", "now", "change", "test", "p", "p (Holm)", "verdict"),
        rows=tuple(map(_row, cells)),
        notes=tuple(clipped(note, NOTE_WIDTH) for note in check.notes),
        closing=(verdict_text(check),),
        num_names=3,
    )


def check_text(check: Check) -> str:
    """Return the cells as an aligned table, with notes and a sentence of the verdict below."""
    return text_of(_checked_table(check.cells, check))


def check_markdown(check: Check) -> str:
    """Return a summary in GitHub's Markdown: the verdict, failing cells, and all cells folded."""
    everything = markdown_table(_checked_table(check.cells, check))
    parts = [
        f"### robench check: {'passed' if check.has_passed else 'failed'}",
        escaped(verdict_text(check)),
        markdown_table(_checked_table(check.failed, check)) if check.failed else "",
        f"<details><summary>All {len(check.cells)} cells</summary>\n\n{everything}\n\n</details>",
        "\n".join(f"- {escaped(clipped(note, NOTE_WIDTH))}" for note in check.notes),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def check_json(check: Check) -> str:
    """Return the check as JSON in ASCII, numbers unrounded and proportions in [0, 1]."""
    document = {
        "passed": check.has_passed,
        "alpha": check.alpha,
        "tolerance": check.tolerance,
        "false_alarm_rate": check.false_alarm_rate,
        "cells": [_plain_checked(cell) for cell in check.cells],
        "notes": list(check.notes),
    }
    return inert_json(document) + "\n"


def check_junit(check: Check) -> str:
    """Return the check as JUnit XML, a test case a cell; a cell without a number in the baseline is skipped."""
    failed, skipped = len(check.failed), sum(cell.verdict == "no number" for cell in check.cells)
    counts = {"tests": str(len(check.cells)), "failures": str(failed), "errors": "0", "skipped": str(skipped)}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "robench check", **counts})
    for cell in check.cells:
        names = {"classname": f"{cell.suite}.{cell.model}", "name": cell.column.label}
        case = ElementTree.SubElement(suite, "testcase", {name: printable(text) for name, text in names.items()})
        if cell.has_failed:
            failure = ElementTree.SubElement(case, "failure", {"type": cell.verdict, "message": _reason(cell)})
            failure.text = _reason(cell)
        elif cell.verdict == "no number":
            ElementTree.SubElement(case, "skipped", {"message": "the baseline has no number here"})
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def verdict_text(check: Check) -> str:
    """Return a sentence or two on how the check ended and how often it fails by chance."""
    verdicts = [cell.verdict for cell in check.cells]
    kinds = [f"{verdicts.count(each)} {each}" for each in FAILING if each in verdicts]
    found = f"failed: {', '.join(kinds)}, of {len(check.cells)} cells" if kinds else f"passed: {len(check.cells)} cells"
    text = f"Check {found}. Without a change in quality, at most {100 * check.alpha:g} % of checks find a worse cell."
    if check.tolerance is not None:
        text += (
            f" With as many changed examples, the {check.tolerance:g}-point tolerance fails a model that is as good "
            f"as before in up to {100 * (check.false_alarm_rate or 0):.2g} % of checks."
        )
    return text


def _row(cell: CheckedCell) -> tuple[str, ...]:
    difference = cell.difference
    change = NOTHING
    if difference is not None:
        change = difference_text(difference.value, difference.low, difference.high, cell.unit)
    return (
        *map(clipped, (cell.suite, cell.model, cell.column.label)),
        *(cell_text(cell.before), cell_text(cell.after), change),
        *(cell.test or NOTHING, p_text(cell.p_value), p_text(cell.p_holm), cell.verdict),
    )


def _reason(cell: CheckedCell) -> str:
    before, after = cell_text(cell.before), cell_text(cell.after)
    if cell.verdict == "missing":
        return f"the baseline has {before}, now {after}: measure what is missing, or run with --run"
    change = _row(cell)[5]
    flips = "" if cell.newly_wrong is None else f", {cell.newly_wrong} examples newly wrong, {cell.newly_right} right"
    return (
        f"{before} before, {after} now: {change}{flips}; {cell.test} p = {p_text(cell.p_value)}, "
        f"{p_text(cell.p_holm)} after Holm"
    )


def _plain_checked(cell: CheckedCell) -> dict[str, object]:
    difference = cell.difference
    return {
        "suite": cell.suite,
        "model": cell.model,
        "column": cell.column.key,
        "unit": cell.unit,
        "before": cell_value(cell.before),
        "after": cell_value(cell.after),
        "missing": cell.after.missing,
        "verdict": cell.verdict,
        "change": difference and _plain_difference(difference),
        "test": cell.test,
        "p": cell.p_value,
        "p_holm": cell.p_holm,
        "newly_wrong": cell.newly_wrong,
        "newly_right": cell.newly_right,
        "false_alarm": cell.false_alarm,
    }
