"""Declaration of a model that a Python program holds in memory."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from robench.core.checkpoint import Checkpoint, Smoothing, Weights
from robench.core.declared import Preprocessing
from robench.models.base import ArchitectureBase
from robench.tasks import DEFAULT_TASK

_PLACE = "in memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class InMemory(ArchitectureBase):
    """Architecture of an existing module, so that nothing is built and no file is read.

    It has no fields: the digest of the module's state and source takes the place of other models' digest of weights.
    Registries cannot name it, and only the process that holds the module can measure it.
    """

    kind: ClassVar[str] = "in-memory"
    implementation: ClassVar[str] = "robench.models.in_memory_impl:model_of"
    runs_user_code: ClassVar[bool] = True


def in_memory_checkpoint(
    name: str,
    digest: str,
    preprocessing: Preprocessing,
    folder: Path,
    task: str = DEFAULT_TASK,
    smoothing: Smoothing | None = None,
) -> Checkpoint:
    """Return the registry entry for a module in memory; ``digest`` identifies the module."""
    return Checkpoint(
        name=name,
        architecture=InMemory(),
        weights=Weights(uri=_PLACE, sha256=digest),
        preprocessing=preprocessing,
        task=task,
        training_data="not stated",
        source=_PLACE,
        licence="not stated",
        folder=folder,
        smoothing=smoothing,
    )
