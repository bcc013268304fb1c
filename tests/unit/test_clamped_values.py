"""Values that an attack returned outside [0, 1]: clamped, counted by example, kept, and said under the table."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import torch
from attack_examples import SmoothVictim, anywhere

from examples import MEASUREMENT, PROVENANCE, outcome_of, record_of
from robench.attacks.attack import ROUNDING, attack
from robench.attacks.fgsm import Fgsm
from robench.attacks.problem import Problem, Reached
from robench.core.protocols import Batch
from robench.core.records import Record
from robench.core.shard import DatasetIdentity, Shard
from robench.core.suite import Column, Condition, Suite
from robench.datasets.digits import DIGITS
from robench.evaluation.evaluate import evaluate
from robench.perturbations.dispatch import perturb_each
from robench.perturbations.draws import ExampleDraws
from robench.perturbations.sweep import Sweep
from robench.reports import build_report
from robench.store.parquet import decode_record, encode_record

EPSILON = Fraction(16, 255)
FGSM = Fgsm(epsilon=EPSILON)
VICTIM, BATCH = SmoothVictim(), anywhere(6)
DRAWS = ExampleDraws(range(6))


def leaving(by: float, *, rows: int = 2, values: int = 3) -> Any:
    """Return an attack, as an adapter may be, that sets some values of the first rows ``by`` so much outside."""

    def function(declaration: Any, problem: Problem) -> Reached:
        points = problem.inputs.clone()
        points[:rows].flatten(1)[:, :values] = torch.tensor([-by, 1 + by]).repeat(values)[:values]
        return Reached(points)

    return function


class Examples:
    """The six examples as a dataset; their first three values are at the limits, so that clamping leaves no budget."""

    identity = DatasetIdentity(name="digits", fingerprint="f", num_examples=6)
    inputs = BATCH.inputs.clone()
    inputs.flatten(1)[:, :3] = torch.tensor([0.0, 1.0, 0.0])

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.inputs[index], int(BATCH.targets[index])

    def batch(self, start: int, stop: int) -> Batch:
        part = slice(start, stop)
        return replace(BATCH, ids=BATCH.ids[part], inputs=self.inputs[part], targets=BATCH.targets[part])


def shard_of(perturbation: Any) -> Shard:
    condition = Condition(name="c", dataset=DIGITS, perturbation=perturbation)
    measurement = replace(MEASUREMENT, condition=condition, dataset=Examples.identity, batch_size=4)
    return Shard(measurement=measurement, start=0, stop=6)


class TestCounts:
    @pytest.mark.parametrize(("by", "count"), [(0.25, 3), (1e-5, 3), (1e-7, 0)])
    def test_values_outside_by_more_than_rounding_are_counted_and_all_are_clamped(self, by: float, count: int) -> None:
        made = attack(leaving(by), FGSM, BATCH, VICTIM, DRAWS)
        assert made.num_clamped is not None
        assert made.num_clamped.tolist() == [count, count, 0, 0, 0, 0]
        assert (float(made.inputs.min()), float(made.inputs.max())) == (0, 1)

    def test_in_normalised_space_the_excess_is_measured_in_pixels(self) -> None:
        """Deviation 0.25: three limits of normalised space, met by points far outside and by those just outside."""
        declared = Fgsm(epsilon=EPSILON, space="normalised")
        # Pixels are 0.5 + 0.25 x, whose limits are -2 and 2.
        assert attack(leaving(1.5), declared, BATCH, VICTIM, DRAWS).num_clamped is not None
        far, near = (attack(leaving(by), declared, BATCH, VICTIM, DRAWS).num_clamped for by in (1 + 1e-4, 1 + 1e-7))
        assert far is not None
        assert near is not None
        assert (far.tolist(), near.tolist()) == ([1, 1, 0, 0, 0, 0], [0] * 6)
        assert ROUNDING == 1e-6

    def test_a_budget_that_carries_keeps_the_counts_of_what_fell_before(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("robench.attacks.fgsm_impl.fgsm", leaving(0.5, rows=6))
        two = tuple(Fgsm(epsilon=Fraction(k, 255)) for k in (8, 16))
        made = [each for _, each in perturb_each(Sweep(attacks=two, carry=True), BATCH, VICTIM, DRAWS)]
        assert [None if each.num_clamped is None else each.num_clamped.tolist() for each in made] == [[3] * 6] * 2


class TestRecords:
    def test_an_example_says_how_many_of_its_values_were_clamped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("robench.attacks.fgsm_impl.fgsm", leaving(0.25))
        record = evaluate(shard_of(FGSM), VICTIM, Examples())
        # Two of each batch of four and of the two that are left.
        assert [outcome.num_clamped for outcome in record.outcomes] == [3, 3, None, None, 3, 3]
        assert decode_record(encode_record(record)) == record

    def test_where_nothing_was_clamped_an_outcome_is_what_it_was_before_anything_was_counted(self) -> None:
        record = evaluate(shard_of(FGSM), VICTIM, Examples())
        assert {outcome.num_clamped for outcome in record.outcomes} == {None}


class TestReport:
    def notes(self, *counts: int | None) -> tuple[str, ...]:
        condition = Condition(name="strong", dataset=DIGITS, perturbation=FGSM)
        size = len(counts)
        dataset = DatasetIdentity(name="digits", fingerprint="d", num_examples=size)
        measurement = replace(MEASUREMENT, condition=condition, dataset=dataset, batch_size=size)
        outcomes = tuple(outcome_of(f"digits/{i}", num_clamped=count) for i, count in enumerate(counts))
        record: Record = record_of(Shard(measurement=measurement, start=0, stop=size).header, outcomes, PROVENANCE)
        column = Column(key="k", label="k", metric="top1_accuracy", conditions=("strong",))
        suite = Suite(
            name="s", version=1, seed=0, task="classification", batch_size=size, conditions=(condition,),
            metrics=("top1_accuracy",), columns=(column,),
        )  # fmt: skip
        (row,) = build_report(suite, [record]).rows
        return row.notes

    def test_it_says_how_many_inputs_were_clamped_and_by_which_attack(self) -> None:
        assert self.notes(3, None, 1, None, 7) == ("strong: 3 of 5 inputs returned by fgsm were clamped to [0, 1]",)
