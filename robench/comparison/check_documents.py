"""Renderers of a check: text, Markdown, JSON and JUnit XML, in all of which foreign names are inert."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from robench.comparison.check import FAILING
from robench.comparison.tables import NOTHING, cell_value, difference_text, finite, p_text
from robench.core.inert import NOTE_WIDTH, clipped, inert_json, printable
from robench.reports.grid import cell_text
from robench.reports.markup import escaped, markdown_table, text_table

if TYPE_CHECKING:
    from robench.comparison.check import Check, CheckedCell

_HEADER = ("suite", "model", "column", "before", "now", "change", "test", "p", "p (Holm)", "verdict")
_NUM_NAMES = 3


def check_text(check: Check) -> str:
    """Return the cells as an aligned table, with notes and a sentence of the verdict below."""
    table = text_table(_HEADER, _rows(check))
    notes = "\n".join(f"- {clipped(note, NOTE_WIDTH)}" for note in check.notes)
    return "\n\n".join(part for part in (table, notes, verdict_text(check)) if part) + "\n"


def check_markdown(check: Check) -> str:
    """Return a summary in GitHub's Markdown: the verdict, failing cells, and all cells folded."""
    failed = [row for row, cell in zip(_rows(check), check.cells, strict=True) if cell.has_failed]
    everything = markdown_table(_HEADER, _rows(check), _NUM_NAMES)
    parts = [
        f"### robench check: {'passed' if check.has_passed else 'failed'}",
        escaped(verdict_text(check)),
        markdown_table(_HEADER, failed, _NUM_NAMES) if failed else "",
        f"<details><summary>All {len(check.cells)} cells</summary>\n\n{everything}\n\n</details>",
        "\n".join(f"- {escaped(clipped(note, NOTE_WIDTH))}" for note in check.notes),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def check_json(check: Check) -> str:
    """Return the check as JSON in ASCII, numbers unrounded and shares in [0, 1]."""
    document = {
        "passed": check.has_passed,
        "alpha": check.alpha,
        "tolerance": check.tolerance,
        "false_alarm_rate": check.false_alarm_rate,
        "cells": [_plain(cell) for cell in check.cells],
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


def _rows(check: Check) -> list[list[str]]:
    return [_row(cell) for cell in check.cells]


def _row(cell: CheckedCell) -> list[str]:
    difference = cell.difference
    change = NOTHING
    if difference is not None:
        change = difference_text(difference.value, difference.low, difference.high, cell.unit)
    return [
        *map(clipped, (cell.suite, cell.model, cell.column.label)),
        *(cell_text(cell.before), cell_text(cell.after), change),
        *(cell.test or NOTHING, p_text(cell.p_value), p_text(cell.p_holm), cell.verdict),
    ]


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


def _plain(cell: CheckedCell) -> dict[str, object]:
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
        "change": None
        if difference is None
        else {name: finite(getattr(difference, name)) for name in ("value", "low", "high")},
        "test": cell.test,
        "p": cell.p_value,
        "p_holm": cell.p_holm,
        "newly_wrong": cell.newly_wrong,
        "newly_right": cell.newly_right,
        "false_alarm": cell.false_alarm,
    }
