"""``robench compare``, ``robench baseline`` and ``robench check``: results against those of a model, or of a file."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any

import click

from robench.cli.names import complete_models, expanded, models_of_results
from robench.cli.options import (
    AbsolutePath,
    all_examples_option,
    all_seeds_option,
    data_root_option,
    dataset_option,
    device_option,
    format_option,
    json_option,
    model_option,
    option,
    path_option,
    registry_option,
    results_option,
    seed_option,
    suite_option,
    workers_option,
)
from robench.cli.selection import OF_MODELS, OF_SUITES, Selection, control_option, seeds_option, selecting
from robench.cli.style_options import columns_option, style_options
from robench.cli.terminal import out_document, say
from robench.core.errors import UsageError
from robench.core.files import write_whole, writing
from robench.core.rendered import Style

# The file to which a step of a workflow appends Markdown.
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
# Points, or units of a perplexity.
LARGEST_TOLERANCE = 1e6


@click.group("baseline")
def baseline_command() -> None:
    """Write a file that later results are checked against."""


@baseline_command.command("write")
@click.argument("file", type=AbsolutePath())
@selecting(OF_MODELS)
def write(selection: Selection, file: Path) -> int:
    """Write the outcomes of models under suites to FILE, from kept results.

    Every example must be measured; no model, data or GPU is needed.
    """
    from robench.comparison import baseline_of
    from robench.store.baseline import write_baseline

    suites, store = selection.found_suites(), selection.store()
    names = models_of_results(selection.models, store)
    baseline = baseline_of(suites, store, names, limit=selection.limit, seed=selection.seed)
    write_baseline(file, baseline)
    num_models, num_rows = len(names), sum(len(record.outcomes) for record in baseline.records)
    say(f"Wrote {num_rows} outcomes of {num_models} model{'s' * (num_models != 1)} to {file}.")
    return 0


@click.command("check")
@path_option("--baseline", "FILE", "As robench baseline write wrote it.", required=True)
@selecting(
    (
        *(suite_option(required=False), dataset_option, model_option(required=False), registry_option),
        *(all_examples_option, results_option, seed_option),
    )
)
@option("--run", "is_run", is_flag=True, help="First measure what is missing, with the weights of the registry.")
@device_option
@workers_option
@data_root_option
@option(
    "--tolerance",
    type=click.FloatRange(min=0, max=LARGEST_TOLERANCE),
    metavar="POINTS",
    help="Also fail where a number is worse by more, significantly or not; prints how often chance alone does that.",
)
@path_option("--junit", "FILE", "Write JUnit XML, a test case a cell.")
@path_option(
    "--summary", "FILE", f"Write a summary in Markdown; it is also appended to the file that {STEP_SUMMARY} names."
)
@json_option
def command(
    selection: Selection,
    baseline: Path,
    is_run: bool,
    tolerance: float | None,
    junit: Path | None,
    summary: Path | None,
    as_json: bool,
    # Further options have the names and types of the request's fields.
    **further: Any,
) -> int:
    """Check the results of a baseline's models against it.

    Ends with 1 if a number is significantly worse (one-sided paired tests, Holm over all cells, level 5 %) or missing,
    and with 4 if data, protocol, seed or plug-ins are not those of the baseline. Without --suite and --model all that
    the baseline holds is checked.
    """
    from robench.comparison import check_results
    from robench.comparison.documents import check_json, check_junit, check_markdown, check_text
    from robench.runs.check import check_request, suites_to_check
    from robench.store.baseline import read_baseline

    if tolerance is not None and isnan(tolerance):
        raise UsageError("the tolerance is not a number; give points from 0")
    _check_outputs({"--junit": junit, "--summary": summary}, (baseline, *selection.registries), selection)
    kept = read_baseline(baseline)
    known = sorted({record.shard.checkpoint for record in kept.records})
    names = expanded(selection.models, lambda: known, "model of the baseline")
    registries, seed, store = selection.registries, selection.seed, selection.store()
    found = suites_to_check(kept, selection.suites, registries, selection.dataset, all_examples=selection.all_examples)
    check_by = partial(check_results, kept, found, store, models=names, seed=seed, tolerance=tolerance)
    if not is_run:
        stopped_with, check = 0, check_by(measurements=None)
    else:
        from robench.cli.progress import WatchedRun
        from robench.runs import measure

        store.check_writable()
        request, watch = check_request(kept, found, names, registries, seed=seed, **further), WatchedRun()
        check = measure(
            request,
            store,
            lambda run, _: check_by(measurements={suite.name: run.keys(suite) for suite in found}),
            watch,
        )
        stopped_with = watch.exit_code
    out_document(check_json(check) if as_json else check_text(check))
    _write(junit, check_junit(check))
    _write(summary, check_markdown(check))
    _append_summary(check_markdown(check))
    if any(cell.verdict == "missing" for cell in check.failed):
        say("Numbers of the baseline are missing: measure them with 'robench run', or check with --run.")
    return stopped_with or (0 if check.has_passed else 1)


def _check_outputs(outputs: Mapping[str, Path | None], inputs: Sequence[Path], selection: Selection) -> None:
    """Refuse to write a document over a file that the check reads, or over another document."""
    taken = {path.resolve(): "an input of this check" for path in (*inputs, *map(Path, selection.suites))}
    results = selection.results.resolve()
    for name, path in outputs.items():
        if path is None:
            continue
        found = path.resolve()
        # Files of results are in folders of their own.
        is_result = found.is_relative_to(results) and found.parent != results
        if what := "among the stored results" if is_result else taken.get(found):
            raise UsageError(f"{name} would overwrite {path}, {what}; name another file")
        taken[found] = f"the file of {name}"


def _write(path: Path | None, text: str) -> None:
    if path is not None:
        with writing(path):
            write_whole(path, text.encode("utf-8"))


def _append_summary(text: str) -> None:
    path = os.environ.get(STEP_SUMMARY)
    if not path:
        return
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")
    except (OSError, ValueError) as error:
        say(f"The step summary {path} cannot be written: {error}")


# ``md`` as robench report calls it.
FORMATS = {name: name for name in ("text", "markdown", "latex", "json", "csv")} | {"md": "markdown"}


@click.command("compare")
@click.argument("names", metavar="A B [C ...]", nargs=-1, required=True, shell_complete=complete_models)
@selecting((*OF_SUITES, all_seeds_option))
@control_option
@seeds_option
@option("--pair-seeds", is_flag=True, help="With --control: pair equal training seeds of all models.")
@option("--flipped", is_flag=True, help="Also list the examples that only one of the two is right about.")
@format_option(FORMATS, "table")
@columns_option
@style_options()
def compare_command(
    selection: Selection,
    names: tuple[str, ...],
    control: str | None,
    seeds: tuple[int, ...] | None,
    pair_seeds: bool,
    flipped: bool,
    format_name: str,
    columns: tuple[str, ...],
    style: Style,
) -> int:
    """Compare models A and B example by example, or several with a control, on all columns of the suites.

    Differences are A less B, or a model less the control, with 95 % intervals; p-values are two-sided, and multiplied
    by the suite's number of columns. No model, data or GPU is needed. Ends with 4 if the models were measured on
    different data. With --all-seeds or --seeds means over training seeds are compared, with --control always.
    """
    from robench.comparison import CONTROL_RENDERERS, RENDERERS, compare_models
    from robench.comparison.documents import table_of
    from robench.comparison.many_to_one_documents import table_of as table_of_many
    from robench.declare import seeds_of_models
    from robench.reports.table import with_labels

    if control is not None:
        if flipped:
            raise UsageError("--flipped is for two models; leave out --control")
        found = selection.compared_with(control, names, seeds, pair_seeds=pair_seeds).arranged(columns)
        labels = {each.column.key: each.column.label for each in found.columns}
        found = replace(found, style=with_labels(style, labels, table_of_many(found).texts))
        out_document(CONTROL_RENDERERS[FORMATS[format_name]](found))
        return 0
    if pair_seeds:
        raise UsageError("--pair-seeds needs --control")
    if len(names) != 2:
        raise UsageError(f"two models are compared, got {len(names)}; compare several with one by --control MODEL")
    of_seeds = None
    if selection.all_seeds or seeds is not None:
        of_seeds = [[*of] for of in seeds_of_models(names, selection.registries, seeds)]
    comparison = compare_models(
        selection.found_suites(),
        selection.store(),
        *names,
        limit=selection.limit,
        seed=selection.seed,
        seeds=of_seeds,
    ).arranged(columns)
    labels = {row.column.key: row.column.label for row in comparison.rows}
    comparison = replace(comparison, style=with_labels(style, labels, table_of(comparison).texts))
    out_document(RENDERERS[FORMATS[format_name]](comparison, flipped=flipped))
    return 0
