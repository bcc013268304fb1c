"""Renderers of a table by format: pure functions of the table."""

from collections.abc import Callable, Mapping
from html import escape

from robench.core.inert import inert_json
from robench.papers.basis import Number
from robench.papers.claims import JudgedClaim
from robench.papers.layout import Block, page_of
from robench.papers.table import PaperTable, TableCell, TwinCell
from robench.reports.markup import csv_of, escaped, html_list, html_page, inert_text, markdown_table, text_table

Json = None | int | float | str | list["Json"] | dict[str, "Json"]
_NUMBER = ("unit", "model", "formula", "num_seeds", "flags", "measured", "low", "high")
_CSV_HEADER = (
    "table",
    "block",
    "row",
    "baseline",
    "column",
    "printed",
    *_NUMBER,
    "difference",
    "verdict",
    "reason",
    "inconsistent",
)


def render_text(table: PaperTable) -> str:
    """Render the table as plain text, each block with its notes below."""
    page = page_of(table)
    parts = [f"{page.title}\n{page.source}"]
    for block in page.blocks:
        grid = text_table(block.header, block.rows)
        notes = "".join(f"\n{note}" for note in block.notes)
        parts.append("\n\n".join(part for part in (block.heading, grid + (f"\n{notes}" if notes else "")) if part))
    return "\n\n".join([*parts, "\n".join(page.closing)]) + "\n"


def render_markdown(table: PaperTable) -> str:
    """Render the table in GitHub's Markdown, with all texts escaped."""
    page = page_of(table)
    parts = [f"# {escaped(page.title)}", escaped(page.source)]
    for block in page.blocks:
        parts += [f"## {escaped(block.heading)}"] if block.heading else []
        parts.append(markdown_table(block.header, block.rows))
        parts += ["\n".join(f"- {escaped(note)}" for note in block.notes)] if block.notes else []
    return "\n\n".join([*parts, *map(escaped, page.closing)]) + "\n"


def render_html(table: PaperTable) -> str:
    """Render the table as a self-contained page without scripts, fonts or images."""
    page = page_of(table)
    blocks = "".join(_html_block(block) for block in page.blocks)
    footer = f"<footer>{escape(' '.join(page.closing))}</footer>"
    return html_page(page.title, f"<p>{escape(page.source)}</p>\n{blocks}{footer}")


def render_json(table: PaperTable) -> str:
    """Render the table as JSON, numbers unrounded in the printed unit.

    ``rows`` have ``cells`` by column, for printed numbers only: ``printed``, ``unit``, ``measured`` with its bounds
    ``low`` and ``high`` (null if undefined), ``difference``, ``verdict``, ``reason``, ``model``, ``formula``,
    ``num_seeds``, ``flags`` (raised ones), and ``inconsistent`` and ``remark`` if there are any. ``twins`` are rows of
    the same shape without printed number and verdict, with their ``suite``; ``twins_are`` is their heading.
    ``claims`` are the printed gains over baselines with what was measured of them, null where nothing is;
    ``num_within_rounding`` counts gains that rounding may have made, and ``no_claims`` says why a table claims nothing.
    """
    document: dict[str, Json] = {
        "table": table.name,
        "title": table.title,
        "source": table.source,
        "counted": table.is_counted,
        "columns": list(table.columns),
        "rows": [
            {"label": row.label, "cells": {name: _json_cell(cell) for name, cell in row.cells.items()}}
            for row in table.rows
        ],
        "twins_are": table.twins_are,
        "twins": [
            {"label": row.label, "cells": {name: _json_twin(cell) for name, cell in row.cells.items()}}
            for row in table.twins
        ],
        "claims": [_json_claim(claim) for claim in table.claims],
        "num_within_rounding": table.num_within_rounding,
        "no_claims": table.no_claims,
        "measured_with": {suite: dict(facts) for suite, facts in table.measured_with.items()},
    }
    return inert_json(document) + "\n"


def render_csv(table: PaperTable) -> str:
    """Render the table as CSV, a line for each printed number, twin and claim, whose numbers are gains."""
    lines: list[tuple[object, ...]] = []
    for row in table.rows:
        for name, cell in row.cells.items():
            judged = (cell.difference, cell.verdict.title, inert_text(cell.verdict.reason))
            place = (table.name, "printed", inert_text(row.label), "", inert_text(name), inert_text(cell.printed))
            lines.append((*place, *_csv_number(cell.ours), *judged, inert_text(cell.inconsistent or "")))
    for twin_row in table.twins:
        for name, twin in twin_row.cells.items():
            place = (table.name, "twin", inert_text(twin_row.label), "", inert_text(name), "")
            lines.append((*place, *_csv_number(twin.ours), None, "", inert_text(twin.reason), ""))
    for claim in table.claims:
        names = (inert_text(text) for text in (claim.row, claim.baseline, claim.column))
        found = claim.verdict
        number = (inert_text(claim.unit), "", "", found.num_seeds, "", found.gain, found.low, found.high)
        difference = None if found.gain is None else found.gain - claim.printed_gain
        judged = (difference, found.name, inert_text(found.reason))
        lines.append((table.name, "claim", *names, claim.printed_gain, *number, *judged, ""))
    return csv_of(_CSV_HEADER, lines)


def _html_block(block: Block) -> str:
    heading = f"<h2>{escape(block.heading)}</h2>\n" if block.heading else ""
    header = "".join(f"<th>{escape(text)}</th>" for text in block.header)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>\n" for row in block.rows)
    table = f"<table>\n<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n"
    return f'{heading}<div class="scroll">\n{table}</div>\n{html_list(block.notes)}'


def _json_number(number: Number) -> dict[str, Json]:
    return {
        "unit": number.unit,
        "measured": number.measured,
        "low": number.low,
        "high": number.high,
        "model": number.model,
        "formula": number.formula,
        "num_seeds": number.num_seeds,
        "flags": list(number.raised),
    }


def _json_cell(cell: TableCell) -> dict[str, Json]:
    document: dict[str, Json] = {
        "printed": cell.printed,
        **_json_number(cell.ours),
        "difference": cell.difference,
        "verdict": cell.verdict.title,
        "reason": cell.verdict.reason,
    }
    remarks = {"inconsistent": cell.inconsistent, "remark": cell.remark}
    return document | {name: text for name, text in remarks.items() if text is not None}


def _json_twin(cell: TwinCell) -> dict[str, Json]:
    return {**_json_number(cell.ours), "suite": cell.suite, "reason": cell.reason}


def _json_claim(claim: JudgedClaim) -> dict[str, Json]:
    found = claim.verdict
    return {
        "row": claim.row,
        "baseline": claim.baseline,
        "column": claim.column,
        "unit": claim.unit,
        "printed_gain": claim.printed_gain,
        "gain": found.gain,
        "low": found.low,
        "high": found.high,
        "num_seeds": found.num_seeds,
        "verdict": found.name,
        "reason": found.reason,
    }


def _csv_number(number: Number) -> tuple[str | int | float | None, ...]:
    return (
        inert_text(number.unit),
        inert_text(number.model or ""),
        inert_text(number.formula or ""),
        number.num_seeds,
        inert_text(", ".join(number.raised)),
        number.measured,
        number.low,
        number.high,
    )


FORMATS: Mapping[str, Callable[[PaperTable], str]] = {
    "text": render_text,
    "md": render_markdown,
    "csv": render_csv,
    "json": render_json,
    "html": render_html,
}
