"""``robench analyse``: attention inside models."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from robench.analyses.results import FOLDER, INTERVAL, Analysed, Means, Numbers, means_of
from robench.cli.names import models_of_registry
from robench.cli.options import (
    all_seeds_option,
    conditions_option,
    data_root_option,
    dataset_option,
    device_option,
    json_option,
    model_option,
    number_option,
    option,
    path_option,
    registry_option,
    results_option,
    seed_option,
    suite_option,
)
from robench.cli.progress import steps_shown
from robench.cli.terminal import out, out_json, out_table, say
from robench.core.errors import UsageError

SET_OPTION = "--set"
# Longer axes are for figures and files.
MOST_ROWS = 40


@click.command("analyse")
@click.argument("kind", metavar="ANALYSIS")
@model_option(required=False)
@all_seeds_option
@suite_option(required=False)
@conditions_option("A condition of the suite, whose perturbed examples are analysed too.")
@dataset_option
@number_option("--count", "Number of first examples.", default=100, show_default=True)
@option(SET_OPTION, "settings", multiple=True, metavar="NAME=VALUE", help="A field, such as formula=paper.")
@path_option("--epochs", "DIR", "Analyse the weights after each epoch, which 'robench train --keep-epochs DIR' kept.")
@seed_option
@registry_option
@data_root_option
@device_option
@results_option
@json_option
def command(
    kind: str,
    models: tuple[str, ...],
    all_seeds: bool,
    suites: tuple[str, ...],
    conditions: tuple[str, ...],
    dataset: str | None,
    settings: tuple[str, ...],
    epochs: Path | None,
    registries: tuple[Path, ...],
    results: Path,
    as_json: bool,
    # Further options have the names and types of the request's fields.
    **further: Any,
) -> int:
    """Analyse attention inside each model; 'robench list analyses' has the kinds of ANALYSIS.

    Examples are the first of --dataset, or those of a suite's conditions. The numbers are kept in the folder analyses
    of --results, from which 'robench figure analysis' draws them; no outcome changes. Analyses of formulas need neither
    models nor examples.
    """
    from robench.analyses import ANALYSES
    from robench.core.errors import UnknownNameError
    from robench.declare import assigned, find_checkpoints, find_suites

    if kind not in ANALYSES:
        raise UnknownNameError("analysis", kind, ANALYSES)
    analysis = assigned(ANALYSES[kind], settings, SET_OPTION, "analysis")
    is_formula = analysis.subject == "formula"
    if is_formula and (models or suites or dataset or epochs):
        raise UsageError(f"analysis {kind} is of formulas alone: leave out --model, --suite, --dataset and --epochs")
    if not is_formula and not models:
        raise UsageError(f"analysis {kind} is of models: name some with --model")
    if len(suites) > 1:
        raise UsageError(f"analyses are of one suite, got {', '.join(suites)}")
    from robench.runs.analyses import AnalysisRequest, analyse, examples_of
    from robench.runs.epoch_analyses import analyse_epochs

    suite = find_suites(suites, registries, dataset)[0] if suites else None
    examples = {} if is_formula else examples_of(suite, conditions, dataset, registries)
    asked = AnalysisRequest(analysis=analysis, results=results, **examples, **further)
    found: list[tuple[Analysed, Path | None]] = []
    if is_formula:
        found += analyse(asked)
    else:
        of = analyse if epochs is None else partial(analyse_epochs, folder=epochs)
        for checkpoint in find_checkpoints(models_of_registry(models, registries), registries, all_seeds=all_seeds):
            with steps_shown(checkpoint.name, "examples") as on_progress:
                found += of(asked, checkpoint, on_progress=on_progress)
    if as_json:
        out_json([_document(each, path) for each, path in found])
    else:
        _show(found, results, has_epochs=epochs is not None)
    return 0


def _show(found: Sequence[tuple[Analysed, Path | None]], results: Path, *, has_epochs: bool) -> None:
    """Print a table for each result, or one for all epochs of a model and condition."""
    from robench.analyses.over_epochs import along_epochs

    if has_epochs:
        for each in along_epochs([each for each, _ in found]):
            _print(each)
        say(f"wrote {len(found)} files to {results / FOLDER}")
        return
    for each, path in found:
        _print(each)
        say(f"wrote {path}")


def _print(analysed: Analysed) -> None:
    """Print the means of an analysis: a row for each place on the first axis, a column for each statistic."""
    facts, means = analysed.facts, [(each, means_of(each)) for each in analysed.numbers]
    out(", ".join([analysed.title, *([facts["condition"]] if "condition" in facts else [])]))
    has_epochs = "epochs" in facts
    drawn: list[str] = []
    by_axes: dict[tuple[Any, ...], list[tuple[Numbers, Means]]] = {}
    for each, mean in means:
        if has_epochs or (len(mean.axes) < 2 and mean.values.size <= MOST_ROWS):
            places = tuple(each.places(mean.axes[0])) if mean.axes else ()
            by_axes.setdefault((mean.axes, places), []).append((each, mean))
        else:
            drawn.append(each.name)
    for (axes, places), columns in by_axes.items():
        statistics = [each.statistic for each, _ in columns]
        labels = [statistics[0].x if axis == "x" else axis for axis in axes]
        names = [f"{each.name} ({each.statistic.unit})" if each.statistic.unit else each.name for each, _ in columns]
        header = [*labels, *names]
        rows = [[f"{place:g}", *(_text(mean, index) for _, mean in columns)] for index, place in enumerate(places)]
        rows = rows or [[_text(mean, ()) for _, mean in columns]]
        out_table(header, rows, ["right"] * len(header))
    for name in drawn:
        out(f"{name}: drawn by 'robench figure analysis'.")
    if any(mean.num_examples for _, mean in means):
        count = max(mean.num_examples for _, mean in means)
        over = "layers, examples and heads" if has_epochs else "examples and heads"
        of = f"examples of {facts['dataset']}" if "dataset" in facts else "random samples"
        out(f"{count} {of}; means over {over} [{INTERVAL}].")
    if not means:
        out("It has no number for each layer or head to show over epochs; its numbers are in the files.")
    out("")


def _text(mean: Means, index: Any) -> str:
    value, low, high = (each[index] for each in (mean.values, mean.low, mean.high))
    return f"{value:.4g}" if low != low else f"{value:.4g} [{low:.4g}, {high:.4g}]"


def _document(analysed: Analysed, path: Path | None) -> dict[str, Any]:
    statistics = {}
    for each in analysed.numbers:
        mean = means_of(each)
        # Of fewer examples there is no interval.
        bounds = {"low": mean.low.tolist(), "high": mean.high.tolist()} if mean.num_examples > 1 else {}
        statistics[each.name] = {
            "meaning": each.statistic.meaning,
            "unit": each.statistic.unit,
            "axes": list(mean.axes),
            **{axis: list(map(float, each.places(axis))) for axis in mean.axes if axis in ("x", "y")},
            "mean": mean.values.tolist(),
            **bounds,
        }
    return {**analysed.facts, "num_examples": len(analysed.examples), "statistics": statistics, "file": str(path)}
