"""The harness distrusts plug-ins: what they promise is measured, and success is decided here."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from classified_examples import Examples, ReadingAhead

from robench.attacks.fgsm import Fgsm
from robench.attacks.noise import UniformNoise
from robench.attacks.pgd import Pgd
from robench.core.columns import Outcomes, Values
from robench.core.errors import BudgetExceededError, ContractError, DeclarationError, ExampleError, MissingDataError
from robench.core.protocols import Perturbed
from robench.core.records import Failure, Record
from robench.datasets.digits import DIGITS
from robench.domains.images import IMAGES
from robench.domains.real_valued import BUDGET_TOLERANCE
from robench.evaluation import evaluator, keeping
from robench.evaluation.arithmetic import device_kind, fixed_arithmetic, library_versions
from robench.evaluation.evaluate import evaluate
from robench.evaluation.evaluator import Evaluator
from robench.perturbations.clean import Clean
from robench.tasks.base import Scoring
from robench.tasks.classification import CLASSIFICATION, ClassificationOutcome

EXAMPLES = Examples(25, (1, 2, 2), num_classes=3)
SIZE = len(EXAMPLES)


class Watched:
    """A linear victim that notes what it was shown."""

    device = torch.device("cpu")
    normalisation = torch.full((1, 1, 1), 0.4), torch.full((1, 1, 1), 0.25)

    def __init__(self) -> None:
        self.weight = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
        self.shapes: list[tuple[int, ...]] = []
        self.seeds: list[Sequence[int] | None] = []
        self.threads: list[int] = []

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        self.shapes.append(tuple(inputs.shape))
        self.seeds.append(seeds)
        self.threads.append(torch.get_num_threads())
        return inputs.flatten(1) @ self.weight.T


shard_of = EXAMPLES.shard
FGSM = Fgsm(epsilon=Fraction(8, 255))


class TestEvaluate:
    def test_every_example_is_measured_once_in_order_in_passes_of_batch_size_rows(self) -> None:
        victim = Watched()
        record = evaluate(shard_of(FGSM), victim, EXAMPLES)
        assert [outcome.example_id for outcome in record.outcomes] == [f"example/{i}" for i in range(SIZE)]
        assert victim.shapes == [(10, 1, 2, 2)] * 6

    @pytest.mark.parametrize(
        ("shift", "is_refused"),
        [
            (lambda number: number > 30, True),
            (lambda number: number > 2, True),
            (lambda number: 0.0, False),
            (lambda number: number, False),  # all answers differ, as those of random numbers
            (lambda number: float(torch.rand(())), False),
            (lambda number: float(np.random.rand()), False),
        ],
    )
    def test_other_answers_at_the_end_are_refused(self, shift: Callable[[int], float], is_refused: bool) -> None:
        class Changing(Watched):
            def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
                logits = super().outputs(inputs, seeds)
                return logits + shift(len(self.shapes)) * torch.eye(3)[0]

        pgd = Pgd(epsilon=Fraction(8, 255), relative_step=Fraction(1, 4), num_steps=10)
        if not is_refused:
            assert len(evaluate(shard_of(pgd), Changing(), EXAMPLES).outcomes) == SIZE
            return
        with pytest.raises(ContractError, match="end of the shard the model answers the same examples otherwise"):
            evaluate(shard_of(pgd), Changing(), EXAMPLES)

    def test_computes_with_one_thread_and_restores_the_callers(self) -> None:
        before = torch.get_num_threads()
        torch.set_num_threads(2)
        victim = Watched()
        evaluate(shard_of(FGSM), victim, EXAMPLES)
        assert set(victim.threads) == {1}
        assert torch.get_num_threads() == 2
        torch.set_num_threads(before)

    def test_leaves_the_global_generators_as_they_were(self) -> None:
        class Drawing(Watched):
            def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
                torch.rand(3)
                return super().outputs(inputs, seeds)

        torch.manual_seed(5)
        before = torch.random.get_rng_state()
        evaluate(shard_of(FGSM), Drawing(), EXAMPLES)
        assert torch.equal(torch.random.get_rng_state(), before)

    def test_shards_cut_anywhere_hold_the_same_outcomes(self) -> None:
        noise = UniformNoise(epsilon=Fraction(8, 255))
        whole = evaluate(shard_of(noise), Watched(), EXAMPLES).outcomes
        parts = [evaluate(shard_of(noise, *at), Watched(), EXAMPLES).outcomes for at in ((0, 10), (10, 20), (20, 25))]
        assert Outcomes.joined(parts) == whole

    def test_a_prediction_has_seeds_of_its_own_that_depend_on_the_example_alone(self) -> None:
        seen = []
        for shard in (shard_of(FGSM), shard_of(Clean()), shard_of(FGSM, batch_size=25)):
            victim = Watched()
            evaluate(shard, victim, EXAMPLES)
            passes_a_batch = len(victim.seeds) // len(range(0, SIZE, shard.measurement.batch_size))
            predictions = victim.seeds[passes_a_batch - 1 :: passes_a_batch]
            seen.append([seed for seeds in predictions for seed in seeds or ()][:SIZE])
        assert len(set(seen[0])) == SIZE
        assert seen[0] == seen[1] == seen[2]

    def test_every_pass_of_an_attack_has_draws_that_no_other_pass_has(self) -> None:
        pgd = Pgd(epsilon=Fraction(8, 255), step_size=Fraction(2, 255), num_steps=5)
        victim = Watched()
        evaluate(shard_of(pgd, stop=10), victim, EXAMPLES)
        # Five steps, a look at where the last one led, and the prediction.
        assert len(victim.seeds) == 7
        seeds = [seed for of_pass in victim.seeds for seed in of_pass or ()]
        assert len(set(seeds)) == len(seeds) == 70

    def test_passes_of_an_attack_are_counted_for_each_example(self) -> None:
        pgd = Pgd(epsilon=Fraction(8, 255), step_size=Fraction(2, 255), num_steps=5)
        for outcome in evaluate(shard_of(pgd), Watched(), EXAMPLES).outcomes:
            assert (outcome.num_queries, outcome.num_gradients) == (6, 5)
        assert evaluate(shard_of(Clean()), Watched(), EXAMPLES).outcomes[0].num_queries is None

    def test_provenance_says_where_and_for_which_limit(self) -> None:
        provenance = evaluate(shard_of(Clean()), Watched(), EXAMPLES, limit=7).provenance
        assert provenance.limit == 7
        assert provenance.device == device_kind(torch.device("cpu"))
        assert provenance.versions == library_versions()
        assert provenance.seconds > 0

    def test_a_dataset_outside_the_pixel_range_is_refused(self) -> None:
        levels = Examples(SIZE, (1, 2, 2), num_classes=3)
        levels.inputs *= 255
        with pytest.raises(ContractError, match=r"dataset 'digits' gave inputs from .* wanted \[0, 1\]"):
            evaluate(shard_of(Clean()), Watched(), levels)

    @pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
    def test_a_victim_without_finite_logits_is_refused(self, bad: float) -> None:
        class Broken(Watched):
            def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
                scores = super().outputs(inputs, seeds)
                return torch.cat([scores[:-1], scores[-1:] * 0 + bad])

        with pytest.raises(ContractError, match="NaN or infinite logits for 1 of 10 inputs") as caught:
            evaluate(shard_of(Clean()), Broken(), EXAMPLES)
        assert ("minus infinity alone: give classes without a chance a large negative" in str(caught.value)) == (
            bad == -math.inf
        )

    def test_an_attack_that_leaves_its_budget_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            keeping,
            "perturb_each",
            lambda declaration, batch, *others: [(declaration, Perturbed(inputs=1 - batch.inputs))],
        )
        with pytest.raises(BudgetExceededError, match=r"'fgsm' moved an input by 0\.\d+ in linf.*8/255"):
            evaluate(shard_of(FGSM), Watched(), EXAMPLES)


class TestContracts:
    clean = torch.full((3, 1, 2, 2), 0.5)

    def test_distances_are_those_of_numpy(self) -> None:
        moved = torch.rand(3, 1, 2, 2, generator=torch.Generator().manual_seed(2))
        distances = IMAGES.rules.check_perturbed(moved, self.clean, Clean(), Watched())
        change = (moved.double() - self.clean.double()).flatten(1).numpy()
        np.testing.assert_allclose(distances["linf"], np.linalg.norm(change, np.inf, axis=1))
        np.testing.assert_allclose(distances["l2"], np.linalg.norm(change, 2, axis=1))
        np.testing.assert_allclose(distances["l1"], np.linalg.norm(change, 1, axis=1))

    @pytest.mark.parametrize("excess", [0.0, 0.9 * BUDGET_TOLERANCE])
    def test_rounding_is_tolerated_and_more_is_not(self, excess: float) -> None:
        moved = (self.clean.double() + 8 / 255 + excess).double()
        IMAGES.rules.check_perturbed(moved, self.clean, FGSM, Watched())
        with pytest.raises(BudgetExceededError):
            IMAGES.rules.check_perturbed(self.clean + 8 / 255 + 3e-6, self.clean, FGSM, Watched())

    def test_a_budget_is_checked_in_the_attacks_own_space(self) -> None:
        fgsm = replace(FGSM, space="normalised", clip="none")
        # The deviation is 1/4, so that 8/255 there are 2/255 in pixels, the unit of distances.
        distances = IMAGES.rules.check_perturbed(self.clean + 2 / 255, self.clean, fgsm, Watched())
        np.testing.assert_allclose(distances["linf"], 2 / 255, rtol=1e-5)
        with pytest.raises(BudgetExceededError, match="more than its budget"):
            IMAGES.rules.check_perturbed(self.clean + 2.01 / 255, self.clean, fgsm, Watched())

    def test_only_an_attack_without_clip_may_leave_the_pixel_range(self) -> None:
        clean = torch.ones(3, 1, 2, 2)
        IMAGES.rules.check_perturbed(clean + 1 / 255, clean, replace(FGSM, clip="none"), Watched())
        with pytest.raises(ContractError, match=r"wanted \[0, 1\]"):
            IMAGES.rules.check_perturbed(clean + 1 / 255, clean, FGSM, Watched())
        with pytest.raises(ContractError, match="NaN or infinite inputs"):
            IMAGES.rules.check_perturbed(clean + math.inf, clean, replace(FGSM, clip="none"), Watched())

    @pytest.mark.parametrize("value", [-1e-6, 1.0001, math.nan])
    def test_values_outside_the_pixel_range_are_refused(self, value: float) -> None:
        moved = self.clean.clone()
        moved[1, 0, 0, 0] = value
        with pytest.raises(ContractError, match=r"wanted \[0, 1\]"):
            IMAGES.rules.check_perturbed(moved, self.clean, Clean(), Watched())

    def test_another_shape_is_refused(self) -> None:
        with pytest.raises(ContractError, match=r"returned shape \(2, 1, 2, 2\), wanted \(3, 1, 2, 2\)"):
            IMAGES.rules.check_perturbed(self.clean[:2], self.clean, Clean(), Watched())

    @pytest.mark.parametrize("shape", [(3,), (2, 4), (3, 4, 1)])
    def test_scores_of_another_shape_are_refused(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(ContractError, match=r"model 'm' returned shape .* wanted \(3, classes\)"):
            CLASSIFICATION.rules.check_outputs(torch.zeros(shape), 3, "m")


class TestJudge:
    @staticmethod
    def judged(logits: list[float], target: int) -> ClassificationOutcome:
        scoring = Scoring(dataset=DIGITS)
        columns = CLASSIFICATION.rules.columns([torch.tensor([logits])], torch.tensor([target]), scoring)
        ids = Values(np.array(["a"], np.dtypes.StringDType()))
        (outcome,) = Outcomes(ClassificationOutcome, {"example_id": ids, **columns}, 1)
        return outcome

    def test_confidence_and_loss_are_those_of_the_softmax(self) -> None:
        outcome = self.judged([1.0, 3.0, 2.0], target=2)
        shares = np.exp([1.0, 3.0, 2.0]) / np.exp([1.0, 3.0, 2.0]).sum()
        assert outcome.prediction == 1
        assert outcome.confidence == pytest.approx(shares[1])
        assert outcome.loss_nats == pytest.approx(-np.log(shares[2]))

    @pytest.mark.parametrize(
        ("target", "top1", "top5"), [(6, True, True), (2, False, True), (1, False, False), (0, False, False)]
    )
    def test_places_are_counted_from_the_highest_score(self, target: int, top1: bool, top5: bool) -> None:
        outcome = self.judged([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0], target)
        assert (outcome.correct_top1, outcome.correct_top5) == (top1, top5)

    def test_ties_go_to_the_lower_class(self) -> None:
        assert [self.judged([1.0] * 7, target).correct_top1 for target in range(7)] == [True] + [False] * 6
        assert [self.judged([1.0] * 7, target).correct_top5 for target in range(7)] == [True] * 5 + [False] * 2
        assert self.judged([1.0] * 7, 3).prediction == 0

    def test_huge_scores_stay_finite(self) -> None:
        outcome = self.judged([1e30, -1e30, 0.0], target=1)
        assert math.isfinite(outcome.loss_nats)
        assert outcome.confidence == 1.0


class TestArithmetic:
    def test_settings_are_restored_after_an_error(self) -> None:
        before = torch.backends.cudnn.benchmark, torch.get_num_threads()
        with fixed_arithmetic(torch.device("cpu")):
            assert torch.get_num_threads() == 1
            assert torch.backends.cudnn.deterministic
            assert not torch.backends.cuda.matmul.allow_tf32
            assert not torch.are_deterministic_algorithms_enabled()
        with pytest.raises(ZeroDivisionError), fixed_arithmetic(torch.device("cpu")):
            raise ZeroDivisionError
        assert (torch.backends.cudnn.benchmark, torch.get_num_threads()) == before

    def test_other_devices_compute_with_deterministic_kernels_where_there_are_any(self) -> None:
        before = torch.get_deterministic_debug_mode(), torch.utils.deterministic.fill_uninitialized_memory
        # Stands for a GPU.
        with fixed_arithmetic(torch.device("meta")):
            assert torch.are_deterministic_algorithms_enabled()
            assert torch.is_deterministic_algorithms_warn_only_enabled()
            assert not torch.utils.deterministic.fill_uninitialized_memory
        after = torch.get_deterministic_debug_mode(), torch.utils.deterministic.fill_uninitialized_memory
        assert after == before

    def test_the_kind_of_a_cpu_names_its_instructions(self) -> None:
        assert device_kind(torch.device("cpu")).startswith("cpu ")


class TestEvaluator:
    @pytest.fixture
    def loads(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        loaded: list[str] = []

        def load(checkpoint: Any, device: str) -> Watched:
            loaded.append(f"{checkpoint.name} {checkpoint.weights.sha256[:4]}")
            return Watched()

        monkeypatch.setattr(evaluator, "load_model", load)
        monkeypatch.setattr(evaluator, "open_dataset", lambda name, **options: EXAMPLES)
        return loaded

    def test_a_victim_stays_loaded_across_its_shards(self, loads: list[str]) -> None:
        measure = Evaluator()
        assert all(isinstance(measure(shard_of(FGSM, start, start + 10)), Record) for start in (0, 10))
        assert loads == ["m 0000"]

    def test_a_model_that_checks_loaded_is_measured_if_its_weights_are_the_planned_ones(self, loads: list[str]) -> None:
        ready: Any = Watched()
        shard = shard_of(FGSM, 0, 10)
        measure = Evaluator(loaded={"m": (shard.measurement.weights_digest, ready)})
        assert isinstance(measure(shard), Record)
        assert isinstance(measure(shard_of(FGSM, 10, 20)), Record)
        assert (loads, bool(ready.seeds), measure.loaded) == ([], True, {})
        stale = Evaluator(loaded={"m": ("1" * 64, ready)})
        assert isinstance(stale(shard), Record)
        assert loads == ["m 0000"]

    def test_another_checkpoint_takes_its_place(self, loads: list[str]) -> None:
        measure, first = Evaluator(), shard_of(FGSM, 0, 10)
        other = replace(first.measurement, checkpoint=replace(first.measurement.checkpoint, name="n"))
        for shard in (first, replace(first, measurement=other), first):
            measure(shard)
        assert loads == ["m 0000", "n 0000", "m 0000"]

    def test_the_next_shards_examples_are_read_ahead(self, loads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        dataset = ReadingAhead(SIZE, (1, 2, 2), num_classes=3)
        monkeypatch.setattr(evaluator, "open_dataset", lambda name, **options: dataset)
        Evaluator()(shard_of(FGSM, 0, 20), shard_of(FGSM, 20, 25))
        assert dataset.calls == [(0, 10), "ahead", (10, 20), (10, 20), "ahead", (20, 25)]
        dataset.calls.clear()
        # With early stopping other examples fill the batches: all of a shard are read at once.
        stopping = Pgd(epsilon=Fraction(8, 255), step_size=Fraction(2, 255), num_steps=2, stop="at_success")
        Evaluator()(shard_of(FGSM, 20, 25), shard_of(stopping, 0, 25))
        assert dataset.calls == [(20, 25), "ahead", (0, 25)]

    def test_an_unreadable_next_shard_costs_nothing(self, loads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        def opened(declared: Any, **options: object) -> Examples:
            if declared is not DIGITS:
                raise MissingDataError("it was moved away")
            return EXAMPLES

        monkeypatch.setattr(evaluator, "open_dataset", opened)
        shard = shard_of(FGSM, 0, 10)
        condition = replace(shard.measurement.condition, dataset=replace(DIGITS, title="moved"))
        following = replace(shard, measurement=replace(shard.measurement, condition=condition))
        measure = Evaluator()
        assert isinstance(measure(shard, following), Record)
        failure = measure(following)
        assert isinstance(failure, Failure)
        assert "moved away" in failure.error

    @pytest.mark.parametrize(
        "error", [ExampleError("a.jpg cannot be read"), ValueError("boom"), MemoryError(), DeclarationError("no")]
    )
    def test_whatever_goes_wrong_becomes_a_failure_with_its_traceback(
        self, loads: list[str], monkeypatch: pytest.MonkeyPatch, error: Exception
    ) -> None:
        def fail(*arguments: object, **settings: object) -> Record:
            raise error

        monkeypatch.setattr("robench.evaluation.evaluate.evaluate", fail)
        failure = Evaluator(limit=3)(shard_of(FGSM))
        assert isinstance(failure, Failure)
        assert str(error) in failure.error
        assert failure.is_refusal == isinstance(error, DeclarationError)
        assert "Traceback" in failure.traceback
        assert failure.shard == shard_of(FGSM).header
        assert failure.provenance.limit == 3

    def test_data_that_changed_since_the_plan_is_refused(self, loads: list[str]) -> None:
        shard = shard_of(FGSM)
        stale = replace(shard.measurement, dataset=replace(EXAMPLES.identity, fingerprint="older"))
        failure = Evaluator()(replace(shard, measurement=stale))
        assert isinstance(failure, Failure)
        assert "changed while it was being measured" in failure.error
