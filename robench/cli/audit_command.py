"""``robench audit``: checks whether a model's robustness number is reliable."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import click

from robench.cli.completion import complete_datasets, complete_models
from robench.cli.options import data_root_option, json_option, option, registry_option
from robench.cli.patterns import model_of_registry
from robench.cli.terminal import out, out_json, out_table, say
from robench.core.errors import UsageError
from robench.declare import find_checkpoints, find_datasets

if TYPE_CHECKING:
    from robench.core.flags import Flag

RAISED = 1


@click.command("audit")
@option("--model", required=True, metavar="NAME", shell_complete=complete_models, help="A model of the registry.")
@registry_option
@option(
    "--dataset",
    metavar="NAME",
    shell_complete=complete_datasets,
    help="By default that of the model's training, or trained_on.",
)
@data_root_option
@option("--epsilon", default="8/255", show_default=True, metavar="E", help="Budget in l-infinity, in pixel units.")
@option("--num-examples", type=click.IntRange(min=1), default=100, show_default=True, metavar="N")
@option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:N.")
@json_option
def command(
    model: str,
    registries: tuple[Path, ...],
    dataset: str | None,
    data_root: Path | None,
    epsilon: str,
    num_examples: int,
    device: str,
    as_json: bool,
) -> int:
    """Check a model under attack: masked gradients, failing attacks, random predictions; give advice.

    Exits with 1 if a check is raised.
    """
    (checkpoint,) = find_checkpoints([model_of_registry(model, registries)], registries)
    # Imported here, so that help needs no torch.
    from robench.runs.audit import audit_checkpoint

    flags = audit_checkpoint(
        checkpoint,
        epsilon=_fraction(epsilon),
        num_examples=num_examples,
        dataset=dataset,
        datasets=find_datasets(registries),
        data_root=data_root,
        device=device,
        on_start=lambda: say(f"{checkpoint.name}: attacked in some ten ways, a minute or two on a CPU"),
    )
    if as_json:
        out_json([dataclasses.asdict(flag) for flag in flags])
    else:
        _print_table(flags)
    return RAISED if any(flag.is_raised for flag in flags) else 0


def _fraction(text: str) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError) as error:
        raise UsageError(f"--epsilon must be a number such as 8/255 or 0.03, got {text!r}") from error


def _print_table(flags: list[Flag]) -> None:
    rows = [["RAISED" if flag.is_raised else "ok", flag.name, flag.finding, flag.source] for flag in flags]
    advice = [f"{flag.name}: {flag.advice}." for flag in flags if flag.is_raised]
    out_table(["", "check", "found", "source"], rows)
    out("", *(advice or ["Nothing is raised."]))
