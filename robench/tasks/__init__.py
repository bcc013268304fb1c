"""Tasks of models: ``x.py`` declares a task without torch, ``x_impl.py`` contains its rules."""

from robench.core.plugins import Plugins
from robench.core.protocols import Batch
from robench.tasks.base import Task
from robench.tasks.classification import CLASSIFICATION
from robench.tasks.control import CONTROL
from robench.tasks.language_modeling import LANGUAGE_MODELING
from robench.tasks.segmentation import SEGMENTATION

_BUILTIN: dict[str, Task] = {
    task.name: task
    for task in (
        CLASSIFICATION,
        CONTROL,
        LANGUAGE_MODELING,
        SEGMENTATION,
    )
}
TASKS = Plugins("task", _BUILTIN, base=Task, instances=True)
# Default task of registry entries.
DEFAULT_TASK = CLASSIFICATION.name

__all__ = ["DEFAULT_TASK", "TASKS", "Task", "task_of"]


def task_of(batch: Batch) -> Task:
    """Return the task of a batch's targets."""
    return TASKS[batch.task or DEFAULT_TASK]
