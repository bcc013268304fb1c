"""What a new pass says of a submitted shard: threat models, successes of searches, several predictions, ties."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

import robench
from examples import MEASUREMENT
from robench.attacks.cw import Cw
from robench.attacks.fgsm import Fgsm
from robench.core.columns import Values
from robench.core.errors import ContractError
from robench.core.shard import Shard
from robench.core.suite import Condition
from robench.datasets.digits import DIGITS
from robench.datasets.segmentation import DIGIT_SCENES
from robench.evaluation.evaluate import evaluate
from robench.evaluation.keeping import Attacked
from robench.evaluation.submission import agreement_of
from robench.perturbations.clean import Clean
from robench.perturbations.sweep import Sweep
from robench.store.adversarial import ONE_BUDGET

COUNT = 6
EPSILON = Fraction(8, 255)
FGSM = Fgsm(epsilon=EPSILON)
SWEEP = Sweep(attacks=(Fgsm(epsilon=Fraction(2, 255)), FGSM))
CW = Cw(num_steps=2, num_search_steps=1, initial_c=1.0, learning_rate=0.01)


class Linear:
    """Model of ten classes whose logits are fixed projections of the pixels, and shifted by ``bias``."""

    device = torch.device("cpu")
    normalisation = torch.full((3, 1, 1), 0.5), torch.full((3, 1, 1), 0.25)

    def __init__(self, bias: float = 0.0) -> None:
        generator = torch.Generator().manual_seed(0)
        self.weights = torch.randn(3 * 32 * 32, 10, generator=generator) / 8
        self.bias = torch.zeros(10).index_fill(0, torch.tensor([4]), bias)

    def outputs(self, inputs: torch.Tensor, seeds: Any = None) -> torch.Tensor:
        outputs: torch.Tensor = inputs.flatten(1) @ self.weights + self.bias
        return outputs

    def through_solvers(self) -> Linear:
        return self


def shard_of(perturbation: Any, **changes: Any) -> Shard:
    condition = Condition(name="c", dataset=DIGITS, perturbation=perturbation, **changes)
    dataset = robench.load_dataset("digits").identity
    return Shard(
        measurement=replace(MEASUREMENT, condition=condition, dataset=dataset, batch_size=4), start=0, stop=COUNT
    )


def submitted_by(shard: Shard, model: Any) -> tuple[Any, Any]:
    """Record and adversarial examples of a sound submission."""
    attacked = Attacked(collects=True)
    record = evaluate(shard, model, robench.load_dataset("digits"), source=attacked)
    return record, attacked.examples(shard.header)


def agreement(shard: Shard, record: Any, examples: Any, model: Any) -> Any:
    return agreement_of(shard, record, examples, model, robench.load_dataset("digits"))


def with_column(record: Any, name: str, array: Any) -> Any:
    return replace(record, outcomes=record.outcomes.replaced(**{name: Values(np.array(array))}))


@pytest.mark.parametrize(
    "perturbation",
    [FGSM, Fgsm(epsilon=Fraction(1, 10), space="normalised", clip="none"), CW, SWEEP],
    ids=["fgsm", "normalised", "cw", "sweep"],
)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_sound_submission_agrees(perturbation: Any, dtype: str) -> None:
    shard = shard_of(perturbation)
    shard = replace(shard, measurement=replace(shard.measurement, adversarial_dtype=dtype))
    found = agreement(shard, *submitted_by(shard, Linear()), Linear())
    assert len(found.rescored) == COUNT * (1 + (perturbation is SWEEP))
    assert not (found.violates | found.differs | found.is_tied).any()


def test_a_budget_in_normalised_space_is_checked_there() -> None:
    shard = shard_of(Fgsm(epsilon=Fraction(1, 10), space="normalised", clip="none"))
    record, examples = submitted_by(shard, Linear())
    points = examples.points[ONE_BUDGET].copy()
    # The budget is 0.1 x 0.25 in pixels, in either direction.
    points[2, 1, 5, 5] += 0.06
    found = agreement(shard, record, replace(examples, points={ONE_BUDGET: points}), Linear())
    assert found.violates.tolist() == [False, False, True, False, False, False]
    assert not found.differs.any()


@pytest.mark.parametrize("wrong", [0.2, np.inf, np.nan])
def test_a_rounded_change_beyond_the_budget_is_found(wrong: float) -> None:
    shard = shard_of(FGSM)
    shard = replace(shard, measurement=replace(shard.measurement, adversarial_dtype="float16"))
    record, examples = submitted_by(shard, Linear())
    assert examples.points[ONE_BUDGET].dtype == np.float16
    changes = examples.points[ONE_BUDGET].copy()
    changes[5, 0, 0, 0] = wrong
    found = agreement(shard, record, replace(examples, points={ONE_BUDGET: changes}), Linear())
    assert np.flatnonzero(found.violates).tolist() == [5]
    # The caller's examples are as they were.
    assert examples.points[ONE_BUDGET][5, 0, 0, 0] != wrong


def test_rows_of_a_sweep_are_budget_by_budget_within_an_example() -> None:
    shard = shard_of(SWEEP)
    record, examples = submitted_by(shard, Linear())
    points = {name: array.copy() for name, array in examples.points.items()}
    points["2/255"][3] = points["8/255"][3]
    found = agreement(shard, record, replace(examples, points=points), Linear())
    assert np.flatnonzero(found.violates).tolist() == [6]
    assert found.rescored.column("epsilon").tolist()[6] == "2/255"
    part = found.take(slice(6, 8))
    assert (part.violates.tolist(), len(part.submitted), len(part.rescored)) == ([True, False], 2, 2)


class Pointwise(Linear):
    """Model of eleven classes a pixel, each a fixed projection of its three channels."""

    def outputs(self, inputs: torch.Tensor, seeds: Any = None) -> torch.Tensor:
        weights = torch.randn(11, 3, generator=torch.Generator().manual_seed(1))
        return torch.einsum("kc,bchw->bkhw", weights, inputs)


def test_counts_of_pixels_are_compared_row_by_row() -> None:
    scenes, pointwise = robench.load_dataset("digit-scenes"), Pointwise()
    condition = Condition(name="c", dataset=DIGIT_SCENES, perturbation=FGSM)
    checkpoint = replace(MEASUREMENT.checkpoint, task="segmentation")
    measurement = replace(
        MEASUREMENT, checkpoint=checkpoint, condition=condition, dataset=scenes.identity, batch_size=4
    )
    shard, attacked = Shard(measurement=measurement, start=0, stop=COUNT), Attacked(collects=True)
    record = evaluate(shard, pointwise, scenes, source=attacked)
    examples = attacked.examples(shard.header)
    assert not agreement_of(shard, record, examples, pointwise, scenes).differs.any()
    counts = record.outcomes.column("num_both").copy()
    counts[2], counts[5] = counts[5], counts[2]
    found = agreement_of(
        shard, replace(record, outcomes=record.outcomes.replaced(num_both=Values(counts))), examples, pointwise, scenes
    )
    assert np.flatnonzero(found.differs).tolist() == [2, 5]


def test_a_search_that_claims_to_have_failed_is_found() -> None:
    shard = shard_of(CW)
    record, examples = submitted_by(shard, Linear())
    claimed = record.outcomes.column("found").copy()
    claimed[1] = not claimed[1]
    found = agreement(shard, with_column(record, "found", claimed), examples, Linear())
    assert np.flatnonzero(found.differs).tolist() == [1]
    assert not found.is_tied.any()


def test_another_model_disagrees_and_is_no_tie() -> None:
    shard = shard_of(FGSM)
    record, examples = submitted_by(shard, Linear())
    found = agreement(shard, record, examples, Linear(bias=50.0))
    assert found.differs.all()
    assert not found.is_tied.any()
    assert set(found.rescored.column("prediction").tolist()) == {4}


def test_of_several_predictions_a_count_is_no_tie() -> None:
    shard = shard_of(Clean(), num_predictions=3)
    record, _ = submitted_by(shard, Linear())
    assert record.outcomes.column("num_predictions").tolist() == [3] * COUNT
    counts = record.outcomes.column("num_correct").copy()
    counts[0] = (counts[0] + 1) % 4
    found = agreement(shard, with_column(record, "num_correct", counts), None, Linear())
    assert np.flatnonzero(found.differs).tolist() == [0]
    assert not found.is_tied.any()


def test_a_count_that_a_single_prediction_cannot_have_is_found() -> None:
    shard = shard_of(Clean())
    record, _ = submitted_by(shard, Linear())
    found = agreement(shard, with_column(record, "num_correct", [1] * COUNT), None, Linear())
    assert found.differs.all()


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_are_found(number: float) -> None:
    shard = shard_of(Clean())
    record, _ = submitted_by(shard, Linear())
    losses = record.outcomes.column("loss_nats").copy()
    losses[4] = number
    found = agreement(shard, with_column(record, "loss_nats", losses), None, Linear())
    assert np.flatnonzero(found.differs).tolist() == [4]


def test_a_record_of_another_shard_is_refused_before_anything_is_read() -> None:
    shard = shard_of(Clean())
    record, _ = submitted_by(shard, Linear())
    nothing: Any = None
    with pytest.raises(ContractError, match=f"the record is of shard {shard.key}, wanted"):
        agreement_of(replace(shard, stop=10**9), record, None, nothing, nothing)
