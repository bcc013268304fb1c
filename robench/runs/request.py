"""What a user asks for, before anything is opened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from robench.core.errors import UsageError

if TYPE_CHECKING:
    from robench.core.checkpoint import Checkpoint
    from robench.core.suite import Suite

ExecutorName = Literal["auto", "serial", "processes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """Checkpoints through suites.

    Attributes:
        limit: the first examples of each condition alone; None for all.
        seed: in place of the suites' own.
        device: ``auto`` (a GPU where there is one), ``cpu``, ``cuda`` or ``cuda:N``.
        workers: processes that measure; None for one a GPU, or one a CPU core.
        data_root: folder that holds datasets which are not embedded.
    """

    suites: tuple[Suite, ...]
    checkpoints: tuple[Checkpoint, ...]
    limit: int | None = None
    seed: int | None = None
    device: str = "auto"
    workers: int | None = None
    executor: ExecutorName = "auto"
    data_root: Path | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"--limit must be at least 1, got {self.limit}")
        if self.workers is not None and self.workers < 1:
            raise UsageError(f"--workers must be at least 1, got {self.workers}")
        if self.executor == "serial" and self.workers not in (None, 1):
            raise UsageError(
                f"--executor serial measures in one process, but --workers is {self.workers}; leave one of them out"
            )
        names = [suite.name for suite in self.suites]
        if twice := {name for name in names if names.count(name) > 1}:
            raise UsageError(
                f"two of the suites are named {', '.join(sorted(twice))}; give each file's suite its own name"
            )
        for suite in self.suites:
            for checkpoint in self.checkpoints:
                if suite.task != checkpoint.task:
                    raise UsageError(
                        f"suite {suite.name!r} is for {suite.task}, but model {checkpoint.name!r} is for "
                        f"{checkpoint.task}; 'robench list models' says which models are for what"
                    )
