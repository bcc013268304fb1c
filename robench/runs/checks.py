"""Preflight checks of a run: of every model on its data, and of the libraries that it shares a process with.

A check in a separate process names a model that hangs or crashes.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from torch import nn

from robench.core.checkpoint import Checkpoint
from robench.core.containment import attributed_to
from robench.core.declared import DatasetDeclaration
from robench.core.errors import DeclarationError, MissingDataError, RobenchError, UsageError, WeightsError
from robench.core.library_watch import LibraryWatch, replacement_problem
from robench.core.suite import Condition
from robench.datasets import open_dataset
from robench.executors import DEFAULT_LIMIT_SECONDS, Death, answers_in_a_process
from robench.models.in_memory_impl import model_of
from robench.models.loaded import LoadedModel
from robench.models.loading import load_model
from robench.runs.devices import Workers
from robench.runs.finding import Found
from robench.runs.fit import check_fit, check_shapes, runs_foreign_code
from robench.runs.reading import check_reading
from robench.runs.request import RunRequest

# Further ones are loaded again, so that memory holds few models.
MOST_LOADED = 2
_PATCHING_ADVICE = (
    "use functions of your own, or measure with --executor processes and write `patches: true` into the registry entry "
    "of a model that must replace torch's or numpy's"
)
# Errors with special exit codes, and the one that represents all others.
_ERRORS: tuple[type[RobenchError], ...] = (WeightsError, MissingDataError, DeclarationError, UsageError, RobenchError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Data and weights of a run, whose models fit.

    Attributes:
        seconds_per_example: seconds of a forward and a backward pass of an example, by model, where they were timed.
        loaded: the first models of robench's own architectures on the CPU, each with the digest of its weights.
    """

    found: Found
    seconds_per_example: dict[str, float] = field(default_factory=dict)
    loaded: dict[str, tuple[str, LoadedModel]] = field(default_factory=dict, repr=False)


def check(found: Found) -> Checked:
    """Refuse a run in which a model does not fit its data, or libraries do not compute what they should.

    Raises:
        RobenchError: see ``check_fit``, ``check_shapes`` and ``check_reading``; or a model cannot be loaded, crashed,
            hung, or replaces functions of libraries.
    """
    request, workers = found.request, found.workers
    for preprocessing in dict.fromkeys(each.preprocessing for each in request.checkpoints):
        check_shapes(request.conditions, found.datasets_of(preprocessing), request.keep_adversarial)
    elsewhere = [each for each in request.checkpoints if _checks_in_subprocess(each, request, workers)]
    checked = Checked(found=found)
    for checkpoint in (each for each in request.checkpoints if each not in elsewhere):
        digest = found.digest_of(checkpoint)
        planned = replace(checkpoint, weights=replace(checkpoint.weights, sha256=digest))
        model = _loaded(planned, request.modules.get(checkpoint.name))
        shown = found.datasets_of(checkpoint.preprocessing)
        check_reading(checkpoint, shown, model, request.limit)
        seconds = check_fit(checkpoint, shown, model, request.conditions)
        found.watch.look(f"model {checkpoint.name!r}")
        if seconds is not None:
            checked.seconds_per_example[checkpoint.name] = seconds
        if not checkpoint.architecture.runs_user_code and len(checked.loaded) < MOST_LOADED:
            checked.loaded[checkpoint.name] = digest, model
    if workers.in_process:
        _check_libraries(request, found.watch)
    _check_fit_in_subprocess(elsewhere, request)
    return checked


def _loaded(checkpoint: Checkpoint, module: nn.Module | None = None) -> LoadedModel:
    """Return a model on the CPU; ``module`` is that of a checkpoint in memory, None loads the checkpoint's weights.

    Raises:
        RobenchError: it cannot be loaded; the message names the model and what its code did.
    """
    with attributed_to(f"model {checkpoint.name!r} cannot be loaded"):
        return load_model(checkpoint) if module is None else model_of(checkpoint, module)


def _checks_in_subprocess(checkpoint: Checkpoint, request: RunRequest, workers: Workers) -> bool:
    """Return whether a model is checked in a separate process.

    With worker processes these are models with third-party code, and with ``shard_timeout`` all models.
    """
    return not workers.in_process and (runs_foreign_code(checkpoint) or request.shard_timeout is not None)


def _check_libraries(request: RunRequest, watch: LibraryWatch) -> None:
    """Refuse a run in this process, in which functions of libraries are replaced or may be.

    Raises:
        UsageError: the message names the functions, whose code replaced them, and what to do.
    """
    patching = [each.name for each in request.checkpoints if each.patches]
    if patching and len(request.checkpoints) > 1:
        raise UsageError(
            f"model {patching[0]!r} may replace functions of libraries (patches: true), and would share this process "
            "with other models: measure it alone, or with --executor processes"
        )
    if problem := replacement_problem(watch.replaced, patches=bool(patching)):
        raise UsageError(f"{problem}; {_PATCHING_ADVICE}")


def _check_fit_in_subprocess(checkpoints: Sequence[Checkpoint], request: RunRequest) -> None:
    """Check models as ``check_fit`` does, in a separate process and each within the time limit of a shard.

    Raises:
        UsageError: see ``check_fit``, or a model crashed, hung or ended the process.
        RobenchError: see ``check_fit``.
    """
    if not checkpoints:
        return
    limit = DEFAULT_LIMIT_SECONDS if request.shard_timeout is None else request.shard_timeout
    answers = answers_in_a_process(
        partial(_refusal, request.datasets, request.conditions, request.data_root, request.limit),
        checkpoints,
        limit,
        is_foreign=runs_foreign_code,
    )
    # Closed at once if a model is refused, which ends the process.
    with closing(answers):
        for checkpoint, found in zip(checkpoints, answers, strict=True):
            if isinstance(found, tuple):
                kind, message = found
                raise kind(message)
            if isinstance(found, Death):
                names = ", ".join(each.name for each in request.datasets)
                raise UsageError(
                    f"model {checkpoint.name!r} cannot be checked on {names}: the process that checks "
                    f"it {found.what}; {found.advice}"
                )


def _refusal(
    datasets: Sequence[DatasetDeclaration],
    conditions: Sequence[Condition],
    data_root: Path | None,
    limit: int | None,
    checkpoint: Checkpoint,
) -> tuple[type[RobenchError], str] | str:
    """Return class and message of the error that refuses a model, or that it fits; called in another process."""
    preprocessing = checkpoint.preprocessing
    try:
        opened = {each: open_dataset(each, data_root=data_root, preprocessing=preprocessing) for each in datasets}
        watch = LibraryWatch()
        model = _loaded(checkpoint)
        check_reading(checkpoint, opened, model, limit)
        check_fit(checkpoint, opened, model, conditions)
        watch.look(f"model {checkpoint.name!r}")
        if problem := replacement_problem(watch.replaced, patches=checkpoint.patches):
            raise UsageError(f"{problem}; {_PATCHING_ADVICE}")
    except RobenchError as error:
        return next(kind for kind in _ERRORS if isinstance(error, kind)), str(error)
    return "fits"
