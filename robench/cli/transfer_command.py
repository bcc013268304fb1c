"""``robench transfer``: scores adversarial examples of each model on every other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from robench.cli.names import complete_conditions, complete_models, models_of_registry
from robench.cli.options import (
    all_examples_option,
    chosen_executor,
    data_root_option,
    dataset_option,
    device_option,
    executor_fields_option,
    executor_option,
    limit_option,
    model_option,
    one_suite_option,
    option,
    ray_address_option,
    registry_option,
    results_option,
    seed_option,
    shard_timeout_option,
    workers_option,
)
from robench.cli.terminal import out_document, say
from robench.reports import RENDERERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from robench.core.report import Report
    from robench.runs import PreparedTransfer
    from robench.store import FolderStore


@click.command("transfer")
@one_suite_option
@dataset_option
@option(
    "--condition",
    required=True,
    metavar="NAME",
    shell_complete=complete_conditions,
    help="An attack of the suite; for a sweep also NAME@8/255.",
)
@model_option(required=True)
@option(
    "--target",
    "targets",
    multiple=True,
    metavar="NAME|PATTERN",
    shell_complete=complete_models,
    help="A model on which the examples are scored; default: the attacked models.",
)
@registry_option
@limit_option
@all_examples_option
@device_option
@workers_option
@executor_option
@executor_fields_option
@ray_address_option
@shard_timeout_option
@results_option
@seed_option
@data_root_option
@option(
    "--format",
    "format_name",
    type=click.Choice(sorted(RENDERERS)),
    default="text",
    show_default=True,
    help="Format of the matrix.",
)
@option("--json", "as_json", is_flag=True, help="Short for --format json.")
def command(
    suite: str,
    dataset: str | None,
    condition: str,
    models: tuple[str, ...],
    targets: tuple[str, ...],
    registries: tuple[Path, ...],
    limit: int | None,
    all_examples: bool,
    device: str,
    workers: int | None,
    executor: str,
    executor_options: tuple[str, ...],
    ray_address: str | None,
    shard_timeout: float | None,
    results: Path,
    seed: int | None,
    data_root: Path | None,
    format_name: str,
    as_json: bool,
) -> int:
    """Score each model's adversarial examples on every other model: a row per target, a column per attacked model.

    Missing attacks are measured first, and their examples are stored. The diagonal is the attack itself.
    """
    # Imported here, so that help needs neither torch nor pyarrow.
    from robench.declare import find_checkpoints, find_suites
    from robench.runs import RunRequest, prepare_transfer
    from robench.store import FolderStore

    attacked = models_of_registry(models, registries)
    scored_on = find_checkpoints(models_of_registry(targets, registries), registries)
    request = RunRequest(
        suites=find_suites([suite], registries, dataset, all_examples=all_examples),
        checkpoints=tuple(find_checkpoints(attacked, registries)),
        limit=limit,
        seed=seed,
        device=device,
        workers=workers,
        executor=chosen_executor(executor, executor_options, ray_address=ray_address),
        shard_timeout=shard_timeout,
        data_root=data_root,
    )
    store = FolderStore(results)
    store.check_writable()
    count = len({*attacked, *(checkpoint.name for checkpoint in scored_on)})
    say(f"checking data and weights of {count} model{'s' * (count != 1)}")
    prepared = prepare_transfer(request, condition, scored_on)
    *_, (stopped_with, num_failed, report) = _measured(prepared, store)
    out_document(
        RENDERERS["json" if as_json else format_name](report),
        if_lost=f"what was measured is kept in {results}, and the same command prints it",
    )
    if num_failed:
        say(f"{num_failed} shards failed; the same command tries them again.")
    if stopped_with:
        say("Interrupted. What was measured is kept; the same command goes on from there.")
    return stopped_with or (0 if report.is_complete and not num_failed else 1)


def _measured(prepared: PreparedTransfer, store: FolderStore) -> Iterator[tuple[int, int, Report]]:
    """Attack, then score, in rounds; yield the exit code of an interruption or 0, failures, report."""
    from robench.cli.measuring import measured
    from robench.runs import rounds

    for _ in rounds(store):
        say(f"attacking: {prepared.view.label}")
        stopped_with, attacked = measured(prepared.attacks, store)
        if stopped_with:
            yield stopped_with, attacked.num_failed, prepared.report(store)
            return
        say("scoring the adversarial examples")
        stopped_with, scored = measured(prepared.scorable(store), store)
        yield stopped_with, attacked.num_failed + scored.num_failed, prepared.report(store)
        if stopped_with:
            return
