"""``robench view``: examples before and after attacks, as one page."""

from pathlib import Path

import click

from robench.cli.export_command import Examples, examples_options, measured_in, pictures_of
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
from robench.cli.terminal import put


@click.command("view")
@selecting((one_suite_option, dataset_option, registry_option, model_option(required=True), seed_option))
@conditions_option("A condition of the suite, by default all; of a sweep all budgets, or one as NAME@8/255.")
@examples_options(24)
@path_option("--output", "FILE", "File for the page.", required=True)
def command(selection: Selection, conditions: tuple[str, ...], chosen: Examples, output: Path) -> int:
    """Write a page that shows what models were given, clean and attacked, and what they answered.

    Images, texts with their changed words marked, time series and sequences of tokens. The page needs no network and
    filters examples by what fooled which model and what did not. Attacks run once more, on the batches that have these
    examples, and give the inputs that a run scores; models whose results differ are refused with --results.
    """
    from robench.exports.view import render_view

    names = models_of_registry(selection.models, selection.registries)
    selections: dict[str, tuple[Selection, set[str] | None]] = dict.fromkeys(names, (selection, None))
    if chosen.kept is not None:
        found = {name: measured_in(chosen.kept, selection, name) for name in names}
        selections = {name: (of_model, keys) for name, (of_model, keys, _) in found.items()}
        measured = set.intersection(*(in_results for *_, in_results in found.values()))
        every = [each.name for suite in selection.found_suites() for each in suite.conditions]
        conditions = conditions or tuple(each for each in every if each in measured)
    shown = {
        name: pictures_of(of_model, name, conditions, chosen, among=keys, are_images=False)
        for name, (of_model, keys) in selections.items()
    }
    (suite,) = selection.suites
    put(render_view(f"{suite}: {', '.join(names)}", shown), output, f": {len(shown[names[0]])} examples")
    return 0
