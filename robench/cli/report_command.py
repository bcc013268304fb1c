"""``robench report`` and ``robench leaderboard``: the table of a suite, and one table over suites, from the store."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path

import click

from robench.cli.names import run_command, same_command, say_limited
from robench.cli.options import (
    all_seeds_option,
    checked_trackers,
    format_option,
    log_to_option,
    only_option,
    option,
    path_option,
    precision_option,
)
from robench.cli.selection import OF_RESULTS, Selection, selecting
from robench.cli.style_options import columns_option, style_options
from robench.cli.terminal import out_document, put, say
from robench.core.errors import RobenchError, UsageError
from robench.core.rendered import Style
from robench.core.report import Report
from robench.core.shard import EXACT_DTYPE
from robench.core.suite import Suite
from robench.costs import DEFAULT_RULE, RULES
from robench.leaderboard import MANIFEST_NAME, SUFFIXES, arranged_board, ranked, render_manifest
from robench.leaderboard import RENDERERS as BOARD_RENDERERS
from robench.leaderboard.tables import grid_of_board
from robench.reports import RENDERERS, arranged, needs, report_of_store
from robench.reports.grid import grid_of
from robench.reports.table import with_labels
from robench.store import FolderStore
from robench.store.upkeep import UNUSED, shards_aside

NAME = "leaderboard"


@click.command("report")
@selecting((*OF_RESULTS, only_option, precision_option, all_seeds_option))
@format_option(sorted(RENDERERS), "table")
@option("--sort", metavar="COLUMN", help="Order rows by this column, best first, such as pgd/top1_accuracy.")
@columns_option
@style_options()
@log_to_option
def command(
    selection: Selection,
    format_name: str,
    sort: str | None,
    columns: tuple[str, ...],
    style: Style,
    log_to: tuple[str, ...],
) -> int:
    """Print the leaderboard of a suite from stored results; no model, data or GPU is needed.

    Of several models the best of each column is marked, with models not distinguishable from it by a paired
    test. --format html is the page of 'robench leaderboard', which sorts and filters.

    Rows measured only with --limit are left out unless the same --limit is given here; a message names them. Without
    any results for a suite the exit code is 1.
    """
    if format_name == "html" and selection.precision != EXACT_DTYPE:
        raise UsageError(
            f"--format html is the page of 'robench leaderboard', which is of float32 alone, got --precision "
            f"{selection.precision}; choose another format"
        )
    log_to = checked_trackers(log_to)
    found, store, limit = selection.found_suites(), selection.store(), selection.limit
    is_empty = holds_nothing(store)
    if is_empty:
        say(f"No results in {store.path}: measure them with '{run_command()}'.")
    names = None if is_empty else selection.rows(store)
    if format_name == "html" and not is_empty:
        board = selection.leaderboard()
        if board.rows:
            out_document(BOARD_RENDERERS["html"](arranged_board(board, columns=columns, sort=sort)))
    whole = []
    for suite in found:
        report = report_of_store(
            suite,
            store,
            models=names,
            limit=limit,
            seed=selection.seed,
            average_seeds=selection.all_seeds,
            precision=selection.precision,
        )
        whole.append((suite, ranked(report, suite, store, limit=limit)))
    shown = [arranged(report, columns=columns, sort=sort) for _, report in whole]
    labels = {column.key: column.label for report in shown for column in report.columns}
    style = with_labels(style, labels, {text for report in shown for text in grid_of(report).texts})
    for given, suite, report in zip(dict.fromkeys(selection.suites), found, shown, strict=True):
        # A table without rows says nothing, but a program that reads JSON expects some. One page has all suites.
        if format_name == "json" or (report.rows and not is_empty and format_name != "html"):
            out_document(RENDERERS[format_name](replace(report, style=style)))
        if not is_empty:
            _explain_lack(report, store.path, given)
        if is_empty or not report.rows or not report.is_complete:
            say_moved(store, [suite])
    log_tables(log_to, whole, limit)
    return 0 if not is_empty and all(report.rows for report in shown) else 1


def log_tables(trackers: Sequence[str], tables: Sequence[tuple[Suite, Report]], limit: int | None) -> None:
    """Log the rows of suites' tables to trackers, and print how many.

    Raises:
        RobenchError: a tracker did not take them; the others have them.
    """
    if not trackers:
        return
    from robench.exports.trackers import TRACKERS, log, runs_of

    problems = []
    for name in trackers:
        runs = [run for suite, report in tables for run in runs_of(suite, report, TRACKERS[name])]
        if not runs:
            say(f"No row has a number, so nothing is logged to {name}.")
            continue
        try:
            where = log(runs, name)
        except RobenchError as error:
            limited = () if limit is None else ("--limit", str(limit))
            again = same_command(*limited, "--log-to", name, command="report")
            problems.append(f"{error}. All results are kept, and '{again}' logs them.")
            continue
        say(f"logged {len(runs)} row{'s' * (len(runs) != 1)} to {name}: {where}")
    if problems:
        raise RobenchError(*problems)


def holds_nothing(store: FolderStore) -> bool:
    """Return whether a results folder is absent or has neither records nor failures."""
    return next(chain(store.manifests(), store.failures()), None) is None


def _explain_lack(report: Report, results: Path, given: str) -> None:
    """Print which models have no row because of a limit, or how to measure the models without any results."""
    say_limited(report.limited, given)
    if not report.rows and not report.limited:
        scope = f"seed {report.seed}" if report.precision == EXACT_DTYPE else f"{report.precision}, seed {report.seed}"
        say(
            f"No results for suite {report.suite!r} ({scope}) in {results}: measure them with "
            f"'{run_command(suite=given)}'."
        )


def say_moved(store: FolderStore, suites: Sequence[Suite] = ()) -> None:
    """Print how many measurements, of suites or all, 'robench store gc --apply' has moved away, if any."""
    is_needed = [needs(suite, precision=None) for suite in suites] or [lambda shard: True]
    if count := sum(any(each(shard) for each in is_needed) for shard in shards_aside(store)):
        of_suites = f" of {', '.join(suite.name for suite in suites)}" if suites else ""
        say(
            f"'robench store gc --apply' has moved {count} measurement{'s' * (count != 1)}{of_suites} to"
            f" {store.path / UNUSED}; to undo it, move the folders back."
        )


@click.command("leaderboard")
@selecting((*OF_RESULTS, only_option, all_seeds_option))
@option(
    "--format",
    "formats",
    type=click.Choice(sorted(BOARD_RENDERERS)),
    multiple=True,
    default=("html",),
    show_default=True,
    help="Format of the table; several go into a folder.",
)
@option("--costs", "has_costs", is_flag=True, help="Columns of parameters and multiply-adds, which have no rank.")
@option(
    "--rule",
    "rules",
    multiple=True,
    type=click.Choice(list(RULES)),
    default=(DEFAULT_RULE,),
    show_default=True,
    help="Rule by which --costs counts multiply-adds; see 'robench cost'.",
)
@path_option(
    "--settings",
    "FILE",
    "YAML with title, headline columns, sort and note; with sort rows have ranks.",
)
@path_option(
    "--output",
    "FILE|FOLDER",
    f"File to write, or existing folder for {NAME}.html and the like; default: standard output.",
)
@columns_option
@style_options()
def leaderboard_command(
    selection: Selection,
    formats: tuple[str, ...],
    has_costs: bool,
    rules: tuple[str, ...],
    settings: Path | None,
    output: Path | None,
    columns: tuple[str, ...],
    style: Style,
) -> int:
    """Write one table over one or several suites from kept results; no model, data or GPU is needed.

    The default is one HTML page that needs no network: columns sort, rows are filtered and compared, and each number
    shows what it was measured on.
    """
    names = tuple(dict.fromkeys(formats))
    paths = _paths(output, names)
    rules = tuple(dict.fromkeys(rules)) if has_costs else ()
    board = selection.leaderboard(settings=settings, rules=rules)
    if not board.rows:
        say_limited(board.limited)
        if not board.limited:
            say(f"No results for {board.suite_titles} in {selection.results}, so no table: {_to_get_them(selection)}.")
            say_moved(selection.store(), selection.found_suites())
        return 1
    board = selection.with_costs(board, rules) if has_costs else board
    board = arranged_board(board, columns=columns)
    labels = {key: each.label for each in board.columns for key in (each.key, each.column.key)}
    board = replace(board, style=with_labels(style, labels, grid_of_board(board).texts))
    texts = [BOARD_RENDERERS[name](board) for name in names]
    for text, path in zip(texts, paths, strict=True):
        put(text, path)
    if output is not None and _is_folder(output):
        files = {path.name: text for text, path in zip(texts, paths, strict=True) if path is not None}
        put(render_manifest(board, files), output / MANIFEST_NAME)
    say_limited(board.limited)
    return 0


def _to_get_them(selection: Selection) -> str:
    """Return the advice on missing results: a run, or the archives beside the one that was named."""
    from robench.papers.archive import SUFFIX, is_archive, unpacked
    from robench.store import FolderStore

    if not is_archive(selection.results):
        return f"measure them with '{run_command()}'"
    wanted, holding = [needs(suite) for suite in selection.found_suites()], []
    for path in sorted(selection.results.absolute().parent.glob(f"*{SUFFIX}")):
        # Not every archive beside it need be one of results.
        with suppress(RobenchError), unpacked(path) as results:
            shards = [manifest.shard for manifest in FolderStore(results).manifests()]
            if any(each(shard) for each in wanted for shard in shards):
                holding.append(path.name)
    return f"they are in {', '.join(holding)} beside it" if holding else "no archive beside it has them either"


def _paths(output: Path | None, formats: Sequence[str]) -> list[Path | None]:
    """Return the file of each format; None is standard output."""
    if output is not None and _is_folder(output):
        return [output / f"{NAME}{SUFFIXES[name]}" for name in formats]
    if len(formats) > 1:
        raise UsageError("several formats need an existing folder; create one and name it with --output FOLDER")
    return [output]


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        # Such as a name that is too long, which writing reports.
        return False
