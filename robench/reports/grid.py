"""Texts of reports for readers, the same in text, Markdown, LaTeX, HTML and pictures.

Proportions are converted to per cent here, and nowhere before. Long names and messages are truncated; the formats for
machines (json, csv) keep them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from robench.core.inert import NOTE_WIDTH, clipped
from robench.core.report import Cell, Estimate, Report, Row
from robench.metrics import METRICS
from robench.reports.headings import headings_of
from robench.reports.notes import OF_SEEDS, grouped_notes, listed
from robench.reports.table import Table, fragment_of
from robench.tasks import TASKS

ONE_CHECKPOINT = "Example intervals concern these weights on other examples; they say nothing of retraining."
_NOTHING_MEASURED = "no model has been measured on this suite yet"


def grid_of(report: Report, suites: Sequence[str] = ()) -> Table:
    """Return the report's table, notes and provenance as texts, in the report's style.

    ``suites`` are those of the columns, where there are several.
    """
    of_rows = grouped_notes([(_row_name(row), _notes(row)) for row in report.rows])
    of_weights = [] if all(row.seeds for row in report.rows) else [ONE_CHECKPOINT]
    of_columns = (*_coverage(report), *_examples(report))
    notes = tuple(clipped(note, NOTE_WIDTH) for note in (*of_columns, *report.notes, *of_rows, *of_weights))
    flags = ["flags"] if any(row.flags is not None or row.is_attacked for row in report.rows) else []
    # Where another row is a mean over seeds.
    says_one = any(row.seeds for row in report.rows)
    title = clipped(f"{report.suite}, version {report.version}")
    facts = [f"{name} {text}" for name, text in report.provenance.items()]
    labels = {column.key: clipped(column.label) for column in report.columns}
    suites = suites or [""] * len(labels)
    headings, usual = headings_of(report.columns, [*labels.values()], suites, report.style.renames)
    return Table(
        title=title,
        header=("model", *labels.values(), *flags),
        rows=tuple(
            (
                _row_name(row, says_one),
                *(cell_text(row.cells[column.key], report.style.digits) for column in report.columns),
                *(_flags_text(row) for _ in flags),
            )
            for row in report.rows
        ),
        notes=notes if report.rows else (*report.notes, _NOTHING_MEASURED),
        closing=(clipped("; ".join([title, *facts, "proportions in per cent"]), NOTE_WIDTH),),
        marks=_marks(report),
        tests=report.tests if any(row.ranks for row in report.rows) else None,
        headings=(("", "", "model"), *headings, *(("", "", each) for each in flags)),
        usual=usual,
        style=report.style,
    )


def _marks(report: Report) -> dict[tuple[int, int], str]:
    """Return the marks of the table, see ``Table.marks``."""
    marks: dict[tuple[int, int], str] = {}
    for number, column in enumerate(report.columns, start=1):
        ranks = {place: row.ranks[column.key] for place, row in enumerate(report.rows) if column.key in row.ranks}
        close = [place for place, rank in ranks.items() if rank.is_best or rank.is_close]
        is_tested = all(rank.is_best or rank.adjusted is not None for rank in ranks.values())
        if len(close) < len(ranks):
            marks |= {(place, number): "bold" if len(close) == 1 and is_tested else "underlined" for place in close}
    return marks


def fragment(report: Report) -> str:
    """Return a report as elements for a notebook."""
    return fragment_of(grid_of(report))


def _coverage(report: Report) -> Iterator[str]:
    """Yield the conditions of each number over several attacks, as a sentence."""
    for column in report.columns:
        metric = METRICS.get(column.metric)
        if metric is not None and metric.scope == "threat-model":
            right = TASKS[metric.task].verdict is not None
            what = "examples that are right under all of" if right else "each example in the worst of"
            yield f"{column.label}: {what} {', '.join(column.conditions)}"


def _examples(report: Report) -> Iterator[str]:
    """Yield a sentence on the numbers of examples, if they differ between columns."""
    labels: dict[tuple[int, ...], list[str]] = {}
    for column in report.columns:
        cells = [row.cells[column.key] for row in report.rows]
        if sizes := sorted({cell.num_examples for cell in cells if cell.estimate is not None}):
            labels.setdefault(tuple(sizes), []).append(clipped(column.label))
    if len(labels) > 1:
        texts = (
            f"{' or '.join(f'{size:,}' for size in sizes)} in {listed(labels[sizes], 'columns')}"
            for sizes in sorted(labels)
        )
        yield f"columns are not all of the same examples: {'; '.join(texts)}"


def cell_text(cell: Cell, digits: int | None = None) -> str:
    """Return the number with its interval, such as ``46.5 [42.5, 50.5]``, or how much of it is missing.

    Of training seeds perhaps with their deviation and number, such as ``46.5 ± 0.7 [42.5, 50.5] (3 of 5 seeds)``.
    """
    if cell.estimate is not None:
        return _estimate_text(cell.estimate, digits)
    if not cell.is_applicable:
        # A note says why there is no number.
        return "—"
    if cell.missing is None or cell.missing == 0:
        return "— (missing)"
    return f"— ({cell.missing} of {cell.num_examples + cell.missing} missing)"


def _notes(row: Row) -> list[str]:
    seeds = [f"{OF_SEEDS}: {', '.join(row.seeds)}"] if row.seeds else []
    return [*seeds, *row.notes, *(f"{flag.name}: {flag.finding}; {flag.advice}" for flag in row.raised)]


def _flags_text(row: Row) -> str:
    if row.flags is None:
        return "— (not audited)"
    raised = f"{len(row.raised)} raised" if row.raised else "none"
    return raised if row.is_audited else f"{raised} (not audited)"


def _estimate_text(estimate: Estimate, digits: int | None) -> str:
    def shown(number: float) -> str:
        return number_text(number, estimate.unit, digits)

    text, num_seeds = shown(estimate.value), len(estimate.of_seeds) or 1
    if estimate.deviation is not None:
        text += f" ± {shown(estimate.deviation)}"
    if estimate.low is not None and estimate.high is not None:
        text += f" [{shown(estimate.low)}, {shown(estimate.high)}]"
    return f"{text} ({num_seeds} of {num_seeds + estimate.num_lacking} seeds)" if estimate.num_lacking else text


def number_text(number: float, unit: str, digits: int | None = None) -> str:
    """Return a number with ``digits`` decimals; None for one of a per cent, and four significant digits of others."""
    if unit in ("share", "ratio"):
        return f"{100 * number:.{1 if digits is None else digits}f}"
    return f"{number:.4g}" if digits is None else f"{number:.{digits}f}"


def _row_name(row: Row, says_one: bool = False) -> str:
    """Return the model's name with the scope of its numbers, such as ``vit (bfloat16, 5 seeds, first 100)``.

    Where all examples replace the number that the suite states: ``vit (all examples)``.
    """
    one = ["one checkpoint"] if says_one else []
    seeds = [f"{len(row.seeds)} seeds"] if row.seeds else one
    of_all = ["all examples"] if row.all_examples else []
    limit = of_all if row.limit is None else [" of ".join([f"first {row.limit}", *of_all])]
    batch_size = [] if row.batch_size is None else [f"batch size {row.batch_size}"]
    precision = [] if row.precision is None else [row.precision]
    restrictions = ", ".join([*precision, *seeds, *limit, *batch_size])
    return f"{clipped(row.model)} ({restrictions})" if restrictions else clipped(row.model)
