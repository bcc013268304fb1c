"""Renderers of a table by format: pure functions of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import TYPE_CHECKING

from robench.core.inert import inert_json
from robench.papers.layout import page_of
from robench.papers.table import PaperTable
from robench.reports.markup import csv_of, escaped, html_list, html_page, inert_text, markdown_table, text_table

if TYPE_CHECKING:
    from robench.papers.layout import Block
    from robench.papers.table import Number, TableCell, TwinCell

Json = None | int | float | str | list["Json"] | dict[str, "Json"]
_NUMBER = ("unit", "model", "formula", "num_seeds", "flags", "measured", "low", "high")
_CSV_HEADER = (
    *("table", "block", "row", "column", "printed"),
    *_NUMBER,
    *("difference", "verdict", "reason", "inconsistent"),
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
    ``low`` and ``high`` (null if there is none), ``difference``, ``verdict``, ``reason``, ``model``, ``formula``,
    ``num_seeds``, ``flags`` (raised ones), and ``inconsistent`` and ``remark`` if there are any. ``twins`` are rows of
    the same shape without printed number and verdict, with their ``suite``; ``twins_are`` is their heading.
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
    }
    return inert_json(document) + "\n"


def render_csv(table: PaperTable) -> str:
    """Render the table as CSV, one line per printed number and per twin; twins have no printed number or verdict."""
    lines: list[tuple[object, ...]] = []
    for row in table.rows:
        for name, cell in row.cells.items():
            verdict = (cell.difference, cell.verdict.name, inert_text(cell.verdict.reason))
            inconsistent = inert_text(cell.inconsistent or "")
            where = (table.name, "printed", inert_text(row.label), inert_text(name), inert_text(cell.printed))
            lines.append((*where, *_csv_number(cell.ours), *verdict, inconsistent))
    for twin_row in table.twins:
        for name, twin in twin_row.cells.items():
            where = (table.name, "twin", inert_text(twin_row.label), inert_text(name), "")
            lines.append((*where, *_csv_number(twin.ours), None, "", inert_text(twin.reason), ""))
    return csv_of(_CSV_HEADER, lines)


def _html_block(block: Block) -> str:
    heading = f"<h2>{escape(block.heading)}</h2>\n" if block.heading else ""
    header = "".join(f"<th>{escape(text)}</th>" for text in block.header)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>\n" for row in block.rows)
    table = f"<table>\n<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n"
    return f'{heading}<div class="scroll">\n{table}</div>\n{html_list(block.notes)}'


def _json_number(number: Number) -> dict[str, Json]:
    return {**{name: getattr(number, name) for name in _NUMBER}, "flags": list(number.raised)}


def _json_cell(cell: TableCell) -> dict[str, Json]:
    document: dict[str, Json] = {
        "printed": cell.printed,
        **_json_number(cell.ours),
        "difference": cell.difference,
        "verdict": cell.verdict.name,
        "reason": cell.verdict.reason,
    }
    remarks = {"inconsistent": cell.inconsistent, "remark": cell.remark}
    return document | {name: text for name, text in remarks.items() if text is not None}


def _json_twin(cell: TwinCell) -> dict[str, Json]:
    return {**_json_number(cell.ours), "suite": cell.suite, "reason": cell.reason}


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
