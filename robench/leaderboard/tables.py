"""Leaderboards as tables in Markdown, LaTeX or CSV."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from robench.comparison.pairing import others_text, tests_text
from robench.core.inert import NOTE_WIDTH, clipped, is_link
from robench.core.report import Report
from robench.leaderboard.board import PLAIN, BoardColumn, BoardRow, Entry, Leaderboard
from robench.reports.grid import ONE_CHECKPOINT, grid_of
from robench.reports.latex import latex_escaped, latex_of, latex_table
from robench.reports.machine_readable import fields_of
from robench.reports.table import Table, csv_of, escaped, markdown_of, markdown_table

CLOSE_MARK = "†"
CLOSE = f"{CLOSE_MARK} not distinguishable from the best of its column{{}} at 5 % ({{}}); the best itself has it too."
UNTESTED = "No mark: distinguishable from the best, or not testable."
_HEADER = (
    *("model", "family", "attention", "architecture", "limit", "suite", "column", "metric", "conditions"),
    *("value", "low", "high", "num_examples", "missing", "all_examples", "batch_size"),
    *("p", "p_corrected", "test", "is_best", "is_close", "is_headline", "rank", "unranked"),
    *("group", "seeds"),
)
RANK = "rank"
RANKED = (
    "Rank by {}: 1 + the number of models{} that are significantly better in this column at 5 % (p times {} columns of "
    "the suite and {}). Equal ranks say no more than that."
)
OVER_SEEDS = "Of several training seeds: mean ± standard deviation over seeds [95 % interval]; tests are over seeds."
_ABOUT = ("model", "paper", "code", "weights", "trained on", "licence", "measured")


def notes_of(board: Leaderboard) -> tuple[str, ...]:
    """Return the sentences that belong under every leaderboard."""
    of_weights = () if all(row.seeds for row in board.rows) else (ONE_CHECKPOINT,)
    of_seeds = (OVER_SEEDS,) if any(row.seeds for row in board.rows) else ()
    of_group, described = " and group" if len(board.groups) > 1 else "", tests_of(board)
    of_tests = (CLOSE.format(of_group, described), UNTESTED) if described else ()
    return (*of_seeds, *of_weights, *of_tests, *_rank_notes(board))


def _rank_notes(board: Leaderboard) -> Iterator[str]:
    """Yield the definition of a rank, and for each model without one the reason."""
    column = next((each for each in board.columns if each.key == board.settings.sort), None)
    if column is not None:
        of_group = " of its group" if len(board.groups) > 1 else ""
        yield RANKED.format(column.label, of_group, column.num_columns, others_text(*_sizes(board)))
        yield from (f"No rank: {clipped(row.model)}: {row.unranked}." for row in board.rows if row.unranked)


def rank_text(row: BoardRow) -> str:
    """Return the rank of a row, or a dash."""
    return "—" if row.rank is None else str(row.rank)


def about_models(board: Leaderboard) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return header and rows of what registries say of the models, and when they were measured.

    Columns without any text are left out.
    """
    rows = []
    for row in board.rows:
        entry = row.entry or Entry(family="", attention="", architecture="")
        texts = (entry.paper, entry.code, entry.weights, entry.training_data, entry.licence, measured_on(row))
        rows.append((row.model, *texts))
    shown = [place for place in range(len(_ABOUT)) if any(row[place] for row in rows)]
    return tuple(_ABOUT[place] for place in shown), [tuple(row[place] for place in shown) for row in rows]


def measured_on(row: BoardRow) -> str:
    """Return the dates of the first and of the last condition of a row, such as ``2026-09-14``."""
    dates = sorted({each.finished_at[:10] for found in row.measured.values() for each in found})
    return " to ".join(dict.fromkeys([dates[0], dates[-1]])) if dates else ""


def tests_of(board: Leaderboard) -> str:
    """Return the tests behind the marks, and the numbers by which their p-values are multiplied; empty for none."""
    tests = [rank.test for row in board.rows for rank in row.ranks.values() if rank.test is not None]
    num_columns = [column.num_columns for column in board.columns if column.suite]
    return tests_text(tests, num_columns, *_sizes(board)) if tests else ""


def _sizes(board: Leaderboard) -> list[int]:
    return [len(rows) for rows in board.groups.values()] or [1]


def grid_of_board(board: Leaderboard, chosen: Sequence[BoardColumn] | None = None) -> Table:
    """Return the table as texts, before any markup; of ``chosen`` columns, or of all with ranks and flags."""
    columns = board.columns if chosen is None else chosen
    report = Report(
        suite="",
        version=0,
        seed=0,
        columns=tuple(replace(each.column, key=each.key, label=each.label) for each in columns),
        rows=board.rows,
        provenance={},
        # The grid itself adds notes on weights.
        notes=(*_rank_notes(board), *(note for suite in board.suites for note in suite.notes)),
        tests=tests_of(board),
        style=board.style,
    )
    grid = replace(
        grid_of(report, [each.suite for each in columns] if len(board.suites) > 1 else ()),
        title=clipped(board.title, NOTE_WIDTH),
        closing=("; ".join(provenance_lines(board)),),
    )
    if board.settings.sort is None:
        return grid
    return replace(
        grid,
        header=(grid.header[0], RANK, *grid.header[1:]),
        headings=(grid.headings[0], ("", "", RANK), *grid.headings[1:]),
        rows=tuple((name, rank_text(row), *texts) for row, (name, *texts) in zip(board.rows, grid.rows, strict=True)),
        marks={(row, column + 1): mark for (row, column), mark in grid.marks.items()},
    )


def without_repetition(board: Leaderboard) -> list[BoardColumn]:
    """Return the columns, one for several of the same name, metric and measurements, such as clean accuracies.

    It is in the place of the first, and of no suite.
    """
    groups: dict[tuple[object, ...], list[BoardColumn]] = {}
    for column in board.columns:
        measured = [each for row in board.rows for key in column.measurements for each in row.measured.get(key, ())]
        numbers = [(each.checkpoint, each.measurement_key, each.num_examples) for each in measured]
        is_single = len(column.measurements) == 1
        named = (column.column.label, column.metric, *numbers) if is_single else (column.key,)
        groups.setdefault(named, []).append(column)
    return [
        replace(column, suite="", label=column.column.label) if others else column
        for column, *others in groups.values()
    ]


def provenance_lines(board: Leaderboard) -> list[str]:
    """Return a line of provenance for each suite."""
    lines = []
    for suite in board.suites:
        facts = [f"{name} {text}" for name, text in suite.provenance.items()]
        lines.append(clipped(", ".join([suite.title, *facts, "proportions in per cent"]), NOTE_WIDTH))
    return lines


def render_markdown(board: Leaderboard) -> str:
    """Return the leaderboard as a table in GitHub's Markdown, its notes and provenance below.

    With settings there are title and note above, and below the table a second one of the columns that are not of the
    headline, and what registries say of the models.
    """
    board, settings = board.shown, board.settings
    table, *others = _headline_grids(board)
    headings = [f"## {escaped(clipped(group))}" if group else "" for group in board.groups]
    below = [block for each in zip(headings[1:], map(markdown_table, others), strict=True) for block in each]
    if settings == PLAIN:
        return markdown_of(table, headings[:1], below)
    above = [f"# {escaped(clipped(board.title, NOTE_WIDTH))}", escaped(clipped(settings.note, NOTE_WIDTH))]
    above += headings[:1]
    if board.further:
        below += ["## Further columns", markdown_table(_further_grid(board))]
    header, rows = about_models(board)
    if rows:
        cells = tuple(tuple(map(linked, row)) for row in rows)
        below += ["## Models", markdown_table(Table(header=header, rows=cells, num_names=0))]
    return markdown_of(table, above, below)


def linked(text: str) -> str:
    """Return a text in Markdown, an address as a link."""
    # A link in angle brackets ends at the next one alone, which no link has.
    return f"[{escaped(clipped(text))}](<{text}>)" if is_link(text) else escaped(clipped(text))


def _headline_grids(board: Leaderboard) -> list[Table]:
    """Return the table of the headline of each group, with the notes on all columns and rows."""
    first = {each.key for each in board.headline}
    columns = [each for each in without_repetition(board) if each.key in first]
    parts, notes = [replace(board, rows=rows) for rows in board.groups.values()] or [board], grid_of_board(board).notes
    return [replace(grid_of_board(each, columns), notes=notes) for each in parts]


def _further_grid(board: Leaderboard) -> Table:
    """Return the table of the other columns alone, which says neither ranks nor flags a second time."""
    bare = replace(board, settings=PLAIN, rows=tuple(replace(row, flags=None, is_attacked=False) for row in board.rows))
    further = {each.key for each in board.further}
    grid = grid_of_board(bare, [each for each in without_repetition(board) if each.key in further])
    # Headings of LaTeX may leave out another metric than those of the first table.
    return replace(grid, headings=())


def render_latex(board: Leaderboard) -> str:
    """Return the leaderboard as a LaTeX tabular, its notes and provenance below; needs booktabs and T1 fonts.

    With settings there are title and note above, and a second tabular of the columns that are not of the headline.
    """
    board, settings = board.shown, board.settings
    (table, *others), groups = _headline_grids(board), [clipped(group) for group in board.groups]
    above = [clipped(text, NOTE_WIDTH) for text in (settings.title, settings.note, *groups[:1]) if text]
    parts = [
        rf"\par\bigskip\noindent {latex_escaped(group)}\par" + f"\n{latex_table(each)}"
        for group, each in zip(groups[1:], others, strict=True)
    ]
    second = [f"\n\\bigskip\n{latex_table(_further_grid(board))}"] if board.further else []
    return latex_of(table, above, [*parts, *second])


def render_csv(board: Leaderboard) -> str:
    """Return the leaderboard as CSV in long form, one line a cell, numbers unrounded and proportions in [0, 1].

    ``p``, ``p_corrected`` and ``test`` are those of ``comparison.pairing.ranks``; missing ones are empty, as are
    missing numbers. Means over training seeds, whose number is in ``seeds``, follow the checkpoints.
    """
    means = [] if board.by_mechanism is None else [row for row in board.shown.rows if row.seeds]
    return csv_of(_HEADER, [line for row in (*board.rows, *means) for line in _lines(row, board)])


def _lines(row: BoardRow, board: Leaderboard) -> Iterator[tuple[object, ...]]:
    entry = row.entry
    facets = ("", "", "") if entry is None else (entry.family, entry.attention, entry.architecture)
    headline = {column.key for column in board.headline}
    # After the columns there are perhaps the flags, of all suites.
    suites = "+".join(dict.fromkeys(suite for suites in row.flag_suites for suite in suites))
    places = [(column.suite, column.key) for column in board.columns] + [(suites, None)]
    for (suite, key), fields in zip(
        places, fields_of(row, {column.key: column.column for column in board.columns}), strict=False
    ):
        rank = None if key is None else row.ranks.get(key)
        found = (None,) * 5 if rank is None else (rank.p, rank.adjusted, rank.test, rank.is_best, rank.is_close)
        is_headline = None if key is None else key in headline
        ranked = (row.rank, row.unranked or None, row.group or None, len(row.seeds) or None)
        yield (row.model, *facets, row.limit, suite, *fields, *found, is_headline, *ranked)
