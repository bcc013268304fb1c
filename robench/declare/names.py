"""Names in files: syntax checks and look-up of known names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from robench.core.errors import DeclarationError, did_you_mean
from robench.core.user_code import is_target
from robench.declare.members import TARGET, is_by_target, of_target
from robench.declare.scalars import Checked, ReadBy, scalar_reader
from robench.declare.values import show
from robench.declare.wording import one_error
from robench.metrics import METRICS
from robench.tasks import TASKS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Of a whole name, in a dialect that JSON Schema has too.
NAME_PATTERN = "^[a-z0-9][a-z0-9._-]{0,63}$"
_NAME = re.compile(NAME_PATTERN.strip("^$"))


def name_problem(name: object) -> str | None:
    """Return why a text cannot be the name of a model or of a part of a suite; None if it can."""
    # Names become parts of file names, keys of tables and arguments of commands.
    if _NAME.fullmatch(str(name)):
        return None
    wanted = "1 to 64 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit"
    return f"must be {wanted}, got {show(name)}"


def known_in(noun: str, declared: Mapping[str, object]) -> Callable[[object], str | None]:
    """Return a check that a value is a name in ``declared``, which may be a family of plug-ins.

    The check returns what is wrong with a value, or None.
    """

    def unknown(name: object) -> str | None:
        # Members in the user's own code are named by a mapping.
        if name not in declared or is_target(str(name)):
            return f"unknown {noun} {show(name)}.{did_you_mean(str(name), declared)}"
        try:
            declared[str(name)]
        except DeclarationError as error:
            return str(error)
        return None

    return unknown


Name = Annotated[str, Checked(name_problem)]
MetricName = Annotated[str, Checked(known_in("metric", METRICS))]
_read_metric = scalar_reader(str, (Checked(known_in("metric", METRICS)),))


def metric_name(value: object) -> object:
    """Return the name of a metric in ``METRICS``: as given, or the target of one of the user's own.

    Raises:
        RefusedError: it is not the name of a metric.
        ValidationError: there is no such metric in the user's code.
    """
    if not isinstance(value, dict) or not is_by_target(METRICS, value.get("kind")):
        return _read_metric(value)
    if strangers := value.keys() - {"kind", TARGET}:
        message = f"unknown field {show(min(strangers))}.{did_you_mean(min(strangers), [TARGET])}"
        raise one_error("metric", message, value, min(strangers))
    of_target("metric", METRICS, value)
    return value[TARGET]


# A metric of a suite, which may be of the user's own.
MetricEntry = Annotated[str, ReadBy(metric_name)]
Task = Annotated[str, Checked(known_in("task", TASKS))]
