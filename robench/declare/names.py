"""Names in files: which may be given, and which are known."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from robench.core.errors import did_you_mean
from robench.core.outcomes import OUTCOME_TYPES
from robench.datasets import DATASETS
from robench.declare.scalars import Checked
from robench.declare.values import show
from robench.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def _name_problem(name: object) -> str | None:
    # Names become parts of file names, keys of tables and arguments of commands.
    if _NAME.fullmatch(str(name)):
        return None
    wanted = "1 to 64 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit"
    return f"must be {wanted}, got {show(name)}"


def _known_in(noun: str, declared: Mapping[str, object]) -> Callable[[object], str | None]:
    def unknown(name: object) -> str | None:
        return None if name in declared else f"unknown {noun} {show(name)}.{did_you_mean(str(name), declared)}"

    return unknown


dataset_problem = _known_in("dataset", DATASETS)

Name = Annotated[str, Checked(_name_problem)]
DatasetName = Annotated[str, Checked(dataset_problem)]
MetricName = Annotated[str, Checked(_known_in("metric", METRICS))]
Task = Annotated[str, Checked(_known_in("task", OUTCOME_TYPES))]
