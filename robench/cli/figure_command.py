"""``robench figure``: figures for papers from kept results and training histories."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from robench.cli.drawing import Target, draw, of_panels
from robench.cli.names import model_of_registry, models_of_registry, say_limited
from robench.cli.options import (
    AbsolutePath,
    all_seeds_option,
    conditions_option,
    dataset_option,
    device_option,
    model_option,
    number_option,
    one_model_option,
    one_suite_option,
    option,
    path_option,
    registry_option,
    results_option,
    seed_option,
)
from robench.cli.progress import steps_shown
from robench.cli.selection import OF_ONE_SUITE, OF_RESULTS, Selection, control_option, seeds_option, selecting
from robench.cli.terminal import say
from robench.core.errors import IncompleteError, UsageError
from robench.core.files import write_whole, writing
from robench.core.suite import Suite
from robench.costs import DEFAULT_RULE, RULES
from robench.costs.stored import stored_costs
from robench.declare import find_checkpoints, read_registries
from robench.figures import (
    PAGE,
    SUFFIXES,
    CostAxis,
    Plot,
    analysis_plot,
    budget_plot,
    check_matplotlib,
    corruption_plot,
    cost_plot,
    episode_plot,
    gains_plot,
    optimality_plot,
    queries_plot,
    reliability_plot,
    rendered,
    seconds_axis,
    seeds_plot,
    training_plot,
)
from robench.leaderboard import Leaderboard
from robench.reports.results import Stored
from robench.training.history import TrainingHistory, history_path, read_history

COSTS = ("multiply-adds", "parameters", "seconds")


@click.group("figure")
def command() -> None:
    """Draw figures for papers: SVG, PDF, PNG or PGF, by the suffix of the file.

    The same results give the same bytes under one release of matplotlib, which the extra "figures" of robench brings.
    """


def _board(selection: Selection) -> Leaderboard:
    board = selection.leaderboard(is_tested=False)
    say_limited(board.limited)
    return board


@command.command("budget")
@selecting((*OF_RESULTS, all_seeds_option))
@of_panels
def budget(selection: Selection, target: Target) -> int:
    """Draw accuracy against the budget of a sweep, or the distance of a minimum-norm attack.

    Whiskers are 95 % intervals. Without --model, the eight best models are drawn.
    """
    return draw(lambda: budget_plot(_board(selection), all_models=bool(selection.models)), target, selection.registries)


@command.command("queries")
@selecting((*OF_RESULTS, all_seeds_option))
@of_panels
def queries(selection: Selection, target: Target) -> int:
    """Draw accuracy against the number of queries or steps of conditions that are one attack but for it.

    Of minimum-norm attacks, accuracy at a distance. Whiskers are 95 % intervals; the axis is logarithmic. Without
    --model, the eight best models are drawn.
    """
    return draw(
        lambda: queries_plot(_board(selection), all_models=bool(selection.models)), target, selection.registries
    )


@command.command("corruptions")
@selecting((*OF_RESULTS, all_seeds_option))
@of_panels
def corruptions(selection: Selection, target: Target) -> int:
    """Draw the accuracy under each type of corruption against its severity, a panel a type.

    Of episodes, every metric under each type of disturbance, or attack against its budget.

    Without --model, the eight best models are drawn.
    """
    return draw(
        lambda: corruption_plot(_board(selection), all_models=bool(selection.models)), target, selection.registries
    )


@command.command("seeds")
@selecting(OF_RESULTS)
@control_option
@seeds_option
@of_panels
def seeds(selection: Selection, control: str | None, seeds: tuple[int, ...] | None, target: Target) -> int:
    """Draw each training seed's number as a point, with the mean and its t interval beside; a panel a column.

    With --control points are differences from that model's mean, and intervals those of 'robench compare --control'.
    """
    if control is not None:
        return draw(
            lambda: gains_plot(selection.compared_with(control, selection.models, seeds)), target, selection.registries
        )
    if seeds is not None:
        raise UsageError("--seeds needs --control; without it, name checkpoints such as digits-vit@1 with --model")
    return draw(lambda: seeds_plot(_board(replace(selection, all_seeds=True))), target, selection.registries)


@command.command("cost")
@selecting((*OF_RESULTS, all_seeds_option))
@option("--column", required=True, metavar="COLUMN", help="Number of the vertical axis, such as pgd/top1_accuracy.")
@option(
    "--against",
    type=click.Choice(COSTS),
    default=COSTS[0],
    show_default=True,
    help="Number of the horizontal axis; seconds are kept in --results by 'robench cost'.",
)
@option(
    "--rule",
    type=click.Choice(list(RULES)),
    default=DEFAULT_RULE,
    show_default=True,
    help="Rule by which multiply-adds are counted.",
)
@of_panels
def cost(selection: Selection, column: str, against: str, rule: str, target: Target) -> int:
    """Draw a number of each model, such as its accuracy under an attack, against what the model costs.

    Whiskers are 95 % intervals, of seconds the quartiles. Seconds are of models measured under the same conditions.
    """

    def plot_of() -> Plot:
        board = _board(selection)
        return cost_plot(board, column, _cost_axis(selection, [row.model for row in board.rows], against, rule))

    return draw(plot_of, target, selection.registries)


def _cost_axis(selection: Selection, models: Sequence[str], against: str, rule: str) -> CostAxis:
    if against == "seconds":
        return seconds_axis(stored_costs(selection.results), models)
    counts = selection.counts(models)
    label = "parameters (M)"
    values = {model: each.parameters / 1e6 for model, each in counts.items()}
    if against != "parameters":
        label = f"multiply-adds (G, {rule})"
        values = {model: each.multiply_adds(rule) / 1e9 for model, each in counts.items()}
    return CostAxis(label=label, noun=f"counted {against}", values=values, bounds={})


@command.command("optimality")
@selecting((*OF_ONE_SUITE, model_option(required=True)))
@of_panels
def optimality(selection: Selection, target: Target) -> int:
    """Draw robust accuracy against the perturbation, a line for each attack and one for the best of all.

    A panel is a model and a norm. See 'robench strength' for what counts.
    """

    def plot_of() -> Plot:
        from robench.comparison import strengths_of

        return optimality_plot(strengths_of(*_stored(selection), selection.limit))

    return draw(plot_of, target, selection.registries)


@command.command("reliability")
@selecting((*OF_ONE_SUITE, model_option(required=False)))
@of_panels
def reliability(selection: Selection, target: Target) -> int:
    """Draw accuracy against confidence in 15 bins, a panel a condition: a reliability diagram.

    Whiskers are 95 % intervals; below the diagonal a model is too confident. Conditions need confidences in results.
    """
    return draw(lambda: reliability_plot(*_stored(selection), selection.limit), target, selection.registries)


def _stored(selection: Selection) -> tuple[Suite, Stored, Sequence[str]]:
    """Return the only suite with its results, and the models asked for, or all."""
    (suite,), store = selection.found_suites(), selection.store()
    results = Stored(suite, store, None, suite.seed if selection.seed is None else selection.seed)
    return suite, results, selection.rows(store) or results.models()


@command.command("episode")
@selecting((one_suite_option, dataset_option, registry_option, seed_option))
@one_model_option("The policy that acts.")
@conditions_option("A condition of the suite, beside the clean episode; repeatable.")
@number_option("--number", "Number of the episode, from 0.", least=0, default=0, show_default=True)
@device_option
@of_panels
def episode(
    selection: Selection, model: str, conditions: tuple[str, ...], number: int, device: str, target: Target
) -> int:
    """Draw an episode step by step, clean and under conditions: values of its observations, and its return.

    A policy plays it once more, with the random numbers of a run. Observations that it sees changed are drawn as well.
    """
    from robench.runs.pictured import views_named
    from robench.runs.watched import watched

    def plot_of() -> Plot:
        name = model_of_registry(model, selection.registries)
        request = replace(selection, models=(name,)).request(device=device)
        views = views_named(request.suites[0], conditions) if conditions else []
        with steps_shown("playing", "conditions", are_alike=False) as on_progress:
            episodes = watched(request, views, number, on_progress)
        return episode_plot(episodes, f"{name}, episode {number} of {request.suites[0].name}.")

    return draw(plot_of, target)


@command.command("training")
@model_option(required=False)
@all_seeds_option
@option(
    "--history",
    "histories",
    multiple=True,
    type=AbsolutePath(),
    metavar="FILE",
    help="A .history.json that lies elsewhere than beside the weights of an entry.",
)
@registry_option
@of_panels
def training(
    models: tuple[str, ...],
    all_seeds: bool,
    histories: tuple[Path, ...],
    registries: tuple[Path, ...],
    target: Target,
) -> int:
    """Draw training curves: loss, and loss and accuracy on validation images, after each epoch.

    'robench train' keeps them beside the weights. Seeds of one entry are thin lines with their mean.
    """
    return draw(lambda: training_plot(_histories(models, all_seeds, histories, registries)), target, registries)


@command.command("paper")
@click.argument("names", nargs=-1, metavar="FIGURE...")
@option("--all", "draw_all", is_flag=True, help="All figures of the papers.")
@results_option
@registry_option
@option("--format", "suffix", type=click.Choice(list(SUFFIXES)), default=".svg", show_default=True, help="Suffix.")
@path_option("--output", "FOLDER", "Folder for the figures, their numbers and a page on them.", required=True)
def paper(
    names: tuple[str, ...], draw_all: bool, results: Path, registries: tuple[Path, ...], suffix: str, output: Path
) -> int:
    """Draw FIGUREs of the papers, such as rpc:3, from results at their scale or else from those of their twins.

    Each part is a file, with its numbers as CSV beside it; README.md has all, with verdicts on shapes and what is
    missing. Results of analyses and costs are those in the folders analyses and costs of --results, or beside an
    archive of results.
    """
    from robench.declare.figures import find_figure, printed_figures
    from robench.figures.printed import NUMBERS_HEADER, DrawnPart, Results, drawn_part, index_of, numbers_of
    from robench.papers.archive import is_archive
    from robench.reports.table import csv_of

    if draw_all == bool(names):
        raise UsageError("name figures such as rpc:3, or give --all")
    figures = list(printed_figures().values()) if draw_all else [find_figure(name) for name in dict.fromkeys(names)]
    check_matplotlib()
    folder = results.parent if is_archive(results) else results
    given = Results(store=Selection(results=results).store(), folder=folder, registries=registries)
    found: dict[str, DrawnPart | str] = {}
    known = read_registries(registries)
    with writing(output):
        for figure in figures:
            for part in figure.parts:
                name = figure.file_name(part)
                try:
                    drawn = drawn_part(figure, part, given)
                except IncompleteError as error:
                    found[name] = str(error)
                    say(f"not drawn: {name}: {error}")
                    continue
                found[name] = drawn
                content = rendered(drawn.plot, SUFFIXES[suffix], PAGE, known)
                write_whole(output / f"{name}{suffix}", content)
                write_whole(output / f"{name}.csv", csv_of(NUMBERS_HEADER, numbers_of(drawn.plot)).encode())
        write_whole(output / "README.md", index_of(figures, found, suffix).encode())
    num_drawn = sum(isinstance(each, DrawnPart) for each in found.values())
    say(f"drew {num_drawn} of {len(found)} parts of {len(figures)} figures in {output}")
    return 0 if num_drawn else 1


@command.command("analysis")
@click.argument("files", nargs=-1, required=True, type=AbsolutePath(), metavar="FILE...")
@registry_option
@of_panels
def analysis(files: tuple[Path, ...], registries: tuple[Path, ...], target: Target) -> int:
    """Draw results of 'robench analyse': lines over layers or epochs, or maps of patches. It wrote the FILEs.

    They are of one analysis, of one or several models, seeds and conditions, on the same examples.
    """
    from robench.analyses.results import read_analysis

    return draw(lambda: analysis_plot([read_analysis(path) for path in files]), target, registries)


def _histories(
    models: tuple[str, ...], all_seeds: bool, files: tuple[Path, ...], registries: tuple[Path, ...]
) -> list[TrainingHistory]:
    """Return the histories of models and in files, each file once."""
    if not models and not files:
        raise UsageError("name models with --model, or files that 'robench train' kept with --history")
    paths: dict[Path, TrainingHistory] = {}
    for checkpoint in find_checkpoints(models_of_registry(models, registries), registries, all_seeds=all_seeds):
        path = history_path(checkpoint.folder / checkpoint.weights.uri)
        if not path.exists():
            kept_by = f"'{checkpoint.train_command}' keeps one, and " if checkpoint.training else ""
            raise UsageError(
                f"there is no training history of {checkpoint.name!r} at {path}; {kept_by}--history FILE names one "
                "that lies elsewhere"
            )
        paths[path] = read_history(path)
    paths |= {path: read_history(path) for path in files if path not in paths}
    by_checkpoint: dict[str, Path] = {}
    for path, history in paths.items():
        before = by_checkpoint.setdefault(history.checkpoint, path)
        if before != path:
            raise UsageError(f"{before} and {path} are both histories of {history.checkpoint!r}; leave one of them out")
    return list(paths.values())
