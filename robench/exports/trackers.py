"""Rows of reports as runs of experiment trackers, MLflow and Weights & Biases, which are imported when a row is logged.

A run has the same key whenever the same measurements are logged, so that logging again updates it. Trackers take their
destination from their own environment variables; without any, nothing leaves this machine.
"""

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from robench.core.checkpoint import is_rehearsal
from robench.core.containment import Contained
from robench.core.errors import ContractError, RobenchError, UnknownNameError, UsageError, described, shortened
from robench.core.identity import key_of
from robench.core.providers import install_command
from robench.core.report import Report, Row
from robench.core.suite import Suite
from robench.reports.machine_readable import plain_cell

KEY = "robench_key"
# Of experiments and projects, where the environment names none.
DEFAULT_NAME = "robench"
PARTS = ("low", "high", "num_examples")
# Below the limits of MLflow's older servers: characters of a value and of a name, and metrics of one request.
LONGEST_VALUE, LONGEST_NAME, MOST_METRICS = 450, 200, 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracker:
    """Experiment tracker.

    Attributes:
        title: its name for messages. The name of its extra and of its module is that in ``TRACKERS``.
        forbidden: pattern of a character that names of metrics cannot have; it becomes ``_``.
        separator: text between the key of a column and a part of its cell, such as ``low``.
        unset: values of environment variables that the user leaves unset: no network connection, and few repetitions.
        write: function that logs runs, and returns where they are.
    """

    title: str
    forbidden: str
    separator: str
    unset: Mapping[str, str]
    write: Callable[[Sequence["TrackedRun"]], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedRun:
    """Row of a report as a run of one tracker.

    Attributes:
        key: 32 hexadecimal digits that identify the run: of its parameters and measurements.
        params: what was measured; the key decides them.
        metrics: numbers of the cells by names that the tracker takes, proportions in [0, 1].
        tags: what may differ when the same is measured again, such as the release of robench.
    """

    name: str
    key: str
    params: Mapping[str, str | int]
    metrics: Mapping[str, float]
    tags: Mapping[str, str]


def check_trackers(names: Iterable[str]) -> None:
    """Refuse trackers that are unknown, by an UnknownNameError, or not installed, by a UsageError; imports none."""
    for name in names:
        if name not in TRACKERS:
            raise UnknownNameError("tracker", name, TRACKERS)
        found = find_spec(name)
        # A folder without code is a package too, such as the one to which wandb writes.
        if found is None or found.origin is None:
            raise UsageError(
                f"--log-to {name} needs {TRACKERS[name].title}, which is not installed: {install_command(name)}"
            )


def runs_of(suite: Suite, report: Report, tracker: Tracker) -> list[TrackedRun]:
    """Return a run for each row that has a number; rehearsals are left out."""
    runs = (_run_of(suite, report, row, tracker) for row in report.rows if not is_rehearsal(row.model))
    return [run for run in runs if run.metrics]


def _run_of(suite: Suite, report: Report, row: Row, tracker: Tracker) -> TrackedRun:
    params: dict[str, str | int | None] = {
        "suite": report.suite,
        "suite_version": report.version,
        "model": row.model,
        "datasets": ", ".join(dict.fromkeys(each.dataset.name for each in suite.conditions)),
        "seed": report.seed,
        "batch_size": suite.largest_batch_of(suite.conditions),
        "limit": row.limit,
        "all_examples": row.all_examples or None,
        "precision": row.precision,
        "training_seeds": ", ".join(row.seeds) or None,
        "weights": row.weights,
    }
    given = {name: _short(value) for name, value in params.items() if value is not None}
    key = key_of({"params": given, "measurements": row.measurements})
    checked = [] if row.flags is None else [("flags", ", ".join(flag.name for flag in row.raised) or "none")]
    tags = {
        KEY: key,
        "robench_version": report.provenance.get("robench", "unknown"),
        "devices": report.provenance.get("devices", "unknown"),
        "notes": " ".join(row.notes) or "none",
        **dict(checked),
    }
    return TrackedRun(
        name=str(_short(f"{report.suite}/{row.title}")),
        key=key,
        params=given,
        metrics=_metrics_of(row, [column.key for column in report.columns], tracker),
        tags={name: str(_short(value)) for name, value in tags.items()},
    )


def _short(value: str | int) -> str | int:
    return shortened(value, LONGEST_VALUE) if isinstance(value, str) else value


def _metrics_of(row: Row, columns: Sequence[str], tracker: Tracker) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for column in columns:
        cell = plain_cell(row.cells[column])
        if cell["value"] is None:
            continue
        name = valid_name(column, tracker, metrics)
        for part in ("value", *PARTS):
            number = cell[part]
            if isinstance(number, int | float):
                metrics[name if part == "value" else f"{name}{tracker.separator}{part}"] = number
    return metrics


def valid_name(key: str, tracker: Tracker, taken: Iterable[str] = ()) -> str:
    """Return the name of a column's metric: its key, with other characters where the tracker takes only some.

    A name that is taken, too long or not a plain path ends in eight digits of the key's digest.

    >>> valid_name("pgd@4/255/top1_accuracy", TRACKERS["mlflow"])
    'pgd_4/255/top1_accuracy'
    """
    name = re.sub(tracker.forbidden, "_", key)
    is_plain = str(PurePosixPath(name)) == name and not name.startswith(("/", ".")) and ".." not in name
    if is_plain and len(name) <= LONGEST_NAME and name not in taken:
        return name
    digest = hashlib.sha256(key.encode("utf-8", "backslashreplace")).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9]', '_', name)[:LONGEST_NAME]}_{digest}"


def _write_mlflow(runs: Sequence[TrackedRun]) -> str:
    """Log runs to MLflow's experiment of the environment, and return where they are."""
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, RunTag

    client = MlflowClient()
    title = os.environ.get("MLFLOW_EXPERIMENT_NAME") or DEFAULT_NAME
    experiment = client.get_experiment_by_name(title)
    place = client.create_experiment(title) if experiment is None else experiment.experiment_id
    for run in runs:
        found = client.search_runs([place], f"tags.{KEY} = '{run.key}'", max_results=1)
        logged = found[0] if found else client.create_run(place, run_name=run.name, tags={KEY: run.key})
        known, now = logged.data.metrics, time.time_ns() // 1_000_000
        # An equal number would become a further point of the metric's history.
        metrics = [Metric(name, value, now, 0) for name, value in run.metrics.items() if known.get(name) != value]
        params = [Param(name, str(value)) for name, value in run.params.items()]
        tags = [RunTag(name, value) for name, value in run.tags.items()]
        try:
            for start in range(0, len(metrics), MOST_METRICS):
                client.log_batch(logged.info.run_id, metrics=metrics[start : start + MOST_METRICS])
            client.log_batch(logged.info.run_id, params=params, tags=tags)
        except KeyboardInterrupt:
            client.set_terminated(logged.info.run_id, "KILLED")
            raise
        client.set_terminated(logged.info.run_id)
    return f"experiment {title}"


def _write_wandb(runs: Sequence[TrackedRun]) -> str:
    """Log runs to Weights & Biases' project of the environment, and return where they are."""
    import wandb

    title, folder = os.environ.get("WANDB_PROJECT") or DEFAULT_NAME, Path(os.environ.get("WANDB_DIR") or Path.cwd())
    # Where it cannot write, wandb would write to a temporary folder.
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"folder {folder} cannot be written")
    settings = wandb.Settings(
        silent=True, console="off", disable_code=True, disable_git=True, x_disable_meta=True, x_disable_stats=True
    )
    for run in runs:
        with wandb.init(
            project=title,
            dir=str(folder),
            id=run.key,
            name=run.name,
            config={**run.params, **run.tags},
            allow_val_change=True,
            resume="allow",
            settings=settings,
        ) as logged:
            logged.summary.update(run.metrics)
    return f"project {title}, mode {os.environ['WANDB_MODE']}, folder {folder / 'wandb'}"


TRACKERS: Mapping[str, Tracker] = {
    "mlflow": Tracker(
        title="MLflow",
        forbidden=r"[^A-Za-z0-9_./-]",
        # A file store has a file for each metric, which cannot be the folder of others too.
        separator=".",
        write=_write_mlflow,
        unset={"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3"},
    ),
    "wandb": Tracker(
        title="Weights & Biases",
        forbidden=r"[^A-Za-z0-9_/]",
        separator="/",
        write=_write_wandb,
        unset={"WANDB_ERROR_REPORTING": "false", "WANDB_MODE": "offline"},
    ),
}


def log(runs: Sequence[TrackedRun], name: str) -> str:
    """Log runs to a tracker, or update the known ones, and return where they are.

    The tracker's output goes to stderr.

    Raises:
        RobenchError: the tracker cannot be imported, or does not take the runs.
    """
    tracker = TRACKERS[name]
    try:
        with Contained():
            os.environ.update({each: value for each, value in tracker.unset.items() if each not in os.environ})
            return tracker.write(runs)
    except Exception as error:
        # A containment replaces errors that would end the process.
        cause = error.__cause__ if isinstance(error, ContractError) and error.__cause__ else error
        # Addresses may have a user's name and password.
        reason = re.sub(r"//[^/@\s]+@", "//***@", shortened(described(cause), LONGEST_VALUE))
        raise RobenchError(f"{tracker.title} did not take the results ({reason})") from error
