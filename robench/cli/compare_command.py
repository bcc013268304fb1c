"""``robench compare``: two models on the same examples, from the store alone."""

from __future__ import annotations

from pathlib import Path

import click

from robench.cli.names import complete_models
from robench.cli.options import (
    all_examples_option,
    all_seeds_option,
    dataset_option,
    limit_option,
    option,
    registry_option,
    results_option,
    seed_option,
    suite_option,
)
from robench.cli.terminal import out_document

# ``md`` as robench report calls it.
FORMATS = {"text": "text", "markdown": "markdown", "md": "markdown", "json": "json", "csv": "csv"}


@click.command("compare")
@click.argument("first", metavar="A", shell_complete=complete_models)
@click.argument("second", metavar="B", shell_complete=complete_models)
@suite_option(required=True)
@dataset_option
@registry_option
@limit_option
@all_examples_option
@all_seeds_option
@option("--flipped", is_flag=True, help="Also list the examples that only one of the two is right about.")
@option(
    "--format",
    "format_name",
    type=click.Choice(list(FORMATS)),
    default="text",
    show_default=True,
    help="How the table is written.",
)
@option("--json", "as_json", is_flag=True, help="Short for --format json.")
@results_option
@seed_option
def command(
    first: str,
    second: str,
    suites: tuple[str, ...],
    dataset: str | None,
    registries: tuple[Path, ...],
    limit: int | None,
    all_examples: bool,
    all_seeds: bool,
    flipped: bool,
    format_name: str,
    as_json: bool,
    results: Path,
    seed: int | None,
) -> int:
    """Compare models A and B example by example, on all columns of the suites.

    Differences are A less B, with 95 % intervals; p-values are two-sided, and corrected by Holm for all columns. No
    model, data or GPU is needed. Ends with 4 if the two were measured on different data. With --all-seeds means over
    training seeds are compared.
    """
    # Imported here, so that help needs no numpy.
    from robench.comparison import RENDERERS, compare_models
    from robench.declare import find_suites, seeds_of_models
    from robench.store import FolderStore

    found = find_suites(suites, registries, dataset, all_examples=all_examples)
    seeds = seeds_of_models((first, second), registries) if all_seeds else None
    comparison = compare_models(found, FolderStore(results), first, second, limit=limit, seed=seed, seeds=seeds)
    out_document(RENDERERS["json" if as_json else FORMATS[format_name]](comparison, flipped=flipped))
    return 0
