"""``robench reproduce``: trains what papers' tables lack, measures the conditions that they need, and prints them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from robench.cli.main import INTERRUPTED, TERMINATED
from robench.cli.options import (
    audit_options,
    device_speed_option,
    executor_options,
    format_option,
    measuring_options,
    number_option,
    option,
    part_option,
)
from robench.cli.paper_tables import ChosenTables, choosing_tables, print_tables
from robench.cli.terminal import out, out_json, out_table, say
from robench.core.errors import UsageError
from robench.papers import FORMATS
from robench.papers.forecast import NONE, TERA
from robench.store import FolderStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from robench.papers.forecast import Forecast, Hours
    from robench.reproduction import Measuring, Plan, Training
    from robench.reproduction.reproduction import Reproduction
    from robench.scheduling import Progress
    from robench.training.base import TrainingPrecision

SEEDS_OF_PAPERS = 3


seeds_option = number_option(
    "--seeds", f"Training seeds of each model; default: {SEEDS_OF_PAPERS}, of twins the registry's."
)


@click.command("reproduce")
@choosing_tables
@seeds_option
@number_option("--jobs", "Train N models side by side.", default=1, show_default=True)
@number_option("--micro-batch-size", "Examples per forward pass of a training; default: a whole batch.")
@option(
    "--training-precision",
    type=click.Choice(["float32", "bfloat16"]),
    default="float32",
    show_default=True,
    help="Numbers of a training's passes; bfloat16 is mixed precision.",
)
@part_option(help="Of the trainings, each n-th from the i-th, such as 2/8; then measure beside the other parts.")
@measuring_options
@executor_options
@audit_options
@option("--dry-run", is_flag=True, help="List trainings and measurements with their hours, without data or weights.")
@device_speed_option
@format_option(sorted(FORMATS), "tables")
def command(
    chosen: ChosenTables,
    seeds: int | None,
    jobs: int,
    micro_batch_size: int | None,
    training_precision: TrainingPrecision,
    part: tuple[int, int] | None,
    dry_run: bool,
    device_speed: float | None,
    format_name: str,
    # Further options have the names and types of the fields of requests.
    **settings: Any,
) -> int:
    """Train what the models of papers' tables lack, measure what the numbers need and no more, and print the tables.

    New weights are in the folder weights of --results, and declared in its reproduced.yaml. Nothing that exists is
    overwritten; the same command goes on after an interruption. Costs are measured by 'robench cost'. The hours of
    --dry-run need --device-speed.
    """
    if device_speed is not None and not dry_run:
        raise UsageError("--device-speed is for the hours of --dry-run; add it")
    reproduction = reproduction_of(chosen, seeds)
    if dry_run:
        forecast = _forecast(device_speed)
        _print_plan(reproduction.plan(forecast), forecast, as_json=format_name == "json")
        return 0
    reproduction.reproduced.refresh()
    plan = reproduction.plan() if part is None else reproduction.plan().part(*part)
    reproduction.check(plan, settings["data_root"])
    store = FolderStore(chosen.results)
    store.check_writable()
    further = {"micro_batch_size": micro_batch_size, "precision": training_precision}
    if code := _train(reproduction, plan, jobs, {**further, **settings}):
        return code
    code = _measure(reproduction, store, {**settings, "part": part, "take_over": part is not None})
    if code not in (INTERRUPTED, TERMINATED):
        print_tables(chosen.tables(chosen.measured(chosen.results), chosen.results), format_name)
    return code


def reproduction_of(chosen: ChosenTables, seeds: int | None) -> Reproduction:
    """Return the reproduction of tables. Raises UsageError: nothing is chosen, or a named table has no twins."""
    from robench.reproduction.reproduction import Reproduction

    chosen.check_twins()
    return Reproduction(
        tables=chosen.published,
        cells=chosen.cells,
        results=chosen.results,
        registries=chosen.registries,
        of_twins=chosen.of_twins,
        num_seeds=SEEDS_OF_PAPERS if seeds is None and not chosen.of_twins else seeds,
        limit=chosen.limit,
    )


def _train(reproduction: Reproduction, plan: Plan, num_jobs: int, settings: Mapping[str, Any]) -> int:
    """Train what is missing; return 1 if a training failed, since tables then lack numbers."""
    from robench.cli.train_command import trained
    from robench.executors import IN_PROCESS
    from robench.runs.devices import choose_workers, devices_of
    from robench.training.base import Host

    if not plan.trainings:
        return 0
    found, devices = choose_workers(settings["device"], 1, IN_PROCESS), devices_of(settings["device"])
    host = Host(
        data_root=settings["data_root"],
        device=devices[0],
        decode_workers=found.decode_workers,
        micro_batch_size=settings["micro_batch_size"],
        precision=settings["precision"],
    )
    by_name: dict[str, Training] = {each.checkpoint.name: each for each in plan.trainings}
    num_failed = 0
    for goes_first in (True, False):
        wanted = [each for each in plan.trainings if each.goes_first is goes_first]
        # Side by side they take one GPU after the other.
        jobs = [
            reproduction.job(each, replace(host, device=devices[place % min(len(devices), num_jobs)]))
            for place, each in enumerate(wanted)
        ]
        for job, content in trained(jobs, num_jobs):
            num_failed += content is None
            if content is not None:
                digest = reproduction.keep(job, content)
                say(f"trained {job.checkpoint.name}{_compared(digest, by_name[job.checkpoint.name].known_sha256)}")
        if num_failed:
            say(f"{num_failed} trainings failed, and nothing was measured. The same command tries them again.")
            return 1
    return 0


def _measure(reproduction: Reproduction, store: FolderStore, settings: Mapping[str, Any]) -> int:
    """Measure the trained models; return the exit code of an interruption, or 1 if shards failed."""
    from robench.cli.progress import WatchedRun, say_failures
    from robench.runs import measure

    # Other parts may have trained models since.
    reproduction.reproduced.refresh()
    plan = reproduction.plan()
    filled: list[Progress] = []
    requests = reproduction.requests(plan, **settings)
    for number, request in enumerate(requests, 1):
        models, suites = (", ".join(each.name for each in asked) for asked in (request.checkpoints, request.suites))
        say(f"measurement {number} of {len(requests)}: {models} under {suites}")
        watch = WatchedRun()
        measure(request, store, lambda *_: None, watch)
        if watch.exit_code:
            return watch.exit_code
        filled += watch.filled.values()
    if plan.trainings:
        say(f"{len(plan.trainings)} models of other parts are not trained yet; the same command measures them then.")
    say_failures(*filled)
    return 1 if any(progress.num_failed for progress in filled) else 0


def _compared(digest: str, known: str | None) -> str:
    """Compare weights with those of the same training in the registry, as an end of a message."""
    if known is None:
        return ""
    if digest.startswith(known):
        return ": the weights of the registry, to the bit"
    return ": other weights than the registry has of this training, as on another kind of CPU or release of torch"


def _forecast(device_speed: float | None) -> Forecast | None:
    from robench.papers.forecast import Forecast
    from robench.reproduction.operations import operations_of

    return None if device_speed is None else Forecast(flops_per_second=device_speed, operations=operations_of)


def _print_plan(plan: Plan, forecast: Forecast | None, *, as_json: bool) -> None:
    """Print trainings and measurements by model, with the hours on one device."""
    for name, advice in plan.untrainable.items():
        say(f"{name} has no recipe and no weights. {advice}".rstrip())
    if as_json:
        out_json(_document(plan, forecast))
        return
    trained = _grouped([(each.checkpoint.entry, "", each.checkpoint.name, each.hours) for each in plan.trainings])
    rows = [[model, str(len(names)), _text(hours)] for (model, _), (names, hours) in trained.items()]
    if rows:
        rows.append(["all", str(len(plan.trainings)), _text(_total(plan.trainings))])
        _print_table(["training of", "seeds", "hours"], rows, forecast)
    else:
        out("All models have weights.")
    out("")
    measured = _grouped(
        [(each.checkpoint.entry, each.suite.name, each.checkpoint.name, each.hours) for each in plan.measurements]
    )
    conditions = {(each.checkpoint.entry, each.suite.name): len(each.suite.conditions) for each in plan.measurements}
    rows = [[*key, str(conditions[key]), str(len(names)), _text(hours)] for key, (names, hours) in measured.items()]
    rows.append(["all", "", "", str(len(plan.measurements)), _text(_total(plan.measurements))])
    _print_table(["measuring", "suite", "conditions", "seeds", "hours"], rows, forecast)
    if forecast is None:
        out("", "No hours: give the speed that your device achieves by --device-speed TFLOPS.")
    else:
        speed = f"{forecast.flops_per_second / TERA:.3g} TFLOPS"
        out(
            "", f"Hours are of one device that achieves {speed}; of attacks, at most. Audits and costs are not in them."
        )


def _print_table(header: list[str], rows: list[list[str]], forecast: Forecast | None) -> None:
    """Print a table whose last column is of hours, without it if there is no forecast."""
    stop = -1 if forecast is None else len(header)
    out_table(header[:stop], [row[:stop] for row in rows])


def _grouped(
    found: Iterable[tuple[str, str, str, Hours | None]],
) -> dict[tuple[str, str], tuple[list[str], Hours | None]]:
    """Return names and the sum of hours by the first two texts; None where an addend is unknown."""
    groups: dict[tuple[str, str], tuple[list[str], Hours | None]] = {}
    for model, suite, name, hours in found:
        names, total = groups.get((model, suite), ([], NONE))
        groups[model, suite] = [*names, name], None if total is None or hours is None else total + hours
    return groups


def _total(parts: Iterable[Training | Measuring]) -> Hours | None:
    """Return the sum of the known hours; None if there are none."""
    known = [each.hours for each in parts if each.hours is not None]
    return sum(known, NONE) if known else None


def _text(hours: Hours | None) -> str:
    return "unknown" if hours is None else str(hours)


def _document(plan: Plan, forecast: Forecast | None) -> dict[str, Any]:
    def part(each: Training | Measuring, **further: object) -> dict[str, object]:
        hours = None if each.hours is None else [each.hours.low, each.hours.high]
        return {"model": each.checkpoint.entry, "checkpoint": each.checkpoint.name, **further, "hours": hours}

    seeds = [None if each.checkpoint.training is None else each.checkpoint.training.seed for each in plan.trainings]
    conditions = [[condition.name for condition in each.suite.conditions] for each in plan.measurements]
    return {
        "tflops": None if forecast is None else forecast.flops_per_second / TERA,
        "trainings": [part(each, seed=seed) for each, seed in zip(plan.trainings, seeds, strict=True)],
        "measurements": [
            part(each, suite=each.suite.name, conditions=names)
            for each, names in zip(plan.measurements, conditions, strict=True)
        ],
        "impossible": dict(plan.untrainable),
    }
