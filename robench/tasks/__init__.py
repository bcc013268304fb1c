"""Tasks: what is asked of a model; ``x.py`` declares one without torch, ``x_impl.py`` has its rules."""

from __future__ import annotations

from robench.core.plugins import Plugins
from robench.tasks.base import Task
from robench.tasks.classification import CLASSIFICATION

_BUILTIN: dict[str, Task] = {task.name: task for task in (CLASSIFICATION,)}
TASKS = Plugins("task", _BUILTIN, base=Task, instances=True)
# Task of a registry's entry that names none.
DEFAULT_TASK = CLASSIFICATION.name

__all__ = ["DEFAULT_TASK", "TASKS", "Task"]
