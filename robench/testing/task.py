"""Contract of tasks: ``check_task(MY_TASK, outputs, targets)``."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from robench.core.columns import Values, fields_of
from robench.core.declared import DatasetDeclaration
from robench.core.errors import ContractError
from robench.core.outcomes import Outcome
from robench.datasets.base import stand_in
from robench.tasks.base import Scoring, Task, is_scheduled
from robench.testing.expectations import refusal, require, run_checks, subject_of

__all__ = ["TASK_CHECKS", "check_task"]


def check_task(
    declared: Task, outputs: Sequence[Tensor], targets: Tensor, dataset: DatasetDeclaration | None = None
) -> None:
    """Check that a task fulfils all contracts of robench's own tasks.

    Args:
        declared: the task.
        outputs: outputs (B, ...) of one or more predictions of at least three examples. If the task has a verdict, the
            first is right about some of them and wrong about others.
        targets: targets (B, ...) of the examples.
        dataset: declaration of the examples' dataset; None for one without classes.
    """
    subject = subject_of("task", declared, Task, "name")
    scoring = Scoring(dataset=dataset or stand_in(declared.name))
    run_checks(subject, TASK_CHECKS, declared, outputs, targets, scoring)


def columns_are_fields_of_the_outcome(
    declared: Task, outputs: Sequence[Tensor], targets: Tensor, scoring: Scoring
) -> None:
    """Check that the columns are the task's own fields of its outcome, one value per example."""
    fields, common = fields_of(declared.outcome), fields_of(Outcome).keys()
    made = declared.rules.columns(outputs, targets, scoring)
    wanted = fields.keys() - common
    strange = made.keys() - wanted
    require(not strange, f"returns columns {sorted(strange)}", f"some of {sorted(wanted)}")
    lacking = {name for name, each in fields.items() if not each.optional} - common - made.keys()
    require(not lacking, f"returns no columns {sorted(lacking)}", "all fields that are not optional")
    for name, values in made.items():
        size = len(values.array)
        require(size == len(targets), f"returns {size} values of {name}", f"{len(targets)}, one per example")


def rows_do_not_depend_on_each_other(
    declared: Task, outputs: Sequence[Tensor], targets: Tensor, scoring: Scoring
) -> None:
    """Check that the columns of an example alone are those in a batch, to the bit."""
    whole = declared.rules.columns(outputs, targets, scoring)
    for row in range(len(targets)):
        rows = slice(row, row + 1)
        for name, values in declared.rules.columns([each[rows] for each in outputs], targets[rows], scoring).items():
            same = np.array_equal(values.array[0], whole[name].array[row], equal_nan=values.array.dtype.kind == "f")
            found = f"gives example {row} another {name} alone than in a batch"
            require(same, found, "the same, so that batches may be cut anywhere")


def the_verdict_is_what_attacks_change(
    declared: Task, outputs: Sequence[Tensor], targets: Tensor, scoring: Scoring
) -> None:
    """Check that an attack has succeeded where the verdict is false, and that own labels fool nobody."""
    rules = declared.rules
    if declared.verdict is None:
        return
    fooled = rules.is_fooled(outputs[0], targets).cpu().numpy()
    is_mixed = 0 < fooled.sum() < len(targets)
    require(is_mixed, f"calls {fooled.sum()} of {len(targets)} outputs wrong", "outputs of both kinds")
    column: Values | None = rules.columns(outputs, targets, scoring).get(declared.verdict)
    is_opposite = column is not None and np.array_equal(column.array, ~fooled)
    require(is_opposite, f"has a verdict {declared.verdict!r} that is not ~is_fooled", "one to be ~is_fooled")
    of_own = rules.is_fooled(outputs[0], rules.labels_of(outputs[0]))
    require(not bool(of_own.any()), "is fooled on a model's own labels", "labels_of to be what it predicts")


def losses_are_of_each_example_and_differentiable(
    declared: Task, outputs: Sequence[Tensor], targets: Tensor, scoring: Scoring
) -> None:
    """Check that the declared losses exist, and that each example's is a differentiable function of its output."""
    rules = declared.rules
    names = tuple(rules.losses)
    require(names == declared.losses, f"has losses {names}", f"{declared.losses}, as is declared")
    require("objective" not in names, "has a loss called objective", "another name")
    for name, loss in {"objective": rules.objective, **rules.losses}.items():
        given = outputs[0].clone().requires_grad_()
        progress = [torch.full((len(targets),), 0.5)] if is_scheduled(loss) else []
        values = loss(given, targets, *progress)
        require(values.shape == (len(targets),), f"has {name} of shape {tuple(values.shape)}", "(B,)")
        (gradient,) = torch.autograd.grad(values[2], given)
        others = torch.cat([gradient[:2], gradient[3:]])
        is_own = bool(gradient[2].any()) and not bool(others.any())
        require(is_own, f"has a gradient of {name} at other outputs than the example's", "its own alone")
        found = refusal(partial(loss, outputs[0].double(), targets, *progress))
        require(found == "raised nothing", f"has {name} of float64 outputs that {found}", "that of float32 outputs")


def broken_outputs_are_refused(declared: Task, outputs: Sequence[Tensor], targets: Tensor, scoring: Scoring) -> None:
    """Check that outputs of another length, of another type, or with NaN are refused with a ``ContractError``."""
    rules, size = declared.rules, len(targets)
    rules.check_outputs(outputs[0], size, "m")
    broken = outputs[0].clone()
    broken[1] = torch.nan
    for given in (outputs[0][1:], broken):
        found = refusal(partial(rules.check_outputs, given, size, "m"), ContractError)
        require(found is None, f"{found} for outputs that are not {size} finite ones", "a ContractError")
    for returned in (None, [1.0] * size, outputs[0][1:]):
        found = refusal(partial(rules.outputs_of, returned, size), ContractError)
        kind = type(returned).__name__
        require(found is None, f"{found} for a model that returns a {kind}", "a ContractError")


TASK_CHECKS = (
    columns_are_fields_of_the_outcome,
    rows_do_not_depend_on_each_other,
    the_verdict_is_what_attacks_change,
    losses_are_of_each_example_and_differentiable,
    broken_outputs_are_refused,
)
