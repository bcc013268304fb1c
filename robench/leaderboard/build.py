"""Kept results of one or several suites to a leaderboard; needs no model, no data and no accelerator.

Cells, notes and flags are those of ``reports.report_of_store``. Beside them are the provenance of each condition,
paired comparisons, and the lines of charts.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from robench.comparison.pairing import Testable, ordinals, pairs_of, ranks, tests_text
from robench.core.checkpoint import Checkpoint
from robench.core.errors import UsageError
from robench.core.flags import Flag
from robench.core.identity import to_plain
from robench.core.protocols import Store
from robench.core.report import Cell, Report, Row
from robench.core.suite import Suite
from robench.leaderboard.board import PLAIN, BoardColumn, BoardRow, Entry, Leaderboard, Settings
from robench.leaderboard.curves import curves_of, grades_of, left_out_of, lengths_of, profiles_of
from robench.leaderboard.mechanisms import grouped, mechanism_rows
from robench.leaderboard.settings import columns_named
from robench.leaderboard.suite_results import SuiteResults, columns_of_suite
from robench.reports import report_of_store
from robench.reports.arrangement import AnyRow, best_first, one_column
from robench.reports.grid import cell_text
from robench.reports.results import Stored
from robench.reports.seeds import CROSSED_INTERVAL

OF_SEEDS = "training seeds are ranked together, as their mechanism"
_UNKNOWN = Cell(estimate=None, num_examples=0, missing=None)


def leaderboard_of(
    suites: Sequence[Suite],
    store: Store,
    *,
    models: Sequence[str] | None = None,
    limit: int | None = None,
    seed: int | None = None,
    checkpoints: Mapping[str, Checkpoint] | None = None,
    average_seeds: bool = False,
    is_tested: bool = True,
    settings: Settings = PLAIN,
) -> Leaderboard:
    """Return one table over suites of different names.

    Arguments are those of ``reports.report_of_store``; without ``models`` rows are all that have results of any of the
    suites, by name. ``checkpoints``, entries of registries by name, describe the models. Numbers are tested against
    each other unless ``is_tested`` is False: what only draws them saves the time. ``settings`` are those of the
    ``board_columns`` of the suites.

    Raises:
        UsageError: two suites have the same name; further errors are those of ``reports.report_of_store``.
    """
    columns = board_columns(suites)
    wanted = list(dict.fromkeys(_models(suites, store, seed) if models is None else models))
    reports = [
        report_of_store(suite, store, models=wanted, limit=limit, seed=seed, average_seeds=average_seeds)
        for suite in suites
    ]
    found = [SuiteResults(suite, store, report, limit=limit) for suite, report in zip(suites, reports, strict=True)]
    testable = {key: models for each in found for key, models in each.testable.items()} if is_tested else {}
    # Rows of several suites: of means over seeds, names are those of entries.
    entries = [*wanted, *(name for each in found for name in each.rows)]
    names = [name for name in dict.fromkeys(entries) if any(name in each.rows for each in found)]
    known = checkpoints or {}
    rows = [_row(name, found, columns, known.get(name)) for name in names]
    rows = grouped(rows, settings.groups, known) if is_tested else rows
    limited = {model: limit for report in reports for model, limit in report.limited.items()}
    means, of_means = mechanism_rows(rows, testable) if is_tested and not average_seeds else ((), {})
    if not any(row.seeds for row in means):
        return _board(found, columns, rows, testable, settings, limited)
    board = _board(found, columns, rows, {}, settings, limited)
    seeds = tuple(replace(row, ranks={}, unranked=OF_SEEDS if settings.sort else "") for row in board.rows)
    by_mechanism = _board(found, columns, means, of_means, settings, limited)
    intervals = {"intervals over seeds": CROSSED_INTERVAL}
    crossed = tuple(replace(each, provenance={**each.provenance, **intervals}) for each in by_mechanism.suites)
    return replace(board, suites=crossed, rows=seeds, by_mechanism=replace(by_mechanism, suites=crossed))


def _board(
    found: Sequence[SuiteResults],
    columns: Sequence[BoardColumn],
    rows: Sequence[BoardRow],
    testable: Mapping[str, Mapping[str, Testable]],
    settings: Settings,
    limited: Mapping[str, int],
) -> Leaderboard:
    """Return the leaderboard of some rows, which are ranked and sorted by group."""
    suites = [each.suite for each in found]
    by_key = {column.key: column for column in columns}
    sort = by_key.get(settings.sort or "")
    parts = [[row for row in rows if row.group == group] for group in dict.fromkeys(row.group for row in rows)]
    ranked_parts = [_ranked(part, by_key, testable) for part in parts]
    if sort is not None:
        tested, is_worst_first = testable.get(sort.key, {}), settings.is_worst_first
        ranked_parts = [_sorted_and_ranked(part, sort, tested, is_worst_first=is_worst_first) for part in ranked_parts]
    ranked_rows = tuple(row for part in ranked_parts for row in part)
    names = [row.model for row in ranked_rows]
    curves = tuple(chart for suite in suites for chart in curves_of(suite, columns, ranked_rows))
    return Leaderboard(
        suites=tuple(each.board_suite() for each in found),
        columns=tuple(columns),
        rows=ranked_rows,
        pairs={column.key: pairs for column in columns if (pairs := pairs_of(names, testable.get(column.key, {})))},
        curves=curves,
        left_out=tuple(
            f"{suite.name}: {each}" if len(suites) > 1 else each
            for suite in suites
            for each in left_out_of(suite, columns, curves)
        ),
        lengths=tuple(chart for suite in suites for chart in lengths_of(suite, columns, ranked_rows)),
        profiles=tuple(chart for each in found for chart in profiles_of(each.suite, each.accuracies_of(ranked_rows))),
        grades=tuple(chart for suite in suites for chart in grades_of(suite, columns, ranked_rows)),
        settings=settings,
        limited=limited,
    ).headline_first()


def board_columns(suites: Sequence[Suite]) -> tuple[BoardColumn, ...]:
    """Return the columns of a leaderboard over suites; raises UsageError if two have the same name."""
    names = [suite.name for suite in suites]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"two suites are named {twice[0]!r}; rename one of them, since columns are named by the suite")
    return tuple(column for suite in suites for column in columns_of_suite(suite, several=len(suites) > 1))


def ranked(
    report: Report,
    suite: Suite,
    store: Store,
    *,
    limit: int | None = None,
    measurements: Mapping[str, Collection[str]] | None = None,
) -> Report:
    """Return a report with the rank of each number among its rows, if there are several.

    The report is one of ``store``, also of means over training seeds, under the same ``limit`` and ``measurements``.
    """
    if len(report.rows) < 2:
        return report
    found = SuiteResults(suite, store, report, limit=limit, measurements=measurements)
    columns = {column.column.key: column for column in columns_of_suite(suite, several=False)}
    rows = _ranked(found.report.rows, columns, found.testable)
    tests = [rank.test for row in rows for rank in row.ranks.values() if rank.test is not None]
    return replace(found.report, rows=rows, tests=tests_text(tests, [len(suite.columns)], len(rows)) if tests else "")


def arranged_board(board: Leaderboard, *, columns: Sequence[str] = (), sort: str | None = None) -> Leaderboard:
    """Return a leaderboard with some of its columns, and its rows in order of one of them; see ``reports.arranged``.

    Groups of rows stay together.
    """
    shown = {column.key for name in columns for column in columns_named(board.columns, name)}
    rows = board.rows
    if sort is not None:
        wanted = one_column([each.column for each in board.columns], sort)
        found = next(each for each in board.columns if each.column is wanted)
        rows = best_first(rows, found.key, lower_is_better=found.lower_is_better)
        rows = tuple(row for group in board.groups for row in rows if row.group == group)
    # Pairs are places of rows.
    place = {row.model: number for number, row in enumerate(rows)}
    moved = [place[row.model] for row in board.rows]
    pairs = {
        key: {(min(moved[a], moved[b]), max(moved[a], moved[b])): p for (a, b), p in of_column.items()}
        for key, of_column in board.pairs.items()
    }
    kept = tuple(each for each in board.columns if not columns or each.key in shown)
    below = None if board.by_mechanism is None else arranged_board(board.by_mechanism, columns=columns, sort=sort)
    return replace(board, columns=kept, rows=rows, pairs=pairs, by_mechanism=below)


def _models(suites: Sequence[Suite], store: Store, seed: int | None) -> list[str]:
    seeds = [suite.seed if seed is None else seed for suite in suites]
    found = [Stored(suite, store, None, wanted).models() for suite, wanted in zip(suites, seeds, strict=True)]
    return sorted({name for names in found for name in names})


def _row(
    model: str, found: Sequence[SuiteResults], columns: Sequence[BoardColumn], checkpoint: Checkpoint | None
) -> BoardRow:
    rows = {each.suite.name: each.rows[model] for each in found if model in each.rows}
    several = len(found) > 1
    first = next(iter(rows.values()))
    # Suites share their audits.
    suites: dict[Flag, list[str]] = {}
    for suite, row in rows.items():
        for flag in row.flags or ():
            suites.setdefault(flag, []).append(suite)
    notes = [f"{suite}: {note}" if several else note for suite, row in rows.items() for note in row.notes]
    return BoardRow(
        model=model,
        entry=None if checkpoint is None else entry_of(checkpoint),
        limit=first.limit,
        all_examples=any(row.all_examples for row in rows.values()),
        weights=first.weights,
        batch_size=next((row.batch_size for row in rows.values() if row.batch_size is not None), None),
        cells={
            each.key: rows[each.suite].cells[each.column.key] if each.suite in rows else _UNKNOWN for each in columns
        },
        measured={key: measured for each in found for key, measured in each.measured.get(model, {}).items()},
        notes=tuple(notes),
        seeds=max((row.seeds for row in rows.values()), key=len),
        is_audited=all(row.is_audited for row in rows.values() if row.flags is not None or row.is_attacked),
        is_attacked=any(row.is_attacked for row in rows.values()),
        flags=None if all(row.flags is None for row in rows.values()) else tuple(suites),
        flag_suites=tuple(map(tuple, suites.values())),
    )


def _ranked(
    rows: Sequence[AnyRow],
    columns: Mapping[str, BoardColumn],
    testable: Mapping[str, Mapping[str, Testable]],
) -> tuple[AnyRow, ...]:
    """Return rows with the rank of each number; ``columns`` are by the keys of the rows' cells."""
    by_column = {
        key: ranks(
            _values(rows, key),
            testable.get(column.key, {}),
            lower_is_better=column.lower_is_better,
            num_columns=column.num_columns,
            num_models=len(rows),
        )
        for key, column in columns.items()
    }
    return tuple(
        replace(row, ranks={key: found[row.model] for key, found in by_column.items() if row.model in found})
        for row in rows
    )


def _values(rows: Sequence[Row], key: str) -> dict[str, float]:
    estimates = {row.model: row.cells[key].estimate for row in rows}
    return {model: estimate.value for model, estimate in estimates.items() if estimate is not None}


def _sorted_and_ranked(
    rows: Sequence[BoardRow], column: BoardColumn, testable: Mapping[str, Testable], *, is_worst_first: bool
) -> tuple[BoardRow, ...]:
    """Return the rows in order of a column, each with its rank in it or the reason why it has none."""
    found = ordinals(
        _values(rows, column.key),
        testable,
        lower_is_better=column.lower_is_better,
        num_columns=column.num_columns,
        num_models=len(rows),
    )
    ordered = best_first(rows, column.key, lower_is_better=column.lower_is_better != is_worst_first)
    reason = {
        row.model: found.get(row.model, f"its number is missing: {cell_text(row.cells[column.key])}") for row in rows
    }
    return tuple(
        replace(row, rank=of) if isinstance(of := reason[row.model], int) else replace(row, unranked=of)
        for row in ordered
    )


# Fields of a backbone that give its size, with the words around their values.
_SIZES = (("depth", "{} layers"), ("dim", "width {}"), ("num_heads", "{} heads"), ("image_size", "{} px"))
OF_THE_BACKBONE = "of the backbone"


def entry_of(checkpoint: Checkpoint) -> Entry:
    """Return the description of a checkpoint by the fields of its architecture."""
    declared = checkpoint.architecture
    values = {each.name: getattr(declared, each.name) for each in fields(declared)}  # type: ignore[arg-type]
    name = values.get("name") or values.get("target") or declared.kind
    sizes = [words.format(values[size]) for size, words in _SIZES if values.get(size) is not None]
    return Entry(
        family=declared.kind,
        attention=_attention(values, stated=to_plain(declared)),
        architecture=", ".join([str(name), *sizes]),
        training_data=checkpoint.training_data,
        source=checkpoint.source,
        licence=checkpoint.licence,
        paper=checkpoint.paper,
        code=checkpoint.code,
        weights=checkpoint.weights.page,
    )


def _attention(values: Mapping[str, Any], stated: object) -> str:
    """Return the mechanism's kind, its reading and the residual connection where they are stated.

    Plain forms leave out defaults.
    """
    if values.get("attention") is None:
        return OF_THE_BACKBONE
    mechanism, words = to_plain(values["attention"]), [values["attention"].kind]
    if isinstance(mechanism, dict) and "formula" in mechanism:
        words.append(f"({mechanism['formula']})")
    if isinstance(stated, dict) and "residual" in stated:
        words.append(f"+ {values['residual'].kind}")
    return " ".join(words)
