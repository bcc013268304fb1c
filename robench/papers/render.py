"""Renderers of a table by format, over its layout as printable texts, and files of all tables with a manifest.

All are pure functions: the same table, or the same archive, gives the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

from robench.core.inert import NOTE_WIDTH, clipped, inert_json
from robench.papers.table import PaperTable, num_measured
from robench.reports.grid import ONE_CHECKPOINT
from robench.reports.markup import csv_of, escaped, html_list, html_page, inert_text, markdown_table, text_table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

    from robench.core.records import Manifest
    from robench.core.suite import Suite
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
    names = ("unit", "measured", "low", "high", "model", "formula", "num_seeds")
    return {**{name: getattr(number, name) for name in names}, "flags": list(number.raised)}


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


WRITTEN_FORMATS = ("md", "json")
MANIFEST_NAME = "manifest.json"
# Folders of a results folder that no number is read off.
_UNREAD = ("damaged", "adversarial")


def files_of(tables: Sequence[PaperTable], manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of all files by name: each table in two formats, and the manifest."""
    files = {
        f"{table.name.replace(':', '-')}.{name}": FORMATS[name](table) for table in tables for name in WRITTEN_FORMATS
    }
    return files | {MANIFEST_NAME: inert_json(manifest) + "\n"}


def manifest_of(
    tables: Sequence[PaperTable],
    published: Mapping[str, Path],
    suites: Mapping[str, Suite],
    results: Path,
    manifests: Iterable[Manifest],
) -> dict[str, Any]:
    """Return the manifest of tables, in the order of their files: their inputs, without any time, machine or path.

    ``published`` has the file of each table's printed numbers, by the table's name; ``manifests`` describe all that the
    results folder has.
    """
    measured, printed = num_measured(tables)
    versions: dict[str, set[str]] = {}
    count = 0
    for each in manifests:
        count += 1
        for library, version in each.provenance.versions.items():
            versions.setdefault(library, set()).add(version)
    return {
        "measured": measured,
        "printed": printed,
        "tables": {
            table.name: {
                "measured": sum(cell.ours.measured is not None for cell in table.cells),
                "printed": len(table.cells),
                "counted": table.is_counted,
                "sha256": hashlib.sha256(published[table.name].read_bytes()).hexdigest(),
            }
            for table in tables
        },
        "suites": {name: suites[name].version for name in sorted(suites)},
        "archive": {"measurements": count, "sha256": digest_of_results(results)},
        "versions": {library: sorted(versions[library]) for library in sorted(versions)},
    }


def digest_of_results(results: Path) -> str:
    """Return the SHA-256 of the names and contents of all kept results, whatever order the file system has them in."""
    digest = hashlib.sha256()
    kept = (path for path in results.glob("*/*/*") if path.is_file() and not path.name.startswith("."))
    by_name = {path.relative_to(results).as_posix(): path for path in kept}
    for name in sorted(by_name):
        if name.split("/")[0] not in _UNREAD:
            digest.update(f"{name}\0{hashlib.sha256(by_name[name].read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


INCONSISTENT = "print inconsistent"
_NOTHING = "—"
# Beside each row, or above each column.
_FACTS = ("model", "formula", "flags")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Grid of printable texts, not yet escaped for any format.

    Attributes:
        notes: numbered sentences below the grid.
    """

    heading: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Texts of a whole table."""

    title: str
    source: str
    blocks: tuple[Block, ...]
    closing: tuple[str, ...]


class _Notes:
    """Numbered notes without duplicates, in the order of first use."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, text: str) -> str:
        """Return the mark of a note, such as ``(2)``."""
        return f"({self._numbers.setdefault(text, len(self._numbers) + 1)})"

    def listed(self) -> tuple[str, ...]:
        """Return all notes, each with its mark."""
        return tuple(clipped(f"({number}) {text}", NOTE_WIDTH) for text, number in self._numbers.items())


# A number, and the function that returns its text, given the unit in the header and the notes.
_Item = tuple["Number", Callable[[str, _Notes], str]]
_Lines = list[tuple[str, Mapping[str, _Item]]]


def page_of(table: PaperTable) -> Page:
    """Return a table as texts: a block in the paper's layout, and a block of twins if there are any."""
    printed_lines: _Lines = [
        (row.label, {name: (cell.ours, partial(_cell_text, cell)) for name, cell in row.cells.items()})
        for row in table.rows
    ]
    twin_lines: _Lines = [
        (row.label, {name: (cell.ours, partial(_twin_text, cell)) for name, cell in row.cells.items()})
        for row in table.twins
    ]
    blocks = [_block("", table.columns, printed_lines)]
    if twin_lines:
        # A block of its own: columns of which no row has a twin are left out.
        columns = tuple(name for name in table.columns if any(name in items for _, items in twin_lines))
        blocks.append(_block(clipped(table.twins_are, NOTE_WIDTH), columns, twin_lines))
    measured, printed = num_measured([table])
    counted = f"{measured} of {printed} printed numbers are measured" if table.is_counted else "no results are printed"
    return Page(
        title=clipped(f"{table.name}: {table.title}", NOTE_WIDTH),
        source=clipped(table.source, NOTE_WIDTH),
        blocks=tuple(blocks),
        closing=(*([ONE_CHECKPOINT] if _has_single_checkpoints(table) else []), f"{counted}."),
    )


def number_text(number: Number, decimals: int) -> str:
    """Return a measured number with its interval, such as ``70.51 [70.11, 70.91]``."""
    if number.measured is None:
        return _NOTHING
    if number.low is None or number.high is None:
        return f"{number.measured:.{decimals}f}"
    return f"{number.measured:.{decimals}f} [{number.low:.{decimals}f}, {number.high:.{decimals}f}]"


def _block(heading: str, columns: Sequence[str], lines: _Lines) -> Block:
    notes = _Notes()
    numbers = {name: [items[name][0] for _, items in lines if name in items] for name in columns}
    units = {name: _only({number.unit for number in numbers[name]}) or "" for name in columns}
    by_row = [_facts([number for number, _ in items.values()]) for _, items in lines]
    by_column = [_facts(numbers[name]) for name in columns]
    is_by_row = None not in by_row
    is_by_column = not is_by_row and None not in by_column
    beside = _shown(by_row) if is_by_row else ()
    above = [
        (_FACTS[place], *(facts[place] or _NOTHING for facts in by_column if facts is not None))
        for place in (_shown(by_column) if is_by_column else ())
    ]
    rows = []
    for (label, items), facts in zip(lines, by_row, strict=True):
        texts = [items[name][1](units[name], notes) if name in items else _NOTHING for name in columns]
        rows.append((clipped(label), *(facts[place] or _NOTHING for place in beside if facts is not None), *texts))
    return Block(
        heading=heading,
        header=(
            "",
            *(_FACTS[place] for place in beside),
            *(clipped(f"{name} ({units[name]})" if units[name] else name) for name in columns),
        ),
        rows=(*above, *rows),
        notes=notes.listed(),
    )


def _facts(numbers: Sequence[Number]) -> tuple[str, str, str] | None:
    """Return model, formula and flags of numbers of one model, empty if there are none; None for several models."""
    models = {number.model for number in numbers}
    if len(models) > 1:
        return None
    flags = dict.fromkeys(flag for number in numbers for flag in number.raised)
    formulas = {number.formula for number in numbers}
    seeds = max((number.num_seeds for number in numbers), default=0)
    model = _only(models) or ""
    named = f"{model} ({seeds} seeds)" if seeds > 1 else model
    return clipped(named), clipped(_only(formulas) or ""), clipped(", ".join(flags), NOTE_WIDTH)


def _shown(facts: Sequence[tuple[str, str, str] | None]) -> tuple[int, ...]:
    """Return the positions of the facts that are known of any model."""
    return tuple(place for place in range(len(_FACTS)) if any(each is not None and each[place] for each in facts))


def _only(values: Collection[str | None]) -> str | None:
    """Return the only value; None if there are several, or none."""
    return next(iter(values)) if len(values) == 1 else None


def _cell_text(cell: TableCell, unit: str, notes: _Notes) -> str:
    decimals = len(cell.printed.partition(".")[2])
    printed = cell.printed if unit == cell.ours.unit else f"{cell.printed} {cell.ours.unit}".rstrip()
    parts = [clipped(printed)]
    if cell.difference is not None:
        parts.append(f"ours {number_text(cell.ours, decimals)}, {cell.difference:+.{decimals}f}")
    parts.append(f"{cell.verdict.name} {notes.mark(str(cell.verdict))}")
    if cell.inconsistent is not None:
        parts.append(f"{INCONSISTENT} {notes.mark(f'{INCONSISTENT}: {cell.inconsistent}')}")
    if cell.remark is not None:
        parts.append(f"remark {notes.mark(f'remark: {cell.remark}')}")
    return "; ".join(parts)


def _twin_text(cell: TwinCell, unit: str, notes: _Notes) -> str:
    if cell.ours.measured is not None:
        return number_text(cell.ours, 1)
    return f"not measured {notes.mark(f'not measured: {cell.reason}')}"


def _has_single_checkpoints(table: PaperTable) -> bool:
    numbers = [cell.ours for cell in table.cells]
    numbers += [cell.ours for row in table.twins for cell in row.cells.values()]
    return any(number.num_seeds == 1 for number in numbers)
