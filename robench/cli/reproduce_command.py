"""``robench reproduce``: trains what papers' tables lack, measures the conditions that they need, and prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from robench.cli.options import (
    executor_options,
    format_option,
    limit_option,
    measuring_options,
    no_audit_option,
    number_option,
    option,
    registry_option,
    results_option,
)
from robench.cli.terminal import out, out_document, out_json, out_table, say
from robench.core.errors import UsageError
from robench.papers import FORMATS, existing_tables, find_published
from robench.papers.forecast import NONE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from robench.papers.forecast import Forecast, Hours
    from robench.reproduction import Measuring, Plan, Reproduction, Training

SEEDS_OF_PAPERS = 3
TERA = 1e12


@click.command("reproduce")
@click.argument("names", nargs=-1, metavar="PAPER:NUMBER...")
@option("--all", "every", is_flag=True, help="Every table of every paper.")
@option("--rows", multiple=True, metavar="LABEL|PATTERN", help="Only these rows, by label or model, such as 'RPC*'.")
@option("--columns", multiple=True, metavar="NAME|PATTERN", help="Only these columns, such as 'IN-R*'.")
@option("--twin", "of_twins", is_flag=True, help="Twins of the numbers, on small data that come with robench.")
@number_option("--seeds", f"Training seeds of each model; default: {SEEDS_OF_PAPERS}, of twins the registry's.")
@number_option("--jobs", "Train N models side by side.", default=1, show_default=True)
@limit_option
@results_option
@registry_option
@measuring_options
@executor_options
@no_audit_option
@option("--dry-run", is_flag=True, help="List trainings and measurements with their hours, without data or weights.")
@option(
    "--device-speed",
    type=float,
    metavar="TFLOPS",
    help="Speed that a device achieves, for the hours of --dry-run; default: that of this machine, if calibrated.",
)
@format_option(sorted(FORMATS), "tables")
def command(
    names: tuple[str, ...],
    every: bool,
    seeds: int | None,
    jobs: int,
    dry_run: bool,
    device_speed: float | None,
    format_name: str,
    limit: int | None,
    no_audit: bool,
    results: Path,
    # Further options have the names and types of the fields of ``Reproduction``, or of requests.
    **settings: Any,
) -> int:
    """Train what the models of papers' tables lack, measure what the numbers need and no more, and print the tables.

    New weights are in the folder weights of --results, and declared in its reproduced.yaml. Nothing that exists is
    overwritten; the same command goes on after an interruption. Costs are measured by 'robench cost'.
    """
    from robench.reproduction import Reproduction

    if every == bool(names):
        found = "both" if names else "neither"
        raise UsageError(f"name tables, such as rpc:1, or give --all, got {found}; there are {existing_tables()}")
    if device_speed is not None and (not dry_run or not 0 < device_speed < float("inf")):
        wrong = f"must be a number of TFLOPS above 0, got {device_speed:g}" if dry_run else "is for --dry-run; add it"
        raise UsageError(f"--device-speed {wrong}")
    of_twins = settings["of_twins"]
    chosen = {name: settings.pop(name) for name in ("rows", "columns", "registries", "of_twins")}
    reproduction = Reproduction(
        tables=find_published(names),
        results=results,
        num_seeds=SEEDS_OF_PAPERS if seeds is None and not of_twins else seeds,
        limit=limit,
        **chosen,
    )
    if dry_run:
        forecast = _forecast(device_speed, settings["device"])
        _print_plan(reproduction.plan(forecast), forecast, as_json=format_name == "json")
        return 0
    return _carry_out(reproduction, jobs, format_name, settings | {"audit": not no_audit})


def _carry_out(reproduction: Reproduction, num_jobs: int, format_name: str, settings: Mapping[str, Any]) -> int:
    from robench.cli.progress import fill_with_progress
    from robench.runs import prepare, rounds
    from robench.store import FolderStore

    store = FolderStore(reproduction.results)
    store.check_writable()
    reproduction.reproduced.refresh()
    plan = reproduction.plan()
    reproduction.check(plan, settings["data_root"])
    if plan.trainings and (code := _train(reproduction, plan, num_jobs, settings)):
        return code
    num_failed = 0
    requests = reproduction.requests(reproduction.plan(), **settings)
    for number, request in enumerate(requests, 1):
        models = ", ".join(each.name for each in request.checkpoints)
        say(
            f"measurement {number} of {len(requests)}: {models} under {', '.join(each.name for each in request.suites)}"
        )
        prepared = prepare(request)
        for _ in rounds(store):
            stopped_with, progress = fill_with_progress(prepared, store)
            if stopped_with:
                return stopped_with
        num_failed += progress.num_failed
    if num_failed:
        say(f"{num_failed} shards failed; the same command tries them again.")
    _print_tables(reproduction, store, format_name)
    return 1 if num_failed else 0


def _train(reproduction: Reproduction, plan: Plan, num_jobs: int, settings: Mapping[str, Any]) -> int:
    """Train what is missing; return 1 if a training failed, since tables then lack numbers."""
    from robench.cli.progress import queue_shown
    from robench.cli.train_command import noted_state
    from robench.executors import IN_PROCESS
    from robench.runs.devices import choose_workers
    from robench.runs.training_queue import run_queue
    from robench.training.base import Host

    found = choose_workers(settings["device"], 1, IN_PROCESS)
    host = Host(data_root=settings["data_root"], device=found.devices[0], decode_workers=found.decode_workers)
    by_name: dict[str, Training] = {each.checkpoint.name: each for each in plan.trainings}
    num_failed = 0
    for goes_first in (True, False):
        jobs = [reproduction.job(each, host) for each in plan.trainings if each.goes_first is goes_first]
        with noted_state(jobs), queue_shown() as shown:
            for job, ended in run_queue(jobs, num_jobs, shown):
                if ended.error:
                    num_failed += 1
                    say(f"failed: training {job.checkpoint.name}: {ended.error}")
                    continue
                digest = reproduction.keep(job, ended.content)
                say(f"trained {job.checkpoint.name}{_compared(digest, by_name[job.checkpoint.name].known_sha256)}")
        if num_failed:
            say(f"{num_failed} trainings failed; nothing was measured. The same command trains them again.")
            return 1
    return 0


def _compared(digest: str, known: str | None) -> str:
    """Return how weights compare with those of the same training in the registry."""
    if known is None:
        return ""
    if digest.startswith(known):
        return ": the weights of the registry, to the bit"
    return ": other weights than the registry has of this training, as on another kind of CPU or release of torch"


def _print_tables(reproduction: Reproduction, store: Any, format_name: str) -> None:
    from robench.costs.stored import stored_costs
    from robench.papers import measured_of_tables, tables_of

    registries = reproduction.all_registries
    measured = measured_of_tables(reproduction.tables, store, registries)
    costs = stored_costs(reproduction.results)
    for table in tables_of(reproduction.tables, measured, store, registries, costs):
        out_document(FORMATS[format_name](table))


def _forecast(device_speed: float | None, device: str) -> Forecast | None:
    from robench.papers.forecast import Forecast
    from robench.reproduction.operations import operations_of
    from robench.runs.calibration import speed_of

    speed = speed_of(device) if device_speed is None else device_speed * TERA
    return None if speed is None else Forecast(flops_per_second=speed, operations=operations_of)


def _print_plan(plan: Plan, forecast: Forecast | None, *, as_json: bool) -> None:
    """Print what is to be trained and measured, by model, with the hours on one device."""
    for name, advice in plan.untrainable.items():
        say(f"{name} has no recipe and no weights. {advice}".rstrip())
    if as_json:
        out_json(_document(plan, forecast))
        return
    trained = _grouped([(each.checkpoint.entry, "", each.checkpoint.name, each.hours) for each in plan.trainings])
    rows = [[model, str(len(names)), _text(hours)] for (model, _), (names, hours) in trained.items()]
    rows.append(["all", str(len(plan.trainings)), _text(_total(plan.trainings))])
    _print_table(["training of", "seeds", "hours"], rows, forecast)
    out("")
    measured = _grouped(
        [(each.checkpoint.entry, each.suite.name, each.checkpoint.name, each.hours) for each in plan.measurements]
    )
    conditions = {(each.checkpoint.entry, each.suite.name): len(each.suite.conditions) for each in plan.measurements}
    rows = [[*key, str(conditions[key]), str(len(names)), _text(hours)] for key, (names, hours) in measured.items()]
    rows.append(["all", "", "", str(len(plan.measurements)), _text(_total(plan.measurements))])
    _print_table(["measuring", "suite", "conditions", "seeds", "hours"], rows, forecast)
    if forecast is None:
        out(
            "", "No hours: this device is not calibrated ('robench doctor --calibrate'); or give --device-speed TFLOPS."
        )
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
    """Return the sum of what is known; None where nothing is."""
    known = [each.hours for each in parts if each.hours is not None]
    return sum(known, NONE) if known else None


def _text(hours: Hours | None) -> str:
    return "unknown" if hours is None else str(hours)


def _document(plan: Plan, forecast: Forecast | None) -> dict[str, Any]:
    def bounds(hours: Hours | None) -> list[float] | None:
        return None if hours is None else [hours.low, hours.high]

    return {
        "tflops": None if forecast is None else forecast.flops_per_second / TERA,
        "trainings": [
            {
                "model": each.checkpoint.entry,
                "checkpoint": each.checkpoint.name,
                "seed": None if each.checkpoint.training is None else each.checkpoint.training.seed,
                "hours": bounds(each.hours),
            }
            for each in plan.trainings
        ],
        "measurements": [
            {
                "model": each.checkpoint.entry,
                "checkpoint": each.checkpoint.name,
                "suite": each.suite.name,
                "conditions": [condition.name for condition in each.suite.conditions],
                "hours": bounds(each.hours),
            }
            for each in plan.measurements
        ],
        "impossible": dict(plan.untrainable),
    }
