"""``robench export``: tidy tables of kept results for other programs, and pictures of examples."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from robench.cli.names import model_of_registry, run_command, say_limited
from robench.cli.options import (
    AbsolutePath,
    conditions_option,
    data_root_option,
    dataset_option,
    device_option,
    gathered,
    one_model_option,
    one_suite_option,
    option,
    path_option,
    registry_option,
    seed_option,
)
from robench.cli.progress import steps_shown
from robench.cli.selection import OF_RESULTS, Selection, selecting
from robench.cli.terminal import say
from robench.core.errors import UsageError
from robench.declare import read_registries
from robench.exports import FORMATS, export
from robench.exports.pictures import GRID_NAME, Pictured, write_pictures


class _Group(click.Group):
    """Group whose command ``tables`` runs where none is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the default command's name before options, or where variables give all of them."""
        names_none = args[0].startswith("-") if args else not ctx.resilient_parsing
        asks_help = bool(args) and args[0] in ctx.help_option_names
        return super().parse_args(ctx, ["tables", *args] if names_none and not asks_help else args)


_all_seeds_option = option(
    "--all-seeds", is_flag=True, help="All training seeds of each model, and rows that are means over them."
)


@click.group("export", cls=_Group)
def command() -> None:
    """Write results for other programs: tables (the default), or images before and after attacks."""


@command.command("tables")
@selecting((*OF_RESULTS, _all_seeds_option))
@path_option("--output", "FOLDER", "Folder for the tables and their manifest.", required=True)
@option(
    "--format",
    "format_name",
    type=click.Choice(list(FORMATS)),
    default="parquet",
    show_default=True,
    help="Format of the tables.",
)
def export_tables(selection: Selection, output: Path, format_name: str) -> int:
    """Write cells and outcomes of all examples as tables, with a manifest, from kept results.

    No model, data or GPU is needed. Rows measured only with --limit are left out unless the same --limit is given here.
    """
    suites, store = selection.found_suites(), selection.store()
    checkpoints = read_registries(selection.registries).values()
    exported = export(
        suites,
        store,
        output,
        format_name=format_name,
        models=selection.rows(store),
        limit=selection.limit,
        seed=selection.seed,
        all_seeds=selection.all_seeds,
        training_seeds={each.name: each.training.seed for each in checkpoints if each.training is not None},
    )
    for path, num_rows in exported.files.items():
        say(f"wrote {num_rows} rows to {path}")
    say_limited(exported.limited)
    if not all(exported.files.values()) and not exported.limited:
        say(f"There are no outcomes in {selection.results}: measure them with '{run_command()}'.")
    elif exported.num_missing:
        say(f"{exported.num_missing} cells have no number yet: 'robench run' measures what is missing.")
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """Values of the options that say which examples are attacked again, and where."""

    examples: tuple[str, ...] = ()
    count: int = 1
    kept: Path | None = None
    device: str
    data_root: Path | None


def examples_options(count: int) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add options to a command that shows ``count`` first examples, or chosen ones, which it takes as ``chosen``."""
    kept = "What this folder has measured: its seed, its conditions, and nothing that differs from its results."
    options = (
        option("--example", "examples", multiple=True, metavar="ID", help="Only this example; else the first ones."),
        option(
            "--count", type=click.IntRange(min=1), default=count, show_default=True, help="Number of first examples."
        ),
        option("--results", "kept", type=AbsolutePath(), metavar="DIR", help=kept),
        device_option,
        data_root_option,
    )
    return gathered("chosen", Examples, options)


@command.command("images")
@selecting((one_suite_option, dataset_option, registry_option, seed_option))
@one_model_option("The model that is attacked.")
@conditions_option("A condition of the suite; of a sweep all budgets, or one as NAME@8/255.", required=True)
@examples_options(8)
@path_option("--output", "FOLDER", "Folder for the images and their table.", required=True)
def export_images(selection: Selection, model: str, conditions: tuple[str, ...], chosen: Examples, output: Path) -> int:
    """Write clean and perturbed images, their differences and the predictions as PNG files, and all in one grid.

    The attacks run once more, on the batches that have these examples, and give the images that a run scores. Files
    have 8 bits a value; 'robench run --keep-adversarial float32' keeps the exact numbers. With --results, a model whose
    weights, data or settings are not those of the results is refused.
    """
    among = None
    if chosen.kept is not None:
        selection, among, _ = measured_in(chosen.kept, selection, model)
    drawn = pictures_of(selection, model, conditions, chosen, among=among)
    files = write_pictures(drawn, output)
    say(f"wrote {len(files)} files to {output}; {GRID_NAME} shows everything")
    return 0


def measured_in(kept: Path, selection: Selection, model: str) -> tuple[Selection, set[str], set[str]]:
    """Return the selection with the seed of a folder's results of a model, and what the folder has.

    The latter are the keys of all its measurements, and the names of the model's conditions.
    """
    name = model_of_registry(model, selection.registries)
    headers = [each.shard for each in replace(selection, results=kept).store().manifests()]
    seeds = sorted({each.seed for each in headers if each.checkpoint == name})
    if not seeds:
        raise UsageError(f"{kept} has no results of {name!r}; measure it with 'robench run', or leave out --results")
    if selection.seed is None and len(seeds) > 1:
        raise UsageError(f"{kept} has results of {name!r} with the seeds {', '.join(map(str, seeds))}; add --seed")
    seed = seeds[0] if selection.seed is None else selection.seed
    names = {each.condition for each in headers if each.checkpoint == name and each.seed == seed}
    return replace(selection, seed=seed), {each.measurement_key for each in headers}, names


def pictures_of(
    selection: Selection,
    model: str,
    conditions: Sequence[str],
    chosen: Examples,
    *,
    among: Collection[str] | None = None,
    are_images: bool = True,
) -> list[Pictured]:
    """Return examples under conditions of the selected suite with a bar of progress; see ``runs.pictured``."""
    from robench.runs.pictured import pictured, views_named

    of_model = replace(selection, models=(model_of_registry(model, selection.registries),))
    request = of_model.request(device=chosen.device, data_root=chosen.data_root)
    with steps_shown("attacking", "batches", are_alike=False) as on_progress:
        views = views_named(request.suites[0], conditions)
        return pictured(
            request,
            views,
            count=chosen.count,
            examples=chosen.examples,
            among=among,
            are_images=are_images,
            on_progress=on_progress,
        )
