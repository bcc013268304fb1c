"""``robench rescore``: scores a results folder's adversarial examples on the models that they were made for."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from robench.cli.names import complete_conditions, models_of_registry
from robench.cli.options import (
    all_examples_option,
    data_root_option,
    dataset_option,
    device_option,
    json_option,
    limit_option,
    model_option,
    option,
    registry_option,
    results_option,
    seed_option,
    suite_option,
)
from robench.cli.terminal import out_json, out_table, say

if TYPE_CHECKING:
    from robench.runs.rescoring import Rescored

DISAGREES = 1
_COLUMNS = (
    *("suite", "model", "condition", "examples", "missing", "violations", "disagreements", "ties"),
    *("submitted", "rescored"),
)
_SHOWN_IDS = 3


@click.command("rescore")
@suite_option(required=True)
@dataset_option
@model_option(required=True)
@option(
    "--condition",
    "conditions",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_conditions,
    help="Only these conditions.",
)
@registry_option
@limit_option
@all_examples_option
@device_option
@results_option
@seed_option
@data_root_option
@json_option
def command(
    suites: tuple[str, ...],
    dataset: str | None,
    models: tuple[str, ...],
    conditions: tuple[str, ...],
    registries: tuple[Path, ...],
    limit: int | None,
    all_examples: bool,
    device: str,
    results: Path,
    seed: int | None,
    data_root: Path | None,
    as_json: bool,
) -> int:
    """Score kept adversarial examples again, on the models that they were made for, and compare with the results.

    Each example is first checked against its budget and the clean input. Ends with 1 if an example is missing, breaks
    its threat model, or has another outcome than the results say, except for numerical ties.
    """
    # Imported here, so that help needs neither torch nor pyarrow.
    from robench.declare import find_checkpoints, find_suites
    from robench.runs import RunRequest, rescore_results
    from robench.store import FolderStore

    request = RunRequest(
        suites=find_suites(suites, registries, dataset, all_examples=all_examples),
        checkpoints=tuple(find_checkpoints(models_of_registry(models, registries), registries)),
        limit=limit,
        seed=seed,
        device=device,
        data_root=data_root,
    )
    found: list[Rescored] = []
    for rescored in rescore_results(request, FolderStore(results), conditions):
        for each in rescored:
            say(f"{each.model} / {each.condition}: {each.num_examples} examples scored again")
        found += rescored
    if as_json:
        out_json([asdict(each) | {"agrees": each.agrees} for each in found])
    else:
        out_table(_COLUMNS, [_row(each) for each in found])
    for each in found:
        say(*_explained(each))
    return 0 if all(each.agrees for each in found) else DISAGREES


def _row(found: Rescored) -> list[str]:
    counts = (found.num_examples, found.num_missing, len(found.violations), len(found.disagreements), found.num_ties)
    numbers = ["-" if number is None else f"{number:.4f}" for number in (found.submitted, found.rescored)]
    return [found.suite, found.model, found.condition, *map(str, counts), *numbers]


def _explained(found: Rescored) -> list[str]:
    """Return a line for each kind of what does not agree, with the first ids, and the notes."""
    title = f"{found.model} / {found.condition}"
    kinds = {
        "adversarial examples that break their threat model": found.violations,
        "outcomes that differ": found.disagreements,
    }
    lines = [f"{title}: {len(ids)} {kind}: {_listed(ids)}" for kind, ids in kinds.items() if ids]
    return [*lines, *(f"{title}: {note}" for note in found.notes)]


def _listed(ids: tuple[str, ...]) -> str:
    return ", ".join(ids[:_SHOWN_IDS]) + (", ..." if len(ids) > _SHOWN_IDS else "")
