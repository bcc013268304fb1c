r"""Rows of LaTeX that an author pastes into a tabular, one a model, below comments on columns, examples and seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from robench.core.inert import NOTE_WIDTH, clipped
from robench.papers.basis import Number
from robench.papers.page import facts_of
from robench.papers.table import PaperTable, TableCell
from robench.reports.table import latex_escaped


@dataclass(frozen=True, slots=True, kw_only=True)
class LatexCell:
    """Number of a cell.

    Attributes:
        decimals: number of decimals.
        printed: the paper's number, which fills the cell if nothing is measured; None without one.
    """

    ours: Number
    decimals: int = 1
    printed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatexRow:
    """Row of a model; ``remark`` becomes a comment at its end, cells are None where there is nothing."""

    label: str
    remark: str
    cells: tuple[LatexCell | None, ...]


def latex_rows(comments: Iterable[str], columns: Sequence[str], rows: Sequence[LatexRow]) -> str:
    """Return rows of a tabular below comments."""
    of_columns = [[row.cells[place] for row in rows] for place in range(len(columns))]
    named = [
        f"{clipped(name, NOTE_WIDTH)}{_examples([cell.ours for cell in cells if cell is not None])}"
        for name, cells in zip(columns, of_columns, strict=True)
    ]
    heads = [
        *(clipped(text, NOTE_WIDTH) for text in comments),
        "Columns: label & " + " & ".join(named),
        "Brackets are 95 % intervals; (printed) marks the paper's number where nothing is measured.",
        "Needs \\usepackage[T1]{fontenc}.",
    ]
    lines = [f"% {text}" for text in heads]
    for row in rows:
        cells = " & ".join([latex_escaped(clipped(row.label)), *map(_cell_text, row.cells)])
        lines.append(rf"{cells} \\" + (f" % {clipped(row.remark, NOTE_WIDTH)}" if row.remark else ""))
    return "\n".join(lines) + "\n"


def _cell_text(cell: LatexCell | None) -> str:
    if cell is None:
        return "--"
    ours, decimals = cell.ours, cell.decimals
    if ours.measured is None:
        return "--" if cell.printed is None else rf"{latex_escaped(clipped(cell.printed))}\,{{\scriptsize(printed)}}"
    number = f"{ours.measured:.{decimals}f}"
    if ours.low is None or ours.high is None:
        return number
    return rf"{number}\,{{\scriptsize[{ours.low:.{decimals}f}, {ours.high:.{decimals}f}]}}"


def _examples(numbers: Iterable[Number]) -> str:
    """Return the numbers of examples behind a column, such as `` (n = 600)``; empty if nothing is measured."""
    found = sorted({number.num_examples for number in numbers if number.num_examples is not None})
    return f" (n = {' to '.join(f'{each:,}' for each in dict.fromkeys((found[0], found[-1])))})" if found else ""


def render_latex(table: PaperTable) -> str:
    """Render a printed table as rows of LaTeX: ours where measured, else the printed number, marked as such."""
    by_place = {(row.label, name): cell for row in table.rows for name, cell in row.cells.items()}
    rows, columns = [row.label for row in table.rows], list(table.columns)
    if facts_of(table)[1]:
        by_place = {(column, row): cell for (row, column), cell in by_place.items()}
        rows, columns = columns, rows
    found = [
        LatexRow(
            label=row,
            remark=_remark([cell.ours for (label, _), cell in by_place.items() if label == row]),
            cells=tuple(_latex_cell(by_place.get((row, column))) for column in columns),
        )
        for row in rows
    ]
    units = {column: {cell.ours.unit for (_, name), cell in by_place.items() if name == column} for column in columns}
    named = [f"{column} ({', '.join(sorted(units[column]))})" if any(units[column]) else column for column in columns]
    return latex_rows([f"{table.name}: {table.title}", table.source], named, found)


def _latex_cell(cell: TableCell | None) -> LatexCell | None:
    if cell is None:
        return None
    return LatexCell(ours=cell.ours, decimals=len(cell.printed.partition(".")[2]), printed=cell.printed)


def _remark(numbers: Sequence[Number]) -> str:
    models = ", ".join(dict.fromkeys(number.model for number in numbers if number.model is not None))
    seeds = max((number.num_seeds for number in numbers), default=0)
    return f"{models}, {'one checkpoint' if seeds == 1 else f'{seeds} seeds'}" if seeds else models
