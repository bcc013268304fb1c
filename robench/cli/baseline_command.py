"""``robench baseline``: a file of per-example outcomes that later results are checked against."""

from __future__ import annotations

from pathlib import Path

import click

from robench.cli.options import (
    AbsolutePath,
    all_examples_option,
    dataset_option,
    limit_option,
    model_option,
    registry_option,
    results_option,
    seed_option,
    suite_option,
)
from robench.cli.patterns import models_of_results
from robench.cli.terminal import say


@click.group("baseline")
def command() -> None:
    """Write a file that later results are checked against."""


@command.command("write")
@click.argument("file", type=AbsolutePath())
@suite_option(required=True)
@dataset_option
@model_option(required=True)
@registry_option
@limit_option
@all_examples_option
@results_option
@seed_option
def write(
    file: Path,
    suites: tuple[str, ...],
    dataset: str | None,
    models: tuple[str, ...],
    registries: tuple[Path, ...],
    limit: int | None,
    all_examples: bool,
    results: Path,
    seed: int | None,
) -> int:
    """Write the outcomes of models under suites to FILE, from kept results.

    Every example must be measured; no model, data or GPU is needed.
    """
    # Imported here, so that help needs no pyarrow.
    from robench.comparison import baseline_of
    from robench.declare import find_suites
    from robench.store import FolderStore
    from robench.store.baseline import write_baseline

    found = find_suites(suites, registries, dataset, all_examples=all_examples)
    store = FolderStore(results)
    names = models_of_results(models, store)
    baseline = baseline_of(found, store, names, limit=limit, seed=seed)
    write_baseline(file, baseline)
    num_models, num_rows = len(names), sum(len(record.outcomes) for record in baseline.records)
    say(f"Wrote {num_rows} outcomes of {num_models} model{'s' * (num_models != 1)} to {file}.")
    return 0
