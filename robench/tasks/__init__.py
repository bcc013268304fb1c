"""Tasks: what is asked of a model; ``x.py`` declares one without torch, ``x_impl.py`` has its rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.core.plugins import Plugins
from robench.tasks.base import Task
from robench.tasks.classification import CLASSIFICATION

if TYPE_CHECKING:
    from robench.core.protocols import Batch

_BUILTIN: dict[str, Task] = {task.name: task for task in (CLASSIFICATION,)}
TASKS = Plugins("task", _BUILTIN, base=Task, instances=True)
# Task of a registry's entry that names none.
DEFAULT_TASK = CLASSIFICATION.name

__all__ = ["DEFAULT_TASK", "TASKS", "Task", "task_of"]


def task_of(batch: Batch) -> Task:
    """Return the task whose targets a batch has."""
    return TASKS[batch.task or DEFAULT_TASK]
