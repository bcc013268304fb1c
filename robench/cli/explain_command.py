"""``robench explain`` and ``robench audit``: a model's results in detail, and whether they are reliable."""

import dataclasses
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from robench.cli.names import complete_datasets, complete_models, model_of_registry
from robench.cli.options import (
    data_root_option,
    device_option,
    json_option,
    one_model_option,
    option,
    path_option,
    registry_option,
)
from robench.cli.selection import OF_ONE_SUITE, Selection, selecting
from robench.cli.terminal import out, out_document, out_entries, put, say
from robench.core.errors import UsageError
from robench.declare import find_checkpoints, find_datasets
from robench.reports import explain

RAISED = 1


@click.command("explain")
@click.argument("model", shell_complete=complete_models)
@selecting(OF_ONE_SUITE)
@option("--example", metavar="ID", help="Also show the outcome of this example under every condition.")
@path_option(
    "--picture", "FILE", "Also draw the example under every condition, as PNG; this runs the attacks on it once more."
)
@device_option
@data_root_option
@json_option
def command(
    selection: Selection,
    model: str,
    example: str | None,
    picture: Path | None,
    device: str,
    data_root: Path | None,
    as_json: bool,
) -> int:
    """Explain the kept results of MODEL: each attack with its budget, flags and what they mean, failures.

    Without results of the suite the exit code is 1. No model, data or GPU is needed, except for --picture. 'robench
    export images' draws several examples.
    """
    if picture is not None and example is None:
        raise UsageError("--picture draws one example; name it with --example")
    (suite,) = selection.found_suites()
    explanation = explain(suite, selection.store(), model, example=example, limit=selection.limit, seed=selection.seed)
    out_document(explanation.render("json" if as_json else "text"))
    if picture is not None and example is not None:
        # Imported here, since texts need no pictures.
        from robench.cli.export_command import Examples, pictures_of
        from robench.exports.pictures import grid_of, png_of

        # Conditions on the first dataset that has the example; corrupted copies of it are examples of their own.
        measured = [view for view in explanation.views if view.name in explanation.outcomes]
        names = [view.name for view in measured if view.dataset == measured[0].dataset]
        wanted = dataclasses.replace(selection, limit=None, seed=explanation.seed)
        chosen = Examples(examples=(example,), device=device, data_root=data_root)
        put(png_of(grid_of(pictures_of(wanted, explanation.model, names, chosen))), picture)
    return 0


@click.command("audit")
@one_model_option("A model of the registry.")
@registry_option
@option(
    "--dataset",
    metavar="NAME",
    shell_complete=complete_datasets,
    help="By default that of the model's training, or trained_on.",
)
@data_root_option
@option(
    "--epsilon",
    metavar="E",
    help="Budget in l-infinity, in units of the inputs; by default 8/255 for images and 0.1 for time series.",
)
@option("--num-examples", type=click.IntRange(min=1), default=100, show_default=True, metavar="N")
@option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:N.")
@option("--attention", is_flag=True, help="Also compare attacks that know attention with others.")
@json_option
def audit_command(
    model: str,
    registries: tuple[Path, ...],
    epsilon: str | None,
    as_json: bool,
    # Further options have the names and types of the parameters of ``audit_checkpoint``.
    **further: Any,
) -> int:
    """Check a model under attack: masked gradients, failing attacks, random predictions; give advice.

    Exits with 1 if a check is raised.
    """
    (checkpoint,) = find_checkpoints([model_of_registry(model, registries)], registries)
    from robench.runs.single_model import audit_checkpoint

    flags = audit_checkpoint(
        checkpoint,
        epsilon=None if epsilon is None else _fraction(epsilon),
        datasets=find_datasets(registries),
        **further,
        on_start=lambda: say(f"{checkpoint.name}: attacked in some ten ways, a minute or two on a CPU"),
    )
    rows = [["RAISED" if flag.is_raised else "ok", flag.name, flag.finding, flag.source] for flag in flags]
    out_entries(as_json, [dataclasses.asdict(flag) for flag in flags], ["", "check", "found", "source"], rows)
    if not as_json:
        advice = [f"{flag.name}: {flag.advice}." for flag in flags if flag.is_raised]
        out("", *(advice or ["Nothing is raised."]))
    return RAISED if any(flag.is_raised for flag in flags) else 0


def _fraction(text: str) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError) as error:
        raise UsageError(f"--epsilon must be a number such as 8/255 or 0.03, got {text!r}") from error
