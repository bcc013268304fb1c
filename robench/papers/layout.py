"""Layout of a table as printable texts, the common basis of the formats for readers."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from robench.comparison.spread import PER_CENT
from robench.core.inert import NOTE_WIDTH, clipped
from robench.papers.basis import Number
from robench.papers.claims import JudgedClaim, summary_of
from robench.papers.table import PaperTable, TableCell, TwinCell, num_measured
from robench.papers.verdicts import signed
from robench.reports.grid import ONE_CHECKPOINT

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
        # Columns without any twin are left out.
        columns = tuple(name for name in table.columns if any(name in items for _, items in twin_lines))
        blocks.append(_block(clipped(table.twins_are, NOTE_WIDTH), columns, twin_lines))
    if table.claims:
        blocks.append(_claims_block(table.claims))
    measured, printed = num_measured([table])
    counted = f"{measured} of {printed} printed numbers are measured" if table.is_counted else "no results are printed"
    return Page(
        title=clipped(f"{table.name}: {table.title}", NOTE_WIDTH),
        source=clipped(table.source, NOTE_WIDTH),
        blocks=tuple(blocks),
        closing=(
            *([ONE_CHECKPOINT] if _has_single_checkpoints(table) else []),
            *_row_notes(table),
            *_measured_with(table),
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


def _row_notes(table: PaperTable) -> list[str]:
    """Return the notes of reports on the rows of models, such as the batch size of coupled rows."""
    numbers = [cell.ours for cell in table.cells]
    notes = dict.fromkeys(f"{number.model}: {note}" for number in numbers for note in number.notes)
    return [clipped(note, NOTE_WIDTH) for note in notes]


def _measured_with(table: PaperTable) -> list[str]:
    """Return the releases and devices of the numbers, a line for each suite."""
    texts = [
        f"{suite}: {', '.join(f'{name} {text}' for name, text in facts.items())}"
        for suite, facts in table.measured_with.items()
    ]
    return [clipped(text, NOTE_WIDTH) for text in texts]


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
        header=("", *(_FACTS[place] for place in beside), *(_titled(name, units[name]) for name in columns)),
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


def _titled(name: str, unit: str) -> str:
    return clipped(f"{name} ({unit})" if unit else name)


def _cell_text(cell: TableCell, unit: str, notes: _Notes) -> str:
    decimals = len(cell.printed.partition(".")[2])
    printed = cell.printed if unit == cell.ours.unit else f"{cell.printed} {cell.ours.unit}".rstrip()
    parts = [clipped(printed)]
    if cell.difference is not None:
        parts.append(f"ours {number_text(cell.ours, decimals)}, {cell.difference:+.{decimals}f}")
    parts.append(f"{cell.verdict.title} {notes.mark(str(cell.verdict))}")
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
