"""``robench view``: examples before and after attacks, as one page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from robench.cli.export_command import examples_options, measured_in, pictures_of
from robench.cli.names import models_of_registry
from robench.cli.options import (
    conditions_option,
    dataset_option,
    model_option,
    one_suite_option,
    path_option,
    registry_option,
    seed_option,
)
from robench.cli.selection import Selection, selecting
from robench.cli.terminal import say
from robench.core.files import write_whole, writing

if TYPE_CHECKING:
    from pathlib import Path


@click.command("view")
@selecting((one_suite_option, dataset_option, registry_option, model_option(required=True), seed_option))
@conditions_option("A condition of the suite, by default all; of a sweep all budgets, or one as NAME@8/255.")
@examples_options(24)
@path_option("--output", "FILE", "File for the page.", required=True)
def command(
    selection: Selection,
    conditions: tuple[str, ...],
    examples: tuple[str, ...],
    count: int,
    kept: Path | None,
    output: Path,
    device: str,
    data_root: Path | None,
) -> int:
    """Write a page that shows what models were given, clean and attacked, and what they answered.

    Images, texts with their changed words marked, time series and sequences of tokens. The page needs no network and
    filters examples by what fooled which model and what did not. Attacks run once more, on the batches that have these
    examples, and give the inputs that a run scores; models whose results differ are refused with --results.
    """
    from robench.exports.view import render_view

    names = models_of_registry(selection.models, selection.registries)
    selections: dict[str, tuple[Selection, set[str] | None]] = dict.fromkeys(names, (selection, None))
    if kept is not None:
        found = {name: measured_in(kept, selection, name) for name in names}
        selections = {name: (of_model, keys) for name, (of_model, keys, _) in found.items()}
        measured = set.intersection(*(in_results for *_, in_results in found.values()))
        every = [each.name for suite in selection.found_suites() for each in suite.conditions]
        conditions = conditions or tuple(each for each in every if each in measured)
    options: dict[str, Any] = {"count": count, "examples": examples, "are_images": False}
    shown = {
        name: pictures_of(of_model, name, conditions, device, data_root, among=keys, **options)
        for name, (of_model, keys) in selections.items()
    }
    (suite,) = selection.suites
    page = render_view(f"{suite}: {', '.join(names)}", shown)
    with writing(output):
        write_whole(output, page.encode())
    say(f"wrote {output}: {len(shown[names[0]])} examples")
    return 0
