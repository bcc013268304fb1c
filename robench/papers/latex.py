"""Papers' tables in LaTeX: a model a row, our number where it is measured, and else the printed one, marked as such."""

from collections.abc import Iterable
from dataclasses import replace

from robench.core.inert import NOTE_WIDTH, clipped
from robench.core.rendered import Style
from robench.papers.layout import Lines
from robench.papers.page import Page, number_text, page_of
from robench.papers.signs import NOTHING
from robench.papers.table import PaperTable, TableCell
from robench.reports.latex import latex_escaped, latex_of
from robench.reports.table import Table, with_labels


def latex_of_page(page: Page, style: Style, cells: Lines | None = None, comments: Iterable[str] = ()) -> str:
    """Return the first table of a page, with other cells if they are given, below comments on columns and models."""
    grid = page.sections[0].grid
    assert grid is not None
    facts = zip(*([f"{name} {text}" for text in texts] for name, texts in grid.facts.items()), strict=True)
    models = [f"{name}: {', '.join(texts)}" for (name, *_), texts in zip(grid.models[1:], facts, strict=False)]
    grid = replace(grid, facts={}, cells=cells or grid.cells)
    header, *rows = (grid.turned if grid.has_models_in_columns else grid).lines
    table = Table(header=header, rows=tuple(rows))
    lines = [page.title, page.source, *comments, *models]
    above = "".join(f"% {latex_escaped(text)}\n" for text in lines)
    return above + latex_of(replace(table, style=with_labels(style, {}, table.texts)))


def render_latex(table: PaperTable) -> str:
    """Render a printed table as a tabular: ours where measured, else the printed number, marked as such."""
    comments = []
    for column in table.columns:
        numbers = [row.cells[column].ours for row in table.rows if column in row.cells]
        sizes = sorted({each.num_examples for each in numbers if each.num_examples is not None})
        ends = " to ".join(f"{each:,}" for each in dict.fromkeys((*sizes[:1], *sizes[-1:])))
        facts = [*sorted({each.unit for each in numbers if each.unit}), *([f"n = {ends}"] if ends else [])]
        comments.append(clipped(f"{column}: {', '.join(facts)}", NOTE_WIDTH))
    cells = tuple(
        tuple(_cell_text(row.cells.get(column), table.style.digits) for column in table.columns) for row in table.rows
    )
    return latex_of_page(page_of(table), table.style, cells, comments)


def _cell_text(cell: TableCell | None, digits: int | None) -> str:
    if cell is None:
        return NOTHING
    if cell.ours.measured is None:
        return f"{clipped(cell.printed)} (printed)"
    return number_text(cell.ours, len(cell.printed.partition(".")[2]) if digits is None else digits)
