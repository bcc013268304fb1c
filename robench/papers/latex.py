r"""Rows of LaTeX that an author pastes into a tabular, one a model, below comments on columns, examples and seeds."""

from collections.abc import Iterable, Sequence

from robench.core.inert import NOTE_WIDTH, clipped
from robench.papers.basis import Number
from robench.papers.page import facts_of
from robench.papers.table import PaperTable, TableCell
from robench.reports.table import latex_escaped

# Label, cells, and a comment at the end.
LatexRow = tuple[str, Sequence[str], str]


def latex_rows(comments: Iterable[str], columns: Sequence[str], rows: Iterable[LatexRow]) -> str:
    """Return rows of a tabular below comments."""
    heads = [
        *(clipped(text, NOTE_WIDTH) for text in comments),
        f"Columns: label & {' & '.join(columns)}",
        "Brackets are 95 % intervals; (printed) marks the paper's number where nothing is measured.",
        "Needs \\usepackage[T1]{fontenc}.",
    ]
    lines = [f"% {text}" for text in heads]
    for label, cells, remark in rows:
        texts = " & ".join([latex_escaped(clipped(label)), *cells])
        lines.append(rf"{texts} \\" + (f" % {clipped(remark, NOTE_WIDTH)}" if remark else ""))
    return "\n".join(lines) + "\n"


def latex_number(ours: Number, decimals: int, printed: str | None = None) -> str:
    """Return a number with its interval, or where nothing is measured the printed one, marked as such."""
    if ours.measured is None:
        return "--" if printed is None else rf"{latex_escaped(clipped(printed))}\,{{\scriptsize(printed)}}"
    number = f"{ours.measured:.{decimals}f}"
    if ours.low is None or ours.high is None:
        return number
    return rf"{number}\,{{\scriptsize[{ours.low:.{decimals}f}, {ours.high:.{decimals}f}]}}"


def latex_column(name: str, numbers: Iterable[Number]) -> str:
    """Return the name of a column with the numbers of examples behind it, such as `` (n = 600)``."""
    found = sorted({number.num_examples for number in numbers if number.num_examples is not None})
    n = f" (n = {' to '.join(f'{each:,}' for each in dict.fromkeys((found[0], found[-1])))})" if found else ""
    return f"{clipped(name, NOTE_WIDTH)}{n}"


def render_latex(table: PaperTable) -> str:
    """Render a printed table as rows of LaTeX: ours where measured, else the printed number, marked as such."""
    by_place = {(row.label, name): cell for row in table.rows for name, cell in row.cells.items()}
    rows, columns = [row.label for row in table.rows], list(table.columns)
    if facts_of(table)[1]:
        by_place = {(column, row): cell for (row, column), cell in by_place.items()}
        rows, columns = columns, rows
    found = []
    for row in rows:
        numbers = [cell.ours for (label, _), cell in by_place.items() if label == row]
        found.append((row, [_cell_text(by_place.get((row, column))) for column in columns], _remark(numbers)))
    named = []
    for column in columns:
        numbers = [cell.ours for (_, name), cell in by_place.items() if name == column]
        units = {number.unit for number in numbers}
        named.append(latex_column(f"{column} ({', '.join(sorted(units))})" if any(units) else column, numbers))
    return latex_rows([f"{table.name}: {table.title}", table.source], named, found)


def _cell_text(cell: TableCell | None) -> str:
    return "--" if cell is None else latex_number(cell.ours, len(cell.printed.partition(".")[2]), cell.printed)


def _remark(numbers: Sequence[Number]) -> str:
    models = ", ".join(dict.fromkeys(number.model for number in numbers if number.model is not None))
    seeds = max((number.num_seeds for number in numbers), default=0)
    return f"{models}, {'one checkpoint' if seeds == 1 else f'{seeds} seeds'}" if seeds else models
