"""Choice of an executor on the command line: its kind, and the fields of its declaration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robench.executors import ExecutorBase

OPTION = "--executor-option"


def chosen_executor(kind: str, assignments: Sequence[str], **fields: str | None) -> str | ExecutorBase:
    """Return an executor: its kind alone, or where fields are given its declaration with them.

    Args:
        kind: what ``--executor`` says.
        assignments: values of ``--executor-option``, such as ``gpus_per_worker=0.5``.
        fields: values of options for a single field, named after kind and field, such as ``ray_address``; None for
            those that were not given.

    Raises:
        UsageError: fields are given without an executor, for one of another kind, or wrongly.
        UnknownNameError: there is no executor of that kind.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    if not given and not assignments:
        return kind
    # Imported here, so that help imports no executor.
    from robench.declare import assigned
    from robench.runs.devices import AUTO, executor_kind

    of_kinds = {name.partition("_")[0]: name for name in given}
    for wanted, name in of_kinds.items():
        if kind != wanted:
            raise UsageError(
                f"--{name.replace('_', '-')} is an option of --executor {wanted}, but --executor is {kind}; add "
                f"--executor {wanted}, or leave it out"
            )
    declared = executor_kind(kind)
    if declared is None:
        raise UsageError(
            f"{OPTION} sets fields of an executor, but --executor is {AUTO}; add --executor with its kind, which "
            "'robench list executors' lists"
        )
    shorthands = [f"{name.partition('_')[2]}={value}" for name, value in given.items()]
    return assigned(declared, [*shorthands, *assignments], OPTION)
