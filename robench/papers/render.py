"""Renderers of a table by format: pure functions of the table, those for readers over one layout as printable texts."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape

from robench.comparison.spread import PER_CENT
from robench.core.inert import NOTE_WIDTH, clipped, inert_json
from robench.papers.basis import Number
from robench.papers.claims import JudgedClaim, summary_of
from robench.papers.table import PaperTable, TableCell, TwinCell, num_measured
from robench.papers.verdicts import signed
from robench.reports.grid import ONE_CHECKPOINT
from robench.reports.markup import csv_of, escaped, html_list, html_page, inert_text, markdown_table, text_table

INCONSISTENT = "print inconsistent"
_NOTHING = "—"
# Beside each row, or above each column.
_FACTS = ("model", "formula", "flags")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Grid of printable texts, not yet escaped for any format.

    Attributes:
        heading: text above the grid; empty for none.
        header, rows: texts, as many in each row.
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
_Item = tuple[Number, Callable[[str, _Notes], str]]
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
        # Columns without any twin are left out.
        columns = tuple(name for name in table.columns if any(name in items for _, items in twin_lines))
        blocks.append(_block(clipped(table.twins_are, NOTE_WIDTH), columns, twin_lines))
    if table.claims:
        blocks.append(_claims_block(table.claims))
    numbers = [cell.ours for cell in table.cells]
    of_twins = [cell.ours for row in table.twins for cell in row.cells.values()]
    # Of reports on the rows of models, such as the batch size of coupled rows.
    notes = dict.fromkeys(f"{number.model}: {note}" for number in numbers for note in number.notes)
    measured, printed = num_measured([table])
    measured_with = [
        f"{suite}: {', '.join(f'{name} {text}' for name, text in facts.items())}"
        for suite, facts in table.measured_with.items()
    ]
    counted = f"{measured} of {printed} printed numbers are measured" if table.is_counted else "no results are printed"
    return Page(
        title=clipped(f"{table.name}: {table.title}", NOTE_WIDTH),
        source=clipped(table.source, NOTE_WIDTH),
        blocks=tuple(blocks),
        closing=(
            *([ONE_CHECKPOINT] if any(each.num_seeds == 1 for each in (*numbers, *of_twins)) else []),
            *(clipped(text, NOTE_WIDTH) for text in (*notes, *measured_with)),
            *([summary_of(table.claims, table.num_within_rounding)] if table.claims else []),
            *([clipped(f"No claims: {table.no_claims}.", NOTE_WIDTH)] if table.no_claims else []),
            f"{counted}.",
        ),
    )


def _claims_block(claims: Sequence[JudgedClaim]) -> Block:
    notes = _Notes()
    rows = [
        (
            clipped(each.row),
            clipped(each.baseline),
            clipped(each.column),
            f"{signed(each.printed_gain)} {'points' if each.unit == PER_CENT else each.unit}".rstrip(),
            each.gain_text or _NOTHING,
            f"{each.verdict.name} {notes.mark(f'{each.verdict.name}: {each.verdict.reason}')}",
        )
        for each in claims
    ]
    header = ("claim of", "over", "column", "printed gain", "ours", "verdict")
    return Block(
        heading="gains over baselines, positive where better", header=header, rows=tuple(rows), notes=notes.listed()
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
    titles = [clipped(f"{name} ({units[name]})" if units[name] else name) for name in columns]
    rows = []
    for (label, items), facts in zip(lines, by_row, strict=True):
        texts = [items[name][1](units[name], notes) if name in items else _NOTHING for name in columns]
        rows.append((clipped(label), *(facts[place] or _NOTHING for place in beside if facts is not None), *texts))
    return Block(
        heading=heading,
        header=("", *(_FACTS[place] for place in beside), *titles),
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
    parts.append(f"{cell.verdict.title} {notes.mark(str(cell.verdict))}")
    if cell.inconsistent is not None and cell.verdict.name != INCONSISTENT:
        parts.append(f"{INCONSISTENT} {notes.mark(f'{INCONSISTENT}: {cell.inconsistent}')}")
    if cell.remark is not None:
        parts.append(f"remark {notes.mark(f'remark: {cell.remark}')}")
    return "; ".join(parts)


def _twin_text(cell: TwinCell, unit: str, notes: _Notes) -> str:
    if cell.ours.measured is not None:
        return number_text(cell.ours, 1)
    return f"not measured {notes.mark(f'not measured: {cell.reason}')}"


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
            place, judged = ("printed", row.label, "", name), (cell.difference, cell.verdict.title, cell.verdict.reason)
            lines.append((table.name, *place, cell.printed, *_csv_number(cell.ours), *judged, cell.inconsistent))
    for twins in table.twins:
        for name, twin in twins.cells.items():
            place, judged = ("twin", twins.label, "", name), (None, "", twin.reason)
            lines.append((table.name, *place, "", *_csv_number(twin.ours), *judged, ""))
    for claim in table.claims:
        found, place = claim.verdict, ("claim", claim.row, claim.baseline, claim.column)
        number = (claim.unit, "", "", found.num_seeds, "", found.gain, found.low, found.high)
        difference = None if found.gain is None else found.gain - claim.printed_gain
        lines.append((table.name, *place, claim.printed_gain, *number, difference, found.name, found.reason, ""))
    inert = ([inert_text(each) if isinstance(each, str) else each for each in line] for line in lines)
    return csv_of(_CSV_HEADER, inert)


def _html_block(block: Block) -> str:
    heading = f"<h2>{escape(block.heading)}</h2>\n" if block.heading else ""
    header = "".join(f"<th>{escape(text)}</th>" for text in block.header)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>\n" for row in block.rows)
    table = f"<table>\n<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n"
    return f'{heading}<div class="scroll">\n{table}</div>\n{html_list(block.notes)}'


def _json_number(number: Number) -> dict[str, Json]:
    names = ("unit", "measured", "low", "high", "model", "formula", "num_seeds")
    return {name: getattr(number, name) for name in names} | {"flags": list(number.raised)}


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
        **{name: getattr(claim, name) for name in ("row", "baseline", "column", "unit", "printed_gain")},
        **{name: getattr(found, name) for name in ("gain", "low", "high", "num_seeds")},
        "verdict": found.name,
        "reason": found.reason,
    }


def _csv_number(number: Number) -> tuple[object, ...]:
    flags = ", ".join(number.raised)
    names = (number.unit, number.model, number.formula, number.num_seeds, flags)
    return (*names, number.measured, number.low, number.high)


FORMATS: Mapping[str, Callable[[PaperTable], str]] = {
    "text": render_text,
    "md": render_markdown,
    "csv": render_csv,
    "json": render_json,
    "html": render_html,
}
