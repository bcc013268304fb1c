"""``robench export``: tidy tables of kept results for other programs."""

from __future__ import annotations

from pathlib import Path

import click

from robench.cli.hints import run_command
from robench.cli.options import (
    AbsolutePath,
    dataset_option,
    limit_option,
    model_option,
    option,
    registry_option,
    results_option,
    seed_option,
    suite_option,
)
from robench.cli.report_command import chosen_names
from robench.cli.terminal import say
from robench.declare import find_suites, read_registries
from robench.exports import FORMATS, export
from robench.store import FolderStore


@click.command("export")
@suite_option(required=True)
@dataset_option
@model_option(required=False)
@registry_option
@limit_option
@option(
    "--output",
    type=AbsolutePath(),
    required=True,
    metavar="FOLDER",
    help="Folder for the tables and their manifest.",
)
@option(
    "--format",
    "format_name",
    type=click.Choice(list(FORMATS)),
    default="parquet",
    show_default=True,
    help="Format of the tables.",
)
@results_option
@seed_option
@option("--all-seeds", is_flag=True, help="All training seeds of each model, and rows that are means over them.")
def command(
    suites: tuple[str, ...],
    dataset: str | None,
    models: tuple[str, ...],
    registries: tuple[Path, ...],
    limit: int | None,
    output: Path,
    format_name: str,
    results: Path,
    seed: int | None,
    all_seeds: bool,
) -> int:
    """Write cells and outcomes of all examples as tables, with a manifest, from kept results.

    No model, data or GPU is needed. Rows measured only with --limit are left out unless the same --limit is given here.
    """
    store = FolderStore(results)
    exported = export(
        find_suites(suites, registries, dataset),
        store,
        output,
        format_name=format_name,
        models=chosen_names(models, registries, store, all_seeds=all_seeds),
        limit=limit,
        seed=seed,
        all_seeds=all_seeds,
        training_seeds=_training_seeds(registries),
    )
    for path, num_rows in exported.files.items():
        say(f"wrote {num_rows} rows to {path}")
    if not all(exported.files.values()):
        say(f"There are no outcomes in {results}: measure them with '{run_command()}'.")
    elif exported.num_missing:
        say(f"{exported.num_missing} cells have no number yet: 'robench run' measures what is missing.")
    return 0


def _training_seeds(registries: tuple[Path, ...]) -> dict[str, int]:
    """Return the seed of each entry's training, and of its further trainings, by name."""
    checkpoints = read_registries(registries).values()
    return {each.name: each.training.seed for each in checkpoints if each.training is not None}
