"""``robench report``: the leaderboard of a suite from the store alone."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from robench.cli.hints import run_command, same_command
from robench.cli.options import (
    all_examples_option,
    all_seeds_option,
    dataset_option,
    limit_option,
    model_option,
    option,
    precision_option,
    registry_option,
    results_option,
    seed_option,
    suite_option,
)
from robench.cli.patterns import models_of_results
from robench.cli.terminal import out_document, say
from robench.core.errors import UsageError
from robench.core.shard import EXACT_DTYPE
from robench.declare import find_checkpoints, find_suites, read_registries
from robench.leaderboard import RENDERERS as BOARD_RENDERERS
from robench.leaderboard import arranged_board, leaderboard_of, ranked
from robench.reports import RENDERERS, arranged, report_of_store
from robench.store import FolderStore

if TYPE_CHECKING:
    from robench.core.report import Report


@click.command("report")
@suite_option(required=True)
@dataset_option
@model_option(required=False)
@registry_option
@limit_option
@all_examples_option
@option(
    "--format",
    "format_name",
    type=click.Choice(sorted(RENDERERS)),
    default="text",
    show_default=True,
    help="Format of the table.",
)
@option("--json", "as_json", is_flag=True, help="Short for --format json.")
@option("--sort", metavar="COLUMN", help="Order rows by this column, best first, such as pgd/top1_accuracy.")
@option(
    "--columns",
    multiple=True,
    metavar="NAME|PATTERN",
    help="Only these columns: keys, metrics, conditions or patterns such as 'pgd*'.",
)
@option("--transpose", is_flag=True, help="Models as columns, in text, Markdown and LaTeX.")
@results_option
@seed_option
@precision_option
@all_seeds_option
def command(
    suites: tuple[str, ...],
    dataset: str | None,
    models: tuple[str, ...],
    registries: tuple[Path, ...],
    limit: int | None,
    all_examples: bool,
    format_name: str,
    as_json: bool,
    sort: str | None,
    columns: tuple[str, ...],
    transpose: bool,
    results: Path,
    seed: int | None,
    precision: str,
    all_seeds: bool,
) -> int:
    """Print the leaderboard of a suite from stored results; no model, data or GPU is needed.

    Of several models the best of each column is marked, with those that are not distinguishable from it by a paired
    test. --format html is the page of 'robench leaderboard', which sorts and filters.

    Rows measured only with --limit are left out unless the same --limit is given here; a message names them. Without
    any results for a suite the exit code is 1.
    """
    store = FolderStore(results)
    format_name = "json" if as_json else format_name
    _check_page(format_name, precision)
    found = find_suites(suites, registries, dataset, all_examples=all_examples)
    is_empty = holds_nothing(store)
    if is_empty:
        say(f"No results in {results}: measure them with '{run_command()}'.")
    names = None if is_empty else chosen_names(models, registries, store, all_seeds=all_seeds)
    if format_name == "html" and not is_empty:
        board = leaderboard_of(
            found,
            store,
            models=names,
            limit=limit,
            seed=seed,
            checkpoints=read_registries(registries),
            average_seeds=all_seeds,
        )
        if board.rows:
            out_document(BOARD_RENDERERS["html"](arranged_board(board, columns=columns, sort=sort)))
    has_rows = True
    for given, suite in zip(dict.fromkeys(suites), found, strict=True):
        report = report_of_store(
            suite, store, models=names, limit=limit, seed=seed, average_seeds=all_seeds, precision=precision
        )
        report = ranked(report, suite, store, limit=limit)
        report = arranged(report, columns=columns, sort=sort, is_transposed=transpose)
        has_rows = has_rows and bool(report.rows) and not is_empty
        # A table without rows says nothing, but a program that reads JSON expects some. One page has all suites.
        if format_name == "json" or (report.rows and not is_empty and format_name != "html"):
            out_document(RENDERERS[format_name](report))
        if not is_empty:
            _explain_lack(report, results, given)
    return 0 if has_rows else 1


def _check_page(format_name: str, precision: str) -> None:
    if format_name == "html" and precision != EXACT_DTYPE:
        raise UsageError(
            f"--format html is the page of 'robench leaderboard', which is of float32 alone, got --precision "
            f"{precision}; choose another format"
        )


def chosen_names(
    models: tuple[str, ...], registries: tuple[Path, ...], store: FolderStore, *, all_seeds: bool
) -> list[str] | None:
    """Return the names of models whose results are read, with patterns replaced; None for all that have results.

    With ``all_seeds`` these are the names of all seeds of each model.

    Raises:
        UnknownNameError: a pattern matches no model with results, or the seeds of an unknown model are asked for.
    """
    names = models_of_results(models, store)
    if all_seeds:
        names = [checkpoint.name for checkpoint in find_checkpoints(names, registries, all_seeds=True)]
    return names or None


def holds_nothing(store: FolderStore) -> bool:
    """Return whether a results folder is absent or has neither records nor failures."""
    return next(chain(store.manifests(), store.failures()), None) is None


def _explain_lack(report: Report, results: Path, given: str) -> None:
    """Print which models have no row because of a limit, or how to measure what has no results at all."""
    by_limit: dict[int, list[str]] = {}
    for model, limit in report.limited.items():
        by_limit.setdefault(limit, []).append(model)
    for limit, models in sorted(by_limit.items()):
        was = "was" if len(models) == 1 else "were"
        say(
            f"{', '.join(models)} {was} measured with --limit {limit}; add it: "
            f"{same_command('--limit', str(limit), suite=given)}"
        )
    if not report.rows and not report.limited:
        scope = f"seed {report.seed}" if report.precision == EXACT_DTYPE else f"{report.precision}, seed {report.seed}"
        say(
            f"No results for suite {report.suite!r} ({scope}) in {results}: measure them with "
            f"'{run_command(suite=given)}'."
        )
