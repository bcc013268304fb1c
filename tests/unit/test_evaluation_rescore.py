"""A model on kept examples gives the outcomes of its record, bit by bit; what a new pass says of a submitted shard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from classified_examples import Examples

import robench
from examples import MEASUREMENT
from robench.attacks.autoattack import AutoAttack
from robench.attacks.cw import Cw
from robench.attacks.fab import Fab
from robench.attacks.fgsm import Fgsm
from robench.attacks.noise import GaussianNoise, UniformNoise
from robench.attacks.pgd import Pgd
from robench.core.columns import Values
from robench.core.errors import BudgetExceededError, ContractError, UsageError
from robench.core.outcomes import Outcome
from robench.core.protocols import Perturbed
from robench.core.records import Failure, Record
from robench.core.shard import Shard
from robench.core.suite import PREDICT, Action, Condition
from robench.datasets.digits import DIGITS
from robench.datasets.segmentation import DIGIT_SCENES
from robench.evaluation import evaluator, keeping
from robench.evaluation.actions import Rescore
from robench.evaluation.evaluate import evaluate
from robench.evaluation.evaluator import Evaluator
from robench.evaluation.keeping import Attacked, restored
from robench.evaluation.rescore import NormalisedAs, rescore
from robench.evaluation.submission import agreement_of
from robench.perturbations.clean import Clean
from robench.perturbations.sweep import Sweep
from robench.store import AdversarialExamples, AdversarialFolder, FolderStore
from robench.store.adversarial import ONE_BUDGET, decode_examples, encode_examples

SIZE = 25
EXAMPLES = Examples(SIZE, (1, 2, 2), num_classes=3)
BUDGET = Fraction(32, 255)
PGD = Pgd(epsilon=BUDGET, step_size=Fraction(8, 255), num_steps=5)
AT_SUCCESS = replace(PGD, stop="at_success")


class Linear:
    """A linear victim; one that draws adds noise of each row's seed."""

    device = torch.device("cpu")
    normalisation = torch.full((1, 1, 1), 0.3), torch.full((1, 1, 1), 0.4)

    def __init__(self, seed: int = 1, *, noise: float = 0.0) -> None:
        self._weight = torch.randn(3, 4, generator=torch.Generator().manual_seed(seed))
        self._noise = noise

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        scores = inputs.flatten(1) @ self._weight.T
        if not self._noise or seeds is None:
            return scores
        drawn = [torch.randn(3, generator=torch.Generator().manual_seed(seed % 2**63)) for seed in seeds]
        return scores + self._noise * torch.stack(drawn)

    def with_gradients(self, mode: str) -> Linear:
        return self


class Noting(Linear):
    """A victim that keeps the inputs of its passes."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[torch.Tensor] = []

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        self.seen.append(inputs.detach().clone())
        return super().outputs(inputs, seeds)


def shard_of(
    attack: Any,
    *,
    action: Action = PREDICT,
    dtype: str = "float32",
    start: int = 0,
    stop: int = SIZE,
    num_predictions: int = 1,
) -> Shard:
    asked = Condition(name="c", dataset=DIGITS, perturbation=attack, action=action, num_predictions=num_predictions)
    measurement = replace(
        MEASUREMENT, condition=asked, dataset=EXAMPLES.identity, batch_size=10, adversarial_dtype=dtype
    )
    return Shard(measurement=measurement, start=start, stop=stop)


def measured(shard: Shard, victim: Linear) -> tuple[Record, AdversarialExamples]:
    attacked = Attacked(collects=True)
    record = evaluate(shard, victim, EXAMPLES, source=attacked)
    # As they come from the disk.
    return record, decode_examples(encode_examples(attacked.examples(shard.header)))


def but_for_passes(record: Record) -> list[Outcome]:
    return [replace(outcome, num_queries=None, num_gradients=None) for outcome in record.outcomes]


def sweep_of(attack: Any, **fields: Any) -> Sweep:
    return Sweep(attacks=tuple(replace(attack, epsilon=Fraction(k, 255)) for k in (8, 16, 32)), **fields)


BOUNDED = {
    "noise": UniformNoise(epsilon=BUDGET),
    "noise l2": GaussianNoise(epsilon=Fraction(1, 4), norm="l2"),
    "fgsm": Fgsm(epsilon=BUDGET),
    "pgd": PGD,
    "pgd at success": AT_SUCCESS,
    "pgd l2": replace(PGD, norm="l2", epsilon=Fraction(1, 2), step_size=Fraction(1, 10)),
    "pgd normalised": replace(PGD, space="normalised", clip="none", labels="predicted", epsilon=Fraction(1, 4)),
    "autoattack": AutoAttack(variant="custom", epsilon=BUDGET, members=(Fgsm(epsilon=BUDGET), AT_SUCCESS), norm="linf"),
    "sweep": sweep_of(replace(PGD, step_size=Fraction(2, 255))),
    "sweep that carries": sweep_of(replace(PGD, step_size=Fraction(2, 255)), carry=True),
}
NEAREST = {
    "cw": Cw(num_steps=20, num_search_steps=3, initial_c=0.1, learning_rate=0.01),
    "fab": Fab(norm="linf", num_steps=5),
}


class TestOwnExamples:
    @pytest.mark.parametrize(
        ("perturbation", "dtype"),
        [
            *((each, "float32") for each in (*BOUNDED.values(), *NEAREST.values())),
            *((each, "float16") for each in BOUNDED.values()),
        ],
        ids=[*BOUNDED, *NEAREST, *(f"{name} float16" for name in BOUNDED)],
    )
    def test_give_the_outcomes_of_the_record_again(self, perturbation: Any, dtype: str) -> None:
        shard, victim = shard_of(perturbation, dtype=dtype), Linear()
        record, examples = measured(shard, victim)
        assert {str(array.dtype) for array in examples.points.values()} == {dtype}
        again = rescore(shard, examples, victim, EXAMPLES)
        assert list(again.outcomes) == but_for_passes(record)
        assert again.shard == record.shard

    def test_give_them_again_where_the_victim_draws_and_is_asked_several_times(self) -> None:
        shard, victim = shard_of(PGD, num_predictions=3), Linear(noise=0.3)
        record, examples = measured(shard, victim)
        assert list(rescore(shard, examples, victim, EXAMPLES).outcomes) == but_for_passes(record)
        assert len({outcome.num_correct for outcome in record.outcomes}) > 1  # type: ignore[attr-defined]

    def test_remember_where_a_search_found_one(self) -> None:
        shard = shard_of(NEAREST["cw"])
        record, examples = measured(shard, Linear())
        assert examples.found[ONE_BUDGET].tolist() == [outcome.found for outcome in record.outcomes]

    def test_that_left_their_budget_since_are_refused(self) -> None:
        shard = shard_of(PGD)
        _, examples = measured(shard, Linear())
        worse = {ONE_BUDGET: np.clip(examples.points[ONE_BUDGET] * 1.5, 0, 1)}
        with pytest.raises(BudgetExceededError):
            rescore(shard, replace(examples, points=worse), Linear(), EXAMPLES)

    @pytest.mark.parametrize("changes", [{"fingerprint": "older"}, {"name": "letters"}])
    def test_of_other_data_are_refused(self, changes: dict[str, str]) -> None:
        shard = shard_of(PGD)
        _, examples = measured(shard, Linear())
        other = replace(examples.shard, dataset=replace(examples.shard.dataset, **changes))  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="score them on the data they were made from"):
            rescore(shard, replace(examples, shard=other), Linear(), EXAMPLES)

    def test_of_another_shard_are_refused(self) -> None:
        _, examples = measured(shard_of(PGD, stop=10), Linear())
        with pytest.raises(UsageError):
            rescore(shard_of(PGD, start=10, stop=20), examples, Linear(), EXAMPLES)


class TestKeeping:
    @pytest.mark.parametrize("perturbation", [*BOUNDED.values(), *NEAREST.values()], ids=[*BOUNDED, *NEAREST])
    def test_changes_no_outcome(self, perturbation: Any) -> None:
        shard = shard_of(perturbation)
        assert measured(shard, Linear())[0].outcomes == evaluate(shard, Linear(), EXAMPLES).outcomes

    def test_holds_every_example_once_in_order_without_padding(self) -> None:
        _, examples = measured(shard_of(PGD), Linear())
        assert examples.ids == tuple(f"example/{i}" for i in range(SIZE))
        assert examples.points[ONE_BUDGET].shape == (SIZE, 1, 2, 2)

    def test_holds_a_sweep_under_the_budgets_of_its_outcomes(self) -> None:
        record, examples = measured(shard_of(BOUNDED["sweep"]), Linear())
        assert list(examples.points) == list(dict.fromkeys(outcome.epsilon for outcome in record.outcomes))
        distances = [float(np.abs(array - EXAMPLES.inputs.numpy()).max()) for array in examples.points.values()]
        assert distances == sorted(distances)

    @pytest.mark.parametrize("dtype", ["float32", "float16"])
    def test_holds_exactly_what_was_scored(self, dtype: str) -> None:
        victim = Noting()
        _, examples = measured(shard_of(Fgsm(epsilon=BUDGET), dtype=dtype, stop=10), victim)
        # The last pass is the prediction.
        stored = restored(EXAMPLES.inputs[:10], torch.tensor(examples.points[ONE_BUDGET]))
        assert torch.equal(stored, victim.seen[-1])

    def test_in_float16_never_moves_an_input_further(self) -> None:
        exact, rounded = (evaluate(shard_of(PGD, dtype=dtype), Linear(), EXAMPLES) for dtype in ("float32", "float16"))
        pairs = list(zip(exact.outcomes, rounded.outcomes, strict=True))
        for name in ("linf", "l2", "l1"):
            assert all(getattr(less, name) <= getattr(most, name) for most, less in pairs)
            assert any(getattr(less, name) < getattr(most, name) for most, less in pairs)

    def test_in_float16_is_no_way_around_the_budget(self, monkeypatch: pytest.MonkeyPatch) -> None:
        beyond = float(BUDGET) * (1 + 2.0**-12)
        half = torch.full_like(EXAMPLES.inputs, 0.5)
        monkeypatch.setattr(EXAMPLES, "inputs", half)
        monkeypatch.setattr(
            keeping,
            "perturb_each",
            lambda declaration, batch, *others: [(declaration, Perturbed(inputs=batch.inputs + beyond))],
        )
        # Rounded, the change would be within it.
        assert float(keeping.rounded_change(half, half + beyond).max()) <= float(BUDGET)
        with pytest.raises(BudgetExceededError):
            evaluate(shard_of(Fgsm(epsilon=BUDGET), dtype="float16"), Linear(), EXAMPLES)

    def test_of_what_makes_nothing_there_is_nothing(self) -> None:
        assert not Clean().makes_inputs
        assert all(each.makes_inputs for each in (*BOUNDED.values(), *NEAREST.values()))


def transferred(examples: AdversarialExamples, attack: Any, budget: str | None = None, std: float = 0.4) -> Shard:
    action = Rescore(source=examples.shard.measurement_key, mean=(0.3,), std=(std,), budget=budget)
    return shard_of(attack, action=action)


class TestTransfer:
    def test_scores_the_source_s_images_with_the_target_s_weights(self) -> None:
        _, examples = measured(shard_of(PGD), Linear(1))
        target = Linear(2)
        shard = transferred(examples, PGD)
        record = rescore(shard, examples, target, EXAMPLES)
        predictions = target.outputs(torch.tensor(examples.points[ONE_BUDGET])).argmax(1)
        assert [outcome.prediction for outcome in record.outcomes] == predictions.tolist()  # type: ignore[attr-defined]
        assert record.shard == shard.header

    def test_of_a_model_to_itself_gives_its_own_outcomes(self) -> None:
        record, examples = measured(shard_of(PGD), Linear())
        again = rescore(transferred(examples, PGD), examples, Linear(), EXAMPLES)
        assert list(again.outcomes) == but_for_passes(record)

    def test_of_one_budget_of_a_sweep_is_that_of_the_attack_alone(self) -> None:
        sweep = BOUNDED["sweep"]
        assert isinstance(sweep, Sweep)
        _, swept = measured(shard_of(sweep), Linear(1))
        attack = sweep.attacks[1]
        _, alone = measured(shard_of(attack), Linear(1))
        of_sweep = rescore(transferred(swept, attack, "16/255"), swept, Linear(2), EXAMPLES)
        of_attack = rescore(transferred(alone, attack), alone, Linear(2), EXAMPLES)
        assert of_sweep.outcomes == of_attack.outcomes

    def test_measures_a_budget_in_the_source_s_space(self) -> None:
        class Wide(Linear):
            normalisation = torch.zeros(1, 1, 1), torch.full((1, 1, 1), 0.1)

        attack = BOUNDED["pgd normalised"]
        _, examples = measured(shard_of(attack), Linear())
        rescore(transferred(examples, attack), examples, Wide(), EXAMPLES)
        with pytest.raises(BudgetExceededError):
            rescore(transferred(examples, attack, std=0.1), examples, Linear(), EXAMPLES)

    def test_leaves_the_target_s_own_normalisation_alone(self) -> None:
        target = Linear()
        shown = NormalisedAs(target, (0.1, 0.2), (0.3, 0.4))
        assert [values.flatten().tolist() for values in shown.normalisation] == [
            pytest.approx([0.1, 0.2]),
            pytest.approx([0.3, 0.4]),
        ]
        assert torch.equal(shown.outputs(EXAMPLES.inputs), target.outputs(EXAMPLES.inputs))
        assert shown.device == target.device

    def test_a_target_without_finite_logits_is_refused_by_its_own_name(self) -> None:
        class Broken(Linear):
            def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
                return super().outputs(inputs, seeds) * torch.nan

        _, examples = measured(shard_of(PGD), Linear())
        with pytest.raises(ContractError, match="model 'm' returned NaN"):
            rescore(transferred(examples, PGD), examples, Broken(), EXAMPLES)


class TestEvaluator:
    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AdversarialFolder:
        monkeypatch.setattr(evaluator, "load_model", lambda checkpoint, device: Linear())
        monkeypatch.setattr(evaluator, "open_dataset", lambda name, **options: EXAMPLES)
        return FolderStore(tmp_path).adversarial

    def test_keeps_what_attacks_make_and_nothing_of_clean_images(self, folder: AdversarialFolder) -> None:
        measure = Evaluator(adversarial=folder)
        for perturbation in (Clean(), PGD):
            assert isinstance(measure(shard_of(perturbation)), Record)
        assert folder.keys() == {shard_of(PGD).key}

    def test_keeps_nothing_unless_it_is_told_where(self, folder: AdversarialFolder) -> None:
        assert isinstance(Evaluator()(shard_of(PGD)), Record)
        assert folder.keys() == set()

    def test_reads_what_is_transferred(self, folder: AdversarialFolder) -> None:
        measure, shard = Evaluator(adversarial=folder), shard_of(PGD)
        record = measure(shard)
        assert isinstance(record, Record)
        action = Rescore(source=shard.measurement.key, mean=(0.3,), std=(0.4,))
        again = measure(shard_of(PGD, action=action))
        assert isinstance(again, Record)
        assert list(again.outcomes) == but_for_passes(record)

    @pytest.mark.parametrize("is_given", [True, False])
    def test_what_is_transferred_but_absent_fails(self, folder: AdversarialFolder, is_given: bool) -> None:
        action = Rescore(source="0" * 32, mean=(0.3,), std=(0.4,))
        failure = Evaluator(adversarial=folder if is_given else None)(shard_of(PGD, action=action))
        assert isinstance(failure, Failure)
        assert "are not kept" in failure.error
        assert "repeat the command to make them again" in failure.error

    def test_unkept_examples_are_a_failure(self, folder: AdversarialFolder, monkeypatch: pytest.MonkeyPatch) -> None:
        folder.results.joinpath("adversarial").write_text("in the way")
        failure = Evaluator(adversarial=folder)(shard_of(PGD))
        assert isinstance(failure, Failure)
        assert "could not be written" in failure.error


COUNT = 6
EPSILON = Fraction(8, 255)
FGSM = Fgsm(epsilon=EPSILON)
SWEEP = Sweep(attacks=(Fgsm(epsilon=Fraction(2, 255)), FGSM))
CW = Cw(num_steps=2, num_search_steps=1, initial_c=1.0, learning_rate=0.01)


class Projecting:
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

    def with_gradients(self, mode: str) -> Projecting:
        return self


def submitted_shard(perturbation: Any, **changes: Any) -> Shard:
    condition = Condition(name="c", dataset=DIGITS, perturbation=perturbation, **changes)
    data = robench.load_dataset("digits").identity
    return Shard(measurement=replace(MEASUREMENT, condition=condition, dataset=data, batch_size=4), start=0, stop=COUNT)


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
    shard = submitted_shard(perturbation)
    shard = replace(shard, measurement=replace(shard.measurement, adversarial_dtype=dtype))
    found = agreement(shard, *submitted_by(shard, Projecting()), Projecting())
    assert len(found.rescored) == COUNT * (1 + (perturbation is SWEEP))
    assert not (found.violates | found.differs | found.is_tied).any()


def test_a_budget_in_normalised_space_is_checked_there() -> None:
    shard = submitted_shard(Fgsm(epsilon=Fraction(1, 10), space="normalised", clip="none"))
    record, examples = submitted_by(shard, Projecting())
    points = examples.points[ONE_BUDGET].copy()
    # The budget is 0.1 x 0.25 in pixels, in either direction.
    points[2, 1, 5, 5] += 0.06
    found = agreement(shard, record, replace(examples, points={ONE_BUDGET: points}), Projecting())
    assert found.violates.tolist() == [False, False, True, False, False, False]
    assert not found.differs.any()


@pytest.mark.parametrize("wrong", [0.2, np.inf, np.nan])
def test_a_rounded_change_beyond_the_budget_is_found(wrong: float) -> None:
    shard = submitted_shard(FGSM)
    shard = replace(shard, measurement=replace(shard.measurement, adversarial_dtype="float16"))
    record, examples = submitted_by(shard, Projecting())
    assert examples.points[ONE_BUDGET].dtype == np.float16
    changes = examples.points[ONE_BUDGET].copy()
    changes[5, 0, 0, 0] = wrong
    found = agreement(shard, record, replace(examples, points={ONE_BUDGET: changes}), Projecting())
    assert np.flatnonzero(found.violates).tolist() == [5]
    # The caller's examples are as they were.
    assert examples.points[ONE_BUDGET][5, 0, 0, 0] != wrong


def test_rows_of_a_sweep_are_budget_by_budget_within_an_example() -> None:
    shard = submitted_shard(SWEEP)
    record, examples = submitted_by(shard, Projecting())
    points = {name: array.copy() for name, array in examples.points.items()}
    points["2/255"][3] = points["8/255"][3]
    found = agreement(shard, record, replace(examples, points=points), Projecting())
    assert np.flatnonzero(found.violates).tolist() == [6]
    assert found.rescored.column("epsilon").tolist()[6] == "2/255"
    part = found.take(slice(6, 8))
    assert (part.violates.tolist(), len(part.submitted), len(part.rescored)) == ([True, False], 2, 2)


class Pointwise(Projecting):
    """Model of eleven classes a pixel, each a fixed projection of its three channels."""

    def outputs(self, inputs: torch.Tensor, seeds: Any = None) -> torch.Tensor:
        weights = torch.randn(11, 3, generator=torch.Generator().manual_seed(1))
        return torch.einsum("kc,bchw->bkhw", weights, inputs)


def test_counts_of_pixels_are_compared_row_by_row() -> None:
    scenes, pointwise = robench.load_dataset("digit-scenes"), Pointwise()
    condition = Condition(name="c", dataset=DIGIT_SCENES, perturbation=FGSM)
    entry = replace(MEASUREMENT.checkpoint, task="segmentation")
    measurement = replace(MEASUREMENT, checkpoint=entry, condition=condition, dataset=scenes.identity, batch_size=4)
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
    shard = submitted_shard(CW)
    record, examples = submitted_by(shard, Projecting())
    claimed = record.outcomes.column("found").copy()
    claimed[1] = not claimed[1]
    found = agreement(shard, with_column(record, "found", claimed), examples, Projecting())
    assert np.flatnonzero(found.differs).tolist() == [1]
    assert not found.is_tied.any()


def test_another_model_disagrees_and_is_no_tie() -> None:
    shard = submitted_shard(FGSM)
    record, examples = submitted_by(shard, Projecting())
    found = agreement(shard, record, examples, Projecting(bias=50.0))
    assert found.differs.all()
    assert not found.is_tied.any()
    assert set(found.rescored.column("prediction").tolist()) == {4}


def test_of_several_predictions_a_count_is_no_tie() -> None:
    shard = submitted_shard(Clean(), num_predictions=3)
    record, _ = submitted_by(shard, Projecting())
    assert record.outcomes.column("num_predictions").tolist() == [3] * COUNT
    counts = record.outcomes.column("num_correct").copy()
    counts[0] = (counts[0] + 1) % 4
    found = agreement(shard, with_column(record, "num_correct", counts), None, Projecting())
    assert np.flatnonzero(found.differs).tolist() == [0]
    assert not found.is_tied.any()


def test_a_count_that_a_single_prediction_cannot_have_is_found() -> None:
    shard = submitted_shard(Clean())
    record, _ = submitted_by(shard, Projecting())
    found = agreement(shard, with_column(record, "num_correct", [1] * COUNT), None, Projecting())
    assert found.differs.all()


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_are_found(number: float) -> None:
    shard = submitted_shard(Clean())
    record, _ = submitted_by(shard, Projecting())
    losses = record.outcomes.column("loss_nats").copy()
    losses[4] = number
    found = agreement(shard, with_column(record, "loss_nats", losses), None, Projecting())
    assert np.flatnonzero(found.differs).tolist() == [4]


def test_a_record_of_another_shard_is_refused_before_anything_is_read() -> None:
    shard = submitted_shard(Clean())
    record, _ = submitted_by(shard, Projecting())
    nothing: Any = None
    with pytest.raises(ContractError, match=f"the record is of shard {shard.key}, wanted"):
        agreement_of(replace(shard, stop=10**9), record, None, nothing, nothing)
