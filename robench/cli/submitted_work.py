"""Commands of the jobs of ``robench submit``, for suites and models or for papers' tables, checked in advance."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from robench.cli.names import models_of_registry
from robench.cli.paper_tables import ChosenTables
from robench.cli.reproduce_command import reproduction_of
from robench.cli.selection import Selection
from robench.core.errors import UsageError
from robench.core.shard import EXACT_DTYPE

Words = tuple[str, ...]
# Names of options that both kinds of work take and the jobs pass on, and of the options of one kind alone.
COMMON = ("data_root", "audit", "device", "workers", "shard_timeout")
OF_TABLES = ("rows", "columns", "of_twins", "seeds")
REQUIRED = ("suites", "models")
OF_MODELS = (
    *REQUIRED,
    *("dataset", "only", "all_examples", "seed", "precision", "all_seeds", "keep_adversarial", "tables"),
)
_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")


def check_options(context: click.Context, names: tuple[str, ...], *, of_tables: bool) -> None:
    """Refuse options of the other kind of work, and missing ones.

    Raises:
        UsageError: an option is of the other kind of work.
        click.MissingParameter: neither tables nor suites and models are named.
    """
    given = [parameter.opts[0] for parameter in _given(context, OF_MODELS if of_tables else OF_TABLES)]
    be, it = ("is", "it") if len(given) == 1 else ("are", "them")
    options = " and ".join(filter(None, [", ".join(given[:-1]), *given[-1:]]))
    if given and of_tables:
        found = ", ".join(names) or "--all"
        raise UsageError(f"{options} {be} for suites and models, and not for papers' tables ({found}); leave {it} out")
    if given:
        raise UsageError(f"{options} {be} for papers' tables; name one, such as rpc:1, or leave {it} out")
    for parameter in context.command.params:
        if not of_tables and parameter.name in REQUIRED and not context.params[parameter.name]:
            raise click.MissingParameter(ctx=context, param=parameter)


def _given(context: click.Context, names: tuple[str, ...]) -> Iterator[click.Parameter]:
    for parameter in context.command.params:
        name = parameter.name
        if name in names and context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            yield parameter


def work_of_models(
    selection: Selection, common: Mapping[str, Any], keep_adversarial: str | None, tables: tuple[Path, ...]
) -> dict[str, Any]:
    """Return the fields of ``SlurmJobs`` for jobs that measure models, print the report and write leaderboards.

    Raises:
        RobenchError: ``robench run`` would refuse the options.
    """
    _check_device(common["device"])
    if tables and selection.precision != EXACT_DTYPE:
        raise UsageError(
            f"--tables writes leaderboards, which read {EXACT_DTYPE} alone, but --precision is {selection.precision}; "
            "leave --tables out, the log of the second job has the table"
        )
    # Refuses now what would otherwise be refused on a node, hours later.
    selection.request(**_checked(common), keep_adversarial=keep_adversarial)
    what = _words(
        suite=selection.suites,
        model=tuple(models_of_registry(selection.models, selection.registries)),
        registry=selection.registries,
        dataset=selection.dataset,
        condition=selection.only,
        limit=selection.limit,
        seed=selection.seed,
        all_examples=selection.all_examples,
        precision=None if selection.precision == EXACT_DTYPE else selection.precision,
        all_seeds=selection.all_seeds,
        results=selection.results,
    )
    files = [("leaderboard", "--format", _format(path), "--output", str(path)) for path in tables]
    work = _command("run", take_over=True, keep_adversarial=keep_adversarial, **common)
    return {"what": what, "work": work, "tables": (("report",), *files)}


def work_of_tables(chosen: ChosenTables, seeds: int | None, common: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of ``SlurmJobs`` for jobs that reproduce papers' tables and print them.

    Raises:
        RobenchError: ``robench reproduce`` would refuse the options before it looks for data.
    """
    _check_device(common["device"])
    reproduction = reproduction_of(chosen, seeds)
    plan = reproduction.plan()
    plan.check()
    # As if everything were trained.
    reproduction.requests(replace(plan, trainings=()), **_checked(common))
    what = _words(
        all=chosen.every,
        rows=chosen.rows,
        columns=chosen.columns,
        twin=chosen.of_twins,
        registry=chosen.registries,
        limit=chosen.limit,
        results=chosen.results,
    )
    names = tuple((name,) for name in chosen.names)
    # One training at a time, since the variable of the jobs' number is also that of --jobs of this command.
    work = _command("reproduce", seeds=seeds, jobs=1, **common)
    return {"what": (*names, *what), "work": work, "tables": (("table",),)}


def _check_device(device: str) -> None:
    if not _DEVICE.fullmatch(device):
        raise UsageError(f"--device must be auto, cpu, cuda or cuda:N, got {device!r}")


def _checked(common: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request that are the same on each machine."""
    return {name: common[name] for name in ("workers", "shard_timeout")}


def _command(name: str, *, device: str, audit: bool | str, **options: object) -> Words:
    size = audit if isinstance(audit, str) else None
    words = _words(**options, no_audit=not audit, audit=size, device=None if device == "auto" else device)
    return (name, *(word for each in words for word in each))


def _words(**options: object) -> tuple[Words, ...]:
    """Return options as given on a command line, each with its value; None and False are left out."""
    found: list[Words] = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            found.append((flag,))
        elif value is not None and value is not False:
            found += [(flag, str(each)) for each in (value if isinstance(value, tuple) else (value,))]
    return tuple(found)


def _format(path: Path) -> str:
    from robench.leaderboard import SUFFIXES

    for name, suffix in SUFFIXES.items():
        if suffix == path.suffix:
            return name
    raise UsageError(f"--tables must name a file ending in {', '.join(SUFFIXES.values())}, got {path.name!r}")
