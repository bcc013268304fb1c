"""Renderers of a printed table for programs: JSON and CSV, with numbers to nine decimals of the printed unit.

Last bits of sums differ between processors. Without them the same results give the same files on all.
"""

from typing import Any

from robench.core.inert import inert_json
from robench.papers.basis import Number
from robench.papers.claims import JudgedClaim
from robench.papers.table import PaperTable, TableCell
from robench.reports.table import csv_of

NUM_DECIMALS = 9
NUMBER_FIELDS = ("unit", "model", "formula", "num_seeds", "flags", "measured", "low", "high", "num_examples")
_PLACE = ("table", "block", "row", "baseline", "column", "printed")
_CSV_HEADER = (*_PLACE, *NUMBER_FIELDS, "difference", "verdict", "reason", "inconsistent")


def render_json(table: PaperTable) -> str:
    """Render the table as JSON, numbers to nine decimals of the printed unit.

    ``rows`` have ``cells`` by column, for printed numbers only: ``printed``, ``unit``, ``measured`` with its bounds
    ``low`` and ``high`` (null if undefined), ``difference``, ``verdict``, ``reason``, ``model``, ``formula``,
    ``num_examples``, ``num_seeds``, ``flags`` (raised ones), and ``inconsistent`` and ``remark`` if there are any.
    ``claims`` are the printed gains over baselines with what was measured of them, null where nothing is;
    ``num_within_rounding`` counts gains that rounding may have made, and ``no_claims`` says why a table claims nothing.
    """
    document: dict[str, Any] = {
        "table": table.name,
        "title": table.title,
        "source": table.source,
        "counted": table.is_counted,
        "columns": list(table.columns),
        "rows": [
            {"label": row.label, "cells": {name: _json_cell(cell) for name, cell in row.cells.items()}}
            for row in table.rows
        ],
        "claims": [_json_claim(claim) for claim in table.claims],
        "num_within_rounding": table.num_within_rounding,
        "no_claims": table.no_claims,
        "measured_with": {suite: dict(facts) for suite, facts in table.measured_with.items()},
        "command": table.command,
        "hours": dict(table.hours),
    }
    return inert_json(rounded(document)) + "\n"


def render_csv(table: PaperTable) -> str:
    """Render the table as CSV, a line for each printed number and claim, whose numbers are gains.

    What a model takes to be measured is a line of the block ``hours``, as its reason.
    """
    lines: list[tuple[object, ...]] = []
    for row in table.rows:
        for name, cell in row.cells.items():
            place, judged = ("printed", row.label, "", name), (cell.difference, cell.verdict.title, cell.verdict.reason)
            lines.append((table.name, *place, cell.printed, *csv_number(cell.ours), *judged, cell.inconsistent))
    for claim in table.claims:
        found, place = claim.verdict, ("claim", claim.row, claim.baseline, claim.column)
        number = (claim.unit, "", "", found.num_seeds, "", found.gain, found.low, found.high, "")
        difference = None if found.gain is None else found.gain - claim.printed_gain
        lines.append((table.name, *place, claim.printed_gain, *number, difference, found.name, found.reason, ""))
    nothing = [""] * (len(_CSV_HEADER) - 5)
    lines += [(table.name, "hours", label, *nothing, text, "") for label, text in table.hours.items()]
    return csv_of(_CSV_HEADER, ([*map(rounded, line)] for line in lines))


def rounded(document: Any) -> Any:
    """Return a document of JSON, or a field of CSV, with all its numbers to nine decimals."""
    if isinstance(document, dict):
        return {name: rounded(each) for name, each in document.items()}
    if isinstance(document, list):
        return [rounded(each) for each in document]
    return round(document, NUM_DECIMALS) if isinstance(document, float) else document


def json_number(number: Number) -> dict[str, Any]:
    """Return a number with its unit, model, examples and flags."""
    names = ("unit", "measured", "low", "high", "model", "formula", "num_examples", "num_seeds")
    return {name: getattr(number, name) for name in names} | {"flags": list(number.raised)}


def _json_cell(cell: TableCell) -> dict[str, Any]:
    document: dict[str, Any] = {
        "printed": cell.printed,
        **json_number(cell.ours),
        "difference": cell.difference,
        "verdict": cell.verdict.title,
        "reason": cell.verdict.reason,
    }
    remarks = {"inconsistent": cell.inconsistent, "remark": cell.remark}
    return document | {name: text for name, text in remarks.items() if text is not None}


def _json_claim(claim: JudgedClaim) -> dict[str, Any]:
    found = claim.verdict
    return {
        **{name: getattr(claim, name) for name in ("row", "baseline", "column", "unit", "printed_gain")},
        **{name: getattr(found, name) for name in ("gain", "low", "high", "num_seeds")},
        "verdict": found.name,
        "reason": found.reason,
    }


def csv_number(number: Number) -> tuple[object, ...]:
    """Return a number as the fields ``NUMBER_FIELDS``."""
    fields = json_number(number) | {"flags": ", ".join(number.raised)}
    return tuple(fields[name] for name in NUMBER_FIELDS)
