"""Measurements of one model alone: its audit on a dataset, and its score on clean examples."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import torch

from robench.core.checkpoint import Checkpoint
from robench.core.containment import attributed_to
from robench.core.declared import DatasetDeclaration
from robench.core.errors import ContractError, UnknownNameError, UsageError
from robench.core.flags import Flag
from robench.core.protocols import Batch, Dataset, Model
from robench.core.report import Estimate
from robench.core.suite import Column, Condition, Suite
from robench.datasets import DATASETS, open_dataset
from robench.domains import DOMAINS
from robench.evaluation.arithmetic import fixed_arithmetic
from robench.evaluation.attention_audit import check_attention
from robench.evaluation.audit import BATCH_SIZE, audit
from robench.evaluation.model_checks import clean_accuracy
from robench.executors import IN_PROCESS
from robench.models.loading import load_model
from robench.perturbations import Clean
from robench.perturbations.draws import predict
from robench.runs.devices import choose_workers
from robench.runs.prepare import PreparedRun, measure
from robench.runs.request import RunRequest
from robench.store import MemoryStore
from robench.tasks import TASKS
from robench.tasks.base import ManyAnswers, Task

# Examples that a model's attention is looked at with.
FEW = 4


def audit_checkpoint(
    checkpoint: Checkpoint,
    *,
    epsilon: Fraction | None = None,
    num_examples: int = 100,
    dataset: str | None = None,
    datasets: Mapping[str, DatasetDeclaration] = DATASETS,
    data_root: Path | None = None,
    device: str = "cpu",
    attention: bool = False,
    on_start: Callable[[], None] = lambda: None,
) -> list[Flag]:
    """Return every check of a checkpoint at a budget in l-infinity, by default on the data it was trained on.

    ``epsilon`` is in units of the inputs, by default that of the audits of runs in the model's domain. Names of
    datasets are resolved in ``datasets``; ``on_start`` is called once nothing is left to be refused. Of images of
    several sizes the centres are audited, as large as the smallest of them. ``attention`` adds attacks that know it.

    Raises:
        UsageError: the model's task or domain has no audit, the data is not determined, or an option is out of range.
        UnknownNameError: there is no such dataset.
        RobenchError: weights or data are missing, or broke a contract.
    """
    epsilon = _budget_of(checkpoint, epsilon)
    training = checkpoint.training
    dataset = dataset or (checkpoint.trained_on if training is None else training.dataset)
    if dataset is None:
        raise UsageError(f"the data on which to audit {checkpoint.name!r} is not determined; name it with --dataset")
    if dataset not in datasets:
        raise UnknownNameError("dataset", dataset, datasets)
    found = choose_workers(device, 1, IN_PROCESS)
    examples = open_dataset(datasets[dataset], data_root=data_root, preprocessing=checkpoint.preprocessing)
    batch = _first(examples, min(num_examples, len(examples)), datasets[dataset], TASKS[checkpoint.task])
    model = load_model(checkpoint, found.devices[0])
    if attention:
        _require_attention(checkpoint, model, batch)
    on_start()
    expected = (
        checkpoint.expected.get(TASKS[checkpoint.task].metric or "") if dataset == checkpoint.trained_on else None
    )
    with attributed_to(f"model {checkpoint.name!r} cannot be audited"):
        flags = audit(model, batch, examples.identity, epsilon, attention=attention)
        with torch.no_grad(), fixed_arithmetic(model.device):
            inputs = batch.inputs.to(model.device)
            logits = predict(model, inputs, list(range(len(inputs))), BATCH_SIZE)
        clean = clean_accuracy(model, replace(batch, inputs=inputs), logits, expected)
    return [clean, *flags]


def _budget_of(checkpoint: Checkpoint, epsilon: Fraction | None) -> Fraction:
    """Return the budget of an audit, by default that of the model's domain; refuse what cannot be audited."""
    if not TASKS[checkpoint.task].is_audited:
        audited = ", ".join(name for name, task in TASKS.items() if task.is_audited)
        raise UsageError(
            f"model {checkpoint.name!r} is for {checkpoint.task}, which has no audit; audits are of models for "
            f"{audited}"
        )
    domain = DOMAINS[checkpoint.preprocessing.domain]
    if domain.audit_epsilon is None:
        audited = ", ".join(name for name, each in DOMAINS.items() if each.audit_epsilon is not None)
        raise UsageError(
            f"model {checkpoint.name!r} is for {domain.name}, which have no audit; audits are of {audited}"
        )
    epsilon = domain.audit_epsilon if epsilon is None else epsilon
    problem = domain.budget_problem("linf", epsilon) if epsilon > 0 else f"must be above 0, got {epsilon}"
    if problem:
        raise UsageError(f"epsilon {problem}")
    return epsilon


def _require_attention(checkpoint: Checkpoint, model: Model, batch: Batch) -> None:
    with attributed_to(f"model {checkpoint.name!r} cannot be audited for attention", UsageError):
        check_attention(model, batch.inputs[:FEW].to(model.device))


def _first(examples: Dataset, count: int, declared: DatasetDeclaration, task: Task) -> Batch:
    """Return the first examples as one batch: of several sizes their centres, if they have many answers."""
    if declared.has_one_size or not isinstance(task.rules, ManyAnswers):
        return examples.batch(0, count)
    rows = [examples.batch(row, row + 1) for row in range(count)]
    inputs, targets = task.rules.of_one_size([(each.inputs[0], each.targets[0]) for each in rows])
    return replace(rows[0], ids=tuple(each.ids[0] for each in rows), inputs=inputs, targets=targets)


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
    (table,) = measure(request, store := MemoryStore(), PreparedRun.tables)
    for failure in store.failures():
        raise ContractError(failure.error)
    estimate = table.report.rows[0].cells[column.key].estimate
    assert estimate is not None  # nothing failed, so nothing is missing
    return estimate
