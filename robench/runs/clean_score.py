"""Score of one checkpoint on clean examples of its training dataset's evaluation split."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from robench.core.errors import ContractError, UsageError
from robench.core.suite import Column, Condition, Suite
from robench.datasets import DATASETS
from robench.executors import IN_PROCESS
from robench.perturbations import Clean
from robench.runs.prepare import prepare
from robench.runs.request import RunRequest
from robench.store import MemoryStore
from robench.tasks import TASKS

if TYPE_CHECKING:
    from pathlib import Path

    from robench.core.checkpoint import Checkpoint
    from robench.core.report import Estimate


def clean_score(
    checkpoint: Checkpoint, dataset: str, *, data_root: Path | None = None, device: str = "cpu"
) -> Estimate:
    """Return the task's metric of clean examples on the evaluation split, computed like any leaderboard's.

    Raises:
        RobenchError: it cannot be measured.
    """
    metric = TASKS[checkpoint.task].metric
    if metric is None:
        raise UsageError(f"task {checkpoint.task!r} has no metric of clean examples to evaluate a model with")
    column = Column(key=f"clean/{metric}", label="clean", metric=metric, conditions=("clean",))
    suite = Suite(
        name="clean",
        version=1,
        seed=0,
        task=checkpoint.task,
        batch_size=100,
        conditions=(Condition(name="clean", dataset=DATASETS[dataset], perturbation=Clean()),),
        metrics=(metric,),
        columns=(column,),
    )
    # The expected score is about to be measured again.
    request = RunRequest(
        suites=(suite,),
        checkpoints=(replace(checkpoint, expected={}),),
        device=device,
        executor=IN_PROCESS,
        data_root=data_root,
    )
    prepared = prepare(request)
    store = MemoryStore()
    prepared.fill(store, prepared.executor())
    for failure in store.failures():
        raise ContractError(failure.error)
    estimate = prepared.report(suite, store).rows[0].cells[column.key].estimate
    assert estimate is not None  # nothing failed, so nothing is missing
    return estimate
