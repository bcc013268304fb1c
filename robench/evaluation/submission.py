"""Agreement of a submitted shard with a new pass of its model: threat models, decisions and scores of each example.

Adversarial examples that break their threat model, or cannot be checked, are replaced by the clean ones, so that the
others of their batch can still be scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from robench.attacks.levels import as_written
from robench.core.columns import Field, Outcomes, fields_of
from robench.core.errors import ContractError
from robench.core.outcomes import Outcome
from robench.core.protocols import Batch, Dataset, Model
from robench.core.records import Record
from robench.core.shard import EXACT_DTYPE, Measurement, Shard
from robench.core.suite import View, views_of
from robench.declarations.base import imported
from robench.domains import DOMAINS
from robench.evaluation.arithmetic import fixed_arithmetic
from robench.evaluation.evaluate import evaluate, prediction_seeds
from robench.evaluation.keeping import Attacked, restored
from robench.evaluation.rescore import rescore
from robench.perturbations.draws import predict
from robench.store.adversarial import ONE_BUDGET, AdversarialExamples
from robench.tasks import TASKS
from robench.tasks.base import Gap, Scoring

Rows = NDArray[np.bool_]

# Of the largest output: devices differ in the last digits of float32, and attacks that stop at the boundary end there.
TIE = 1e-4
# Distances are computed alike on every device, from the same inputs.
DISTANCE_TOLERANCE = 1e-6
SCORE_TOLERANCE = 1e-3
# Numbers of a perturbation's passes, which rescoring does not repeat.
_UNREPEATED = ("num_queries", "num_gradients", "num_clamped")


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Submitted outcomes of a shard beside those of a new pass; rows as in records, budgets of an example adjacent.

    Attributes:
        submitted, rescored: outcomes of the same rows.
        violates: rows whose adversarial example breaks its threat model; they have no other mark.
        differs: rows with another decision, distance or score, without numerical ties.
        is_tied: rows whose decision differs, and whose outputs are on its boundary.
    """

    submitted: Outcomes
    rescored: Outcomes
    violates: Rows
    differs: Rows
    is_tied: Rows

    def take(self, rows: slice | Rows) -> Agreement:
        """Return some of the rows."""
        return Agreement(
            submitted=self.submitted.take(rows),
            rescored=self.rescored.take(rows),
            violates=self.violates[rows],
            differs=self.differs[rows],
            is_tied=self.is_tied[rows],
        )


def agreement_of(
    shard: Shard, submitted: Record, examples: AdversarialExamples | None, model: Model, dataset: Dataset
) -> Agreement:
    """Return the agreement of a submitted shard's record with a new pass of the model.

    ``examples`` are None for conditions whose inputs are made again.

    Raises:
        ContractError: the record or the examples are not of the shard, or the model broke its contract.
        ExampleError: an example cannot be read.
    """
    if submitted.shard.key != shard.key:
        raise ContractError(f"the record is of shard {submitted.shard.key}, wanted {shard.key}")
    batch, views = dataset.batch(shard.start, shard.stop), views_of(shard.measurement.condition)
    batch = replace(batch, inputs=batch.inputs.to(model.device))
    if examples is None:
        violates = np.zeros((len(views), len(batch.ids)), np.bool_)
        made = Attacked(collects=True)
        anew = evaluate(shard, model, dataset, source=made)
        examples = made.examples(shard.header)
    else:
        _check_form(shard, examples, batch, views)
        violates = np.stack([_violations(view, examples, batch, model) for view in views])
        examples = _without(examples, views, violates, batch)
        anew = rescore(shard, examples, model, dataset)
    rows = violates.T.ravel()
    stated, found = submitted.outcomes, anew.outcomes
    if not _are_of_the_same(stated, found):
        raise ContractError("the record's outcomes are of other examples or budgets than the shard's")
    other_decision, other_number = (each & ~rows for each in _differences(stated, found))
    is_tied = np.zeros(len(rows), np.bool_)
    if other_decision.any():
        doubtful = np.flatnonzero(other_decision)
        is_tied[doubtful] = _are_tied(shard.measurement, batch, examples, stated.take(doubtful), doubtful, model)
    differs = (other_decision & ~is_tied) | other_number
    return Agreement(submitted=stated, rescored=found, violates=rows, differs=differs, is_tied=is_tied & ~differs)


def _check_form(shard: Shard, examples: AdversarialExamples, batch: Batch, views: Sequence[View]) -> None:
    """Refuse adversarial examples of other ids, budgets, shapes or number formats than the shard's."""
    if examples.shard.dataset != shard.measurement.dataset or examples.ids != batch.ids:
        raise ContractError("the adversarial examples are of other data or ids than the shard's")
    names = [_name(view) for view in views]
    if list(examples.points) != names:
        raise ContractError(f"the adversarial examples are at {', '.join(examples.points)}, wanted {', '.join(names)}")
    dtype, shape = shard.measurement.adversarial_dtype, tuple(batch.inputs.shape)
    for name in names:
        points, found = examples.points[name], examples.found.get(name)
        if points.shape != shape or points.dtype not in (np.dtype(EXACT_DTYPE), np.dtype(dtype)):
            raise ContractError(f"the adversarial examples are {points.dtype} {points.shape}, wanted {dtype} {shape}")
        if found is not None and (found.shape != shape[:1] or found.dtype != np.bool_):
            raise ContractError(f"found:{name} is {found.dtype} {found.shape}, wanted bool {shape[:1]}")


def _violations(view: View, examples: AdversarialExamples, batch: Batch, model: Model) -> Rows:
    """Return (B,) whether each adversarial example breaks the threat model or the limits of its domain."""
    rules = DOMAINS[view.condition.dataset.domain].rules
    points = _points(view, examples, batch)

    def breaks(rows: slice) -> bool:
        try:
            rules.check_perturbed(points[rows], batch.inputs[rows], view.attack, model)
        except ContractError:
            return True
        return False

    count = len(batch.ids)
    if not breaks(slice(count)):
        return np.zeros(count, np.bool_)
    return np.array([breaks(slice(row, row + 1)) for row in range(count)], np.bool_)


def _points(view: View, examples: AdversarialExamples, batch: Batch) -> torch.Tensor:
    points = torch.from_numpy(examples.points[_name(view)]).to(batch.inputs.device)
    return restored(batch.inputs, points)


def _name(view: View) -> str:
    return view.epsilon or ONE_BUDGET


def _without(examples: AdversarialExamples, views: Sequence[View], violates: Rows, batch: Batch) -> AdversarialExamples:
    """Return the examples with the clean ones in place of violations of their threat model."""
    if not violates.any():
        return examples
    points = dict(examples.points)
    for view, wrong in zip(views, violates, strict=True):
        name = _name(view)
        points[name] = points[name].copy()
        clean = batch.inputs.cpu()
        if points[name].dtype == np.uint8:
            clean = as_written(clean, clean)
        is_change = points[name].dtype == np.float16
        points[name][wrong] = 0 if is_change else clean.numpy()[wrong]
    return replace(examples, points=points)


def _are_of_the_same(one: Outcomes, other: Outcomes) -> bool:
    if one.row_type is not other.row_type or len(one) != len(other):
        return False
    return all(_texts(one, name, len(one)) == _texts(other, name, len(other)) for name in ("example_id", "epsilon"))


def _texts(outcomes: Outcomes, name: str, length: int) -> list[str | None]:
    values = outcomes.values(name)
    return [None] * length if values is None else values.array.tolist()


def _differences(submitted: Outcomes, found: Outcomes) -> tuple[Rows, Rows]:
    """Return the rows with other decisions, (N,), and those with other distances or scores.

    Optional fields count only where they were submitted: archives leave out what no metric reads.
    """
    decisions, numbers = (np.zeros(len(found), np.bool_) for _ in range(2))
    common = fields_of(Outcome)
    for name, field in fields_of(found.row_type).items():
        if field.type is str or name in _UNREPEATED:
            continue
        tolerance = DISTANCE_TOLERANCE if name in common else SCORE_TOLERANCE
        # Of a common field nothing depends on the last digits of outputs.
        target = numbers if field.type is float or name in common else decisions
        target |= _are_other(field, submitted, found, tolerance)
    return decisions, numbers


def _are_other(field: Field, submitted: Outcomes, found: Outcomes, tolerance: float) -> Rows:
    stated, one, other = submitted.known(field.name), submitted.values(field.name), found.values(field.name)
    if one is None or other is None:
        return stated
    if field.type is float:
        with np.errstate(invalid="ignore"):
            far = np.abs(one.array - other.array) > tolerance * np.maximum(1.0, np.abs(other.array))
            # Of infinities and NaN only the same are close.
            is_same = np.isclose(one.array, other.array, rtol=0.0, atol=0.0, equal_nan=True)
            far |= ~np.isfinite(one.array - other.array) & ~is_same
    elif field.type is tuple:
        pairs = zip(one.array, other.array, strict=True)
        far = np.array([not np.array_equal(*pair) for pair in pairs], np.bool_)
    else:
        far = one.array != other.array
    wrong: Rows = stated & (far | ~found.known(field.name))
    return wrong


def _are_tied(
    measurement: Measurement,
    batch: Batch,
    examples: AdversarialExamples,
    submitted: Outcomes,
    rows: NDArray[np.intp],
    model: Model,
) -> Rows:
    """Return (B,) whether outputs are as good as on the boundary of the submitted decisions.

    Several predictions of one input are never a tie: their number of right ones has no boundary.
    """
    condition, task = measurement.condition, TASKS[measurement.checkpoint.task]
    if task.gap is None or condition.num_predictions > 1:
        return np.zeros(len(rows), np.bool_)
    views = views_of(condition)
    places, budgets = rows // len(views), rows % len(views)
    shown = [_points(view, examples, batch) for view in views]
    inputs = torch.stack([shown[budget][place] for place, budget in zip(places, budgets, strict=True)])
    (seeds,) = prediction_seeds(measurement, tuple(batch.ids[place] for place in places))
    # Full batches, whose arithmetic is that of the measurement.
    padded = [*range(len(rows)), *[len(rows) - 1] * (-len(rows) % measurement.batch_size)]
    with fixed_arithmetic(model.device):
        outputs = predict(model, inputs[padded], [seeds[row] for row in padded], measurement.batch_size)[: len(rows)]
    scoring = Scoring(dataset=condition.dataset, keeps_scores=condition.perturbation.keeps_scores)
    gap: Gap = imported(task.gap)
    gaps = gap(outputs, batch.targets[places], submitted, scoring).cpu().numpy()
    scale = outputs.double().abs().flatten(1).amax(1).clamp(min=1).cpu().numpy()
    tied: Rows = gaps <= TIE * scale
    return tied
