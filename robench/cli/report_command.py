"""``robench report``: the leaderboard of a suite from the store alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from robench.cli.options import (
    all_seeds_option,
    dataset_option,
    limit_option,
    model_option,
    option,
    registry_option,
    results_option,
    seed_option,
    suite_option,
)
from robench.cli.terminal import out_document, say
from robench.declare import find_checkpoints, find_suites
from robench.reports import RENDERERS, over_seeds, report_of_store
from robench.store import FolderStore

if TYPE_CHECKING:
    from robench.core.report import Report


@click.command("report")
@suite_option(required=True)
@dataset_option
@model_option(required=False)
@registry_option
@limit_option
@option(
    "--format",
    "format_name",
    type=click.Choice(sorted(RENDERERS)),
    default="text",
    show_default=True,
    help="Format of the table.",
)
@option("--json", "as_json", is_flag=True, help="Short for --format json.")
@results_option
@seed_option
@all_seeds_option
def command(
    suites: tuple[str, ...],
    dataset: str | None,
    models: tuple[str, ...],
    registries: tuple[Path, ...],
    limit: int | None,
    format_name: str,
    as_json: bool,
    results: Path,
    seed: int | None,
    all_seeds: bool,
) -> int:
    """Print the leaderboard of a suite from stored results; no model, data or GPU is needed.

    Rows measured only with --limit are left out unless the same --limit is given here.
    """
    store = FolderStore(results)
    render = RENDERERS["json" if as_json else format_name]
    for suite in find_suites(suites, registries, dataset):
        report = report_of_store(
            suite,
            store,
            models=names_with_seeds(models, registries) if all_seeds else list(dict.fromkeys(models)) or None,
            limit=limit,
            seed=seed,
        )
        report = over_seeds(report) if all_seeds else report
        out_document(render(report))
        _explain_empty(report, results, dataset)
    return 0


def names_with_seeds(models: tuple[str, ...], registries: tuple[Path, ...]) -> list[str] | None:
    """Return the names of all seeds of the models; None for all models that have results."""
    return [checkpoint.name for checkpoint in find_checkpoints(models, registries, all_seeds=True)] or None


def _explain_empty(report: Report, results: Path, dataset: str | None) -> None:
    if not report.rows:
        of_dataset = f" --dataset {dataset}" if dataset else ""
        say(
            f"No results for suite {report.suite!r} (seed {report.seed}) in {results}: measure them with "
            f"'robench run --suite {report.suite}{of_dataset} --model NAME --results {results}'."
        )
