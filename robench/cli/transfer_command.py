"""``robench transfer`` and ``robench rescore``: adversarial examples of a results folder, scored on models.

A transfer scores them on other models, rescoring on the models that they were made for.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from robench.cli.names import complete_conditions, complete_models, models_of_registry
from robench.cli.options import (
    conditions_option,
    data_root_option,
    device_option,
    executor_options,
    format_option,
    json_option,
    measuring_options,
    model_option,
    option,
    path_option,
)
from robench.cli.selection import OF_MODELS, OF_ONE_SUITE, Selection, selecting
from robench.cli.terminal import out_document, out_entries, say
from robench.core.errors import UsageError
from robench.reports import RENDERERS

if TYPE_CHECKING:
    from robench.runs.rescoring import Rescored

DISAGREES = 1
_RESCORED_COLUMNS = (
    *("suite", "model", "condition", "examples", "missing", "violations", "disagreements", "ties"),
    *("submitted", "rescored"),
)
_SHOWN_IDS = 3


@click.command("transfer")
@selecting((*OF_ONE_SUITE, model_option(required=True)))
@option(
    "--condition",
    metavar="NAME",
    shell_complete=complete_conditions,
    help="An attack of the suite; for a sweep also NAME@8/255.",
)
@option(
    "--attack",
    metavar="YAML",
    help="In place of --condition an attack as in a suite, 'kind: transfer-pgd, ...', on the suite's clean examples.",
)
@option(
    "--target",
    "targets",
    multiple=True,
    metavar="NAME|PATTERN",
    shell_complete=complete_models,
    help="A model on which the examples are scored; default: the attacked models.",
)
@path_option("--figure", "FILE", "Draw the matrix as well, in a file ending in .svg, .pdf, .png or .pgf.")
@measuring_options
@executor_options
@format_option(sorted(RENDERERS), "matrix")
def command(
    selection: Selection,
    condition: str | None,
    attack: str | None,
    targets: tuple[str, ...],
    figure: Path | None,
    format_name: str,
    # Further options have the names and types of the request's fields.
    **settings: Any,
) -> int:
    """Score each model's adversarial examples on every other model: a row per target, a column per attacked model.

    Missing attacks are measured first, and their examples are stored. The diagonal is the attack itself.
    """
    from robench.cli.drawing import Target, draw, format_of
    from robench.cli.progress import WatchedRun, has_kept, kept_text, say_failures
    from robench.cli.run_command import kept_in
    from robench.declare import find_checkpoints
    from robench.declare.schema import read_perturbation
    from robench.figures import transfer_plot
    from robench.runs import PreparedTransfer, in_rounds, prepare_transfer, with_attack

    if (condition is None) == (attack is None):
        raise UsageError("give either --condition, an attack of the suite, or --attack, one of your own")
    if figure is not None:
        format_of(figure)
    request, store = selection.request(**settings), selection.store()
    if attack is not None:
        suite, condition = with_attack(request.suites[0], read_perturbation(attack, "--attack"))
        request = replace(request, suites=(suite,))
    scored_on = find_checkpoints(models_of_registry(targets, selection.registries), selection.registries)
    store.check_writable()
    count = len({checkpoint.name for checkpoint in (*request.checkpoints, *scored_on)})
    say(f"checking data and weights of {count} model{'s' * (count != 1)}")
    prepared = prepare_transfer(request, condition or "", scored_on)
    watch = WatchedRun()
    report = in_rounds(prepared, store, PreparedTransfer.report, watch)
    filled = watch.filled.values()
    num_failed = sum(each.num_failed for each in filled)
    if_lost = kept_in(selection.results, any(has_kept(each) for each in filled))
    out_document(RENDERERS[format_name](report), if_lost=if_lost)
    if figure is not None:
        draw(lambda: transfer_plot(report), Target(output=figure))
    say_failures(*filled)
    if watch.exit_code:
        say(f"Interrupted. {kept_text(*filled)}")
    return watch.exit_code or (0 if report.is_complete and not num_failed else 1)


@click.command("rescore")
@selecting(OF_MODELS)
@conditions_option("Only these conditions.")
@device_option
@data_root_option
@json_option
def rescore_command(
    selection: Selection, conditions: tuple[str, ...], device: str, data_root: Path | None, as_json: bool
) -> int:
    """Score kept adversarial examples again, on the models that they were made for, and compare with the results.

    Each example is first checked against its budget and the clean input. Ends with 1 if an example is missing, breaks
    its threat model, or has another outcome than the results say, except for numerical ties.
    """
    from robench.runs import rescore_results

    request = selection.request(device=device, data_root=data_root)
    found: list[Rescored] = []
    for rescored in rescore_results(request, selection.store(), conditions):
        for each in rescored:
            say(f"{each.model} / {each.condition}: {each.num_examples} examples scored again")
        found += rescored
    entries = [asdict(each) | {"agrees": each.agrees} for each in found]
    out_entries(as_json, entries, _RESCORED_COLUMNS, [_row(each) for each in found])
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
    lines = []
    for kind, ids in kinds.items():
        if ids:
            more = ", ..." * (len(ids) > _SHOWN_IDS)
            lines.append(f"{title}: {len(ids)} {kind}: {', '.join(ids[:_SHOWN_IDS])}{more}")
    return [*lines, *(f"{title}: {note}" for note in found.notes)]
