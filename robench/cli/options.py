"""Options common to several commands, each with its environment variable, and the executor that some choose."""

from __future__ import annotations

import dataclasses
import os
import re
from functools import partial, wraps
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from robench.cli.names import complete_conditions, complete_datasets, complete_models, complete_suites
from robench.core.errors import UsageError
from robench.core.files import absolute, is_file_name
from robench.core.shard import EXACT_DTYPE, Precision

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from robench.executors import ExecutorBase

Command = TypeVar("Command", bound="Callable[..., Any]")
EXECUTOR_OPTION = "--executor-option"
# A mistyped range must not start thousands of trainings.
MOST_SEEDS = 1000


class AbsolutePath(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click alone
    """Parameter type of paths, made absolute at once since a model may change the current folder; ``~`` is expanded."""

    name = "path"
    # Several in one variable are separated as in PATH.
    envvar_list_splitter = os.path.pathsep

    def convert(self, value: str | Path, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path, or refuse it if it is empty or uses an unknown user's home."""
        try:
            return absolute(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)


def _suite(value: str) -> str:
    """Return the name of a shipped suite as it is, and the path of a file made absolute."""
    return value if value and not is_file_name(value) else str(AbsolutePath().convert(value, None, None))


def _part(value: str) -> tuple[int, int]:
    """Return number and count of a part such as ``2/8``; their order is checked with the run."""
    found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", value)
    if found is None:
        raise click.BadParameter(f"{value!r} is not a part of a run; write 2/8 for the second of eight parts")
    return int(found[1]), int(found[2])


def seed_numbers(value: str) -> tuple[int, ...]:
    """Return seeds written as ``3``, ``0-4`` or ``0-2,7``: each once, in order."""
    seeds: list[int] = []
    for part in value.split(","):
        found = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part.strip())
        if found is None:
            raise click.BadParameter(f"{value!r} is not a list of seeds; write 0-4 or 0,3,7")
        first, last = int(found[1]), int(found[2] or found[1])
        if not first <= last < first + MOST_SEEDS:
            raise click.BadParameter(f"{part.strip()!r} must be 1 to {MOST_SEEDS} seeds, the smallest first")
        seeds.extend(range(first, last + 1))
    return tuple(dict.fromkeys(seeds))


def added(command: Command, options: Iterable[Callable[[Any], Any]]) -> Command:
    """Add options to a command, in the order of its help."""
    for each in reversed(list(options)):
        command = each(command)
    return command


def gathered(
    name: str, values_type: Callable[..., Any], options: Iterable[Callable[[Any], Any]]
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add options to a command, which takes their values together as ``name``, of a type of dataclass."""

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        @wraps(command)
        def with_values(**values: Any) -> int:
            names = [field.name for field in dataclasses.fields(values_type) if field.name in values]  # type: ignore[arg-type]
            return command(**{name: values_type(**{each: values.pop(each) for each in names})}, **values)

        return added(with_values, options)

    return decorate


def option(*names: str, **settings: Any) -> Callable[[Command], Command]:
    """Return a click option whose environment variable is ROBENCH_ and its long name, shown in help."""
    long_name = next(name for name in names if name.startswith("--")).removeprefix("--").split("/")[0]
    settings.setdefault("envvar", f"ROBENCH_{long_name.replace('-', '_').upper()}")
    return click.option(*names, show_envvar=True, **settings)


def path_option(name: str, metavar: str, text: str, **settings: Any) -> Callable[[Command], Command]:
    """Return the option of a file or folder, with the text of its help."""
    return option(name, type=AbsolutePath(), metavar=metavar, help=text, **settings)


def number_option(name: str, text: str, *, least: int = 1, **settings: Any) -> Callable[[Command], Command]:
    """Return the option of a whole number from ``least``, with the text of its help."""
    return option(name, type=click.IntRange(min=least), metavar="N", help=text, **settings)


def conditions_option(text: str, *, required: bool = False) -> Callable[[Command], Command]:
    """Return the repeatable option ``--condition``."""
    settings: dict[str, Any] = {"metavar": "NAME", "shell_complete": complete_conditions, "help": text}
    return option("--condition", "conditions", multiple=True, required=required, **settings)


def format_option(formats: Iterable[str], noun: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return ``--format`` of what a command prints, and ``--json`` for short; both give ``format_name``."""

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        @wraps(command)
        def with_format(*, format_name: str, as_json: bool, **values: Any) -> int:
            return command(format_name="json" if as_json else format_name, **values)

        shown: dict[str, Any] = {"default": "text", "show_default": True, "help": f"Format of the {noun}."}
        with_name = option("--format", "format_name", type=click.Choice(list(formats)), **shown)
        with_json = option("--json", "as_json", is_flag=True, help="Short for --format json.")
        return added(with_format, (with_name, with_json))

    return decorate


_SUITE: dict[str, Any] = {
    "type": _suite,
    "metavar": "NAME|FILE",
    "shell_complete": complete_suites,
    "help": "A shipped suite or a YAML file.",
}


def suite_option(*, required: bool) -> Callable[[Command], Command]:
    """Return the repeatable option ``--suite``."""
    return option("--suite", "suites", multiple=True, required=required, **_SUITE)


def one_model_option(text: str) -> Callable[[Command], Command]:
    """Return the option ``--model`` of commands about a single model."""
    return option("--model", required=True, metavar="NAME", shell_complete=complete_models, help=text)


def model_option(*, required: bool) -> Callable[[Command], Command]:
    """Return the repeatable option ``--model``."""
    return option(
        "--model",
        "models",
        multiple=True,
        required=required,
        metavar="NAME|PATTERN",
        shell_complete=complete_models,
        help="A model of the registry, or all that a pattern such as 'digits-*' matches.",
    )


one_suite_option = option(
    "--suite", "suites", required=True, callback=lambda context, parameter, name: (name,) if name else (), **_SUITE
)
dataset_option = option(
    "--dataset",
    metavar="NAME",
    shell_complete=complete_datasets,
    help="Dataset for a suite that names none, such as pgd-standard.",
)


def _search_weights_in(context: click.Context, parameter: click.Parameter, folder: Path | None) -> None:
    """Have this process and its subprocesses look for missing weights in a folder."""
    if folder is not None:
        os.environ[parameter.envvar] = str(folder)  # type: ignore[index]  # one name, of this module's options


_checkpoints_option = path_option(
    "--checkpoints",
    "DIR",
    "Folder searched for weights that are not where their registry has them, such as checkpoints of a clone.",
    expose_value=False,
    callback=_search_weights_in,
)
_registries_option = option(
    "--registry",
    "registries",
    multiple=True,
    type=AbsolutePath(),
    metavar="FILE",
    help="Registry file with your own checkpoints and datasets.",
)


def registry_option(command: Command) -> Command:
    """Add the repeatable option ``--registry``, and ``--checkpoints`` for weights that a registry's folder lacks."""
    return _registries_option(_checkpoints_option(command))


results_option = path_option(
    "--results", "DIR", "Folder in which every outcome is stored.", default="results", show_default=True
)
device_option = option("--device", default="auto", show_default=True, help="auto, cpu, cuda (every GPU) or cuda:N.")
workers_option = number_option("--workers", "Worker processes; default: one per GPU, or per core.")
shard_timeout_option = option(
    "--shard-timeout",
    type=float,
    metavar="SECONDS",
    help="Time limit of a shard in a worker process before it is retried; default: a day.",
)
limit_option = option(
    "--limit",
    "--examples",
    "limit",
    type=click.IntRange(min=1),
    metavar="N",
    help="Only the first N examples, a fair sample; 1000 and 5000 are usual.",
)
only_option = option(
    "--condition",
    "only",
    multiple=True,
    metavar="NAME|PATTERN",
    shell_complete=complete_conditions,
    help="Only these conditions, such as 'pgd*', or all but those of '!snow*', and the columns that read no others.",
)
all_examples_option = option(
    "--all-examples",
    is_flag=True,
    help="All examples of each dataset, instead of the suite's num_examples; with --limit the first N of them.",
)
seed_option = number_option("--seed", "Root of all randomness; replaces the suite's.", least=0)
precision_option = option(
    "--precision",
    type=click.Choice(get_args(Precision)),
    default=EXACT_DTYPE,
    show_default=True,
    help="Number format of the models' passes, which torch.compile compiles with -compiled.",
)


part_option = partial(option, "--part", type=_part, metavar="I/N")


def _flops_per_second(context: click.Context, parameter: click.Parameter, tflops: float | None) -> float | None:
    """Return floating-point operations a second. Raises UsageError: the number of TFLOPS is not above 0."""
    if tflops is None:
        return None
    from robench.papers.forecast import TERA

    if not 0 < tflops < inf:
        raise UsageError(f"--device-speed must be a number of TFLOPS above 0, got {tflops:g}")
    return tflops * TERA


device_speed_option = option(
    "--device-speed",
    type=float,
    metavar="TFLOPS",
    callback=_flops_per_second,
    help="Hours are those of a device that achieves this speed in forward passes.",
)
all_seeds_option = option(
    "--all-seeds", is_flag=True, help="All training seeds of each model; a row is then their mean with a t interval."
)
data_root_option = path_option(
    "--data-root",
    "DIR",
    "Folder of datasets that are not embedded, such as DIR/imagenet-1k/val/n01440764/*.JPEG.",
    envvar="ROBENCH_DATA",
)
keep_adversarial_option = option(
    "--keep-adversarial",
    type=click.Choice(["float32", "float16", "uint8"]),
    help="Store adversarial examples: exactly, or rounded toward the clean image before scoring (uint8: to 8 bits).",
)


def checked_trackers(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return trackers, each once; refuse unknown and missing ones before anything is measured."""
    if names:
        # Imported here, so that help is fast.
        from robench.exports.trackers import check_trackers

        check_trackers(names)
    return tuple(dict.fromkeys(names))


log_to_option = option(
    "--log-to",
    "log_to",
    multiple=True,
    metavar="TRACKER",
    help="Log the rows of the tables to mlflow or wandb too, where the tracker's own environment variables say.",
)
json_option = option("--json", "as_json", is_flag=True, help="Print JSON and nothing else on stdout.")


def audit_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of audits, which give a request's ``audit``."""

    @wraps(command)
    def with_audit(*, audit: str, no_audit: bool, **values: Any) -> int:
        return command(audit={"quarter": True, "none": False}.get("none" if no_audit else audit, audit), **values)

    text = (
        "Audit of every model before attacks: on as many of 32 examples as take at most a quarter of the passes of the"
        " suite's attacks, on all of them, or none."
    )
    sizes: dict[str, Any] = {"type": click.Choice(["quarter", "full", "none"]), "default": "quarter"}
    size = option("--audit", show_default=True, help=text, **sizes)
    return added(with_audit, (size, option("--no-audit", is_flag=True, help="Short for --audit none.")))


def measuring_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options that say where models and data are, and how long a shard may take."""
    return added(command, (device_option, workers_option, shard_timeout_option, data_root_option))


_EXECUTOR_OPTIONS = (
    option(
        "--executor",
        default="auto",
        show_default=True,
        metavar="KIND",
        help="Where shards are measured: serial (this process), processes (workers here), ray (a cluster) or another.",
    ),
    option(
        EXECUTOR_OPTION,
        "executor_options",
        multiple=True,
        metavar="NAME=VALUE",
        help="A field of the executor, such as cpus_per_worker=2; 'robench show KIND' lists them.",
    ),
    option(
        "--ray-address",
        metavar="ADDRESS",
        help="Cluster of --executor ray: auto, HOST:PORT or ray://HOST:PORT; default: Ray is started on this machine.",
    ),
)


def executor_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of the executor, which the command takes as ``executor``; see ``chosen_executor``."""

    @wraps(command)
    def with_executor(
        *, executor: str, executor_options: tuple[str, ...], ray_address: str | None, **values: Any
    ) -> int:
        chosen = chosen_executor(executor, executor_options, ray_address=ray_address)
        return command(executor=chosen, **values)

    return added(with_executor, _EXECUTOR_OPTIONS)


def chosen_executor(kind: str, assignments: Sequence[str], **fields: str | None) -> str | ExecutorBase:
    """Return an executor: its kind alone, or where fields are given its declaration with them.

    ``assignments`` are values of ``--executor-option``, such as ``gpus_per_worker=0.5``; ``fields`` are values of
    options for a single field, such as ``ray_address``, None if not given.

    Raises:
        UsageError, UnknownNameError: fields are given without an executor, for one of another kind, or wrongly.
    """
    given = [(*name.split("_"), value) for name, value in fields.items() if value is not None]
    if not given and not assignments:
        return kind
    from robench.declare import assigned
    from robench.runs.devices import AUTO, executor_kind

    for wanted, field, _ in given:
        if kind != wanted:
            raise UsageError(
                f"--{wanted}-{field} is an option of --executor {wanted}, but --executor is {kind}; add "
                f"--executor {wanted}, or leave it out"
            )
    declared = executor_kind(kind)
    if declared is None:
        raise UsageError(
            f"{EXECUTOR_OPTION} sets fields of an executor, but --executor is {AUTO}; add --executor with its kind, "
            "which 'robench list executors' lists"
        )
    shorthands = [f"{field}={value}" for _, field, value in given]
    return assigned(declared, [*shorthands, *assignments], EXECUTOR_OPTION, "executor")
