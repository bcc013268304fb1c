"""Preflight checks in a separate process, so that a model that hangs or crashes is named."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from robench.core.errors import DeclarationError, MissingDataError, RobenchError, UsageError, WeightsError
from robench.core.providers import foreign_in
from robench.datasets import open_dataset
from robench.executors import DEFAULT_LIMIT_SECONDS, Death, answers_in_a_process
from robench.runs.fit import check_fit, loaded_for_checks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from robench.core.checkpoint import Checkpoint
    from robench.core.declared import DatasetDeclaration
    from robench.runs.devices import Workers
    from robench.runs.request import RunRequest

# Errors with special exit codes, and the one that represents all others.
_ERRORS: tuple[type[RobenchError], ...] = (WeightsError, MissingDataError, DeclarationError, UsageError, RobenchError)


def checks_apart(checkpoint: Checkpoint, request: RunRequest, workers: Workers) -> bool:
    """Return whether a model is checked in a separate process.

    With worker processes these are models with third-party code, and with ``shard_timeout`` all models.
    """
    architecture = checkpoint.architecture
    is_users = architecture.runs_user_code or foreign_in(architecture) is not None
    return not workers.in_process and (is_users or request.shard_timeout is not None)


def check_fit_apart(
    checkpoints: Sequence[Checkpoint], datasets: Sequence[DatasetDeclaration], request: RunRequest
) -> None:
    """Check models as ``check_fit`` does, in a separate process and each within the time limit of a shard.

    Raises:
        UsageError: see ``check_fit``, or a model crashed, hung or ended the process.
        RobenchError: see ``check_fit``.
    """
    if not checkpoints:
        return
    limit = DEFAULT_LIMIT_SECONDS if request.shard_timeout is None else request.shard_timeout
    answers = answers_in_a_process(_Check(tuple(datasets), request.data_root), checkpoints, limit)
    # Closed at once if a model is refused, which ends the process.
    with closing(answers):
        for checkpoint, found in zip(checkpoints, answers, strict=True):
            if isinstance(found, _Refusal):
                raise found.kind(found.message)
            if isinstance(found, Death):
                names = ", ".join(each.name for each in datasets)
                raise UsageError(
                    f"model {checkpoint.name!r} cannot be checked on {names}: the process that checks "
                    f"it {found.what}; {found.advice}"
                )


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Error in a form that can be sent between processes."""

    kind: type[RobenchError]
    message: str


@dataclass(frozen=True, slots=True)
class _Check:
    """Preflight check that can be sent to another process."""

    datasets: tuple[DatasetDeclaration, ...]
    data_root: Path | None

    def __call__(self, checkpoint: Checkpoint) -> _Refusal | str:
        """Return the reason for refusing the model, or that it fits."""
        try:
            check_fit(
                checkpoint,
                {
                    declared: open_dataset(declared, data_root=self.data_root, preprocessing=checkpoint.preprocessing)
                    for declared in self.datasets
                },
                loaded_for_checks(checkpoint),
            )
        except RobenchError as error:
            return _Refusal(next(kind for kind in _ERRORS if isinstance(error, kind)), str(error))
        return "fits"
