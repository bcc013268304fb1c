"""Sweeps: what the attack alone does at every budget, and what carrying changes of it."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
import torch
from classified_examples import Examples

from examples import MEASUREMENT
from robench.attacks.apgd import Apgd
from robench.attacks.autoattack import AutoAttack
from robench.attacks.fgsm import Fgsm
from robench.attacks.noise import UniformNoise
from robench.attacks.pgd import Pgd
from robench.attacks.sparse_l1 import SparseL1
from robench.attacks.spsa import Spsa
from robench.attacks.square import Square
from robench.core.errors import BudgetExceededError
from robench.core.protocols import Batch
from robench.core.shard import Shard
from robench.core.suite import Condition
from robench.datasets.digits import DIGITS
from robench.evaluation.evaluate import evaluate
from robench.perturbations.dispatch import perturb, perturb_each
from robench.perturbations.draws import ExampleDraws
from robench.perturbations.sweep import Sweep
from robench.tasks.classification import ClassificationOutcome

SIZE = 24
EPSILONS = (Fraction(0), Fraction(1, 50), Fraction(1, 20), Fraction(1, 10))
PGD = Pgd(epsilon=EPSILONS[1], relative_step=Fraction(1, 4), num_steps=4)
ATTACKS: dict[str, Any] = {
    "fgsm": Fgsm(epsilon=EPSILONS[1]),
    "noise": UniformNoise(epsilon=EPSILONS[1]),
    "pgd": replace(PGD, num_restarts=2),
    "pgd-last": replace(PGD, returns="last"),
    "pgd-at-success": replace(PGD, stop="at_success", num_restarts=2),
    "pgd-normalised": replace(PGD, space="normalised"),
    "apgd": Apgd(epsilon=EPSILONS[1], num_steps=5),
    "apgd-l1": Apgd(epsilon=EPSILONS[1], num_steps=5, norm="l1", radii="shrinking"),
    "square": Square(epsilon=EPSILONS[1], num_queries=8, p_init=0.8),
    "spsa": Spsa(
        epsilon=EPSILONS[1], num_steps=3, learning_rate=Fraction(1, 50), delta=Fraction(1, 100), num_samples=4
    ),
    "sparse-l1": SparseL1(epsilon=EPSILONS[1], step_size=Fraction(1, 50), num_steps=4, sparsity=0.5),
    "autoattack": AutoAttack(
        epsilon=EPSILONS[1], variant="custom", members=(Apgd(epsilon=EPSILONS[1], num_steps=3, stop="at_success"),)
    ),
}


class Curved:
    """A victim of two layers; with ``noise`` its logits depend on the seed of the pass."""

    device = torch.device("cpu")
    normalisation = torch.full((1, 1, 1), 0.4), torch.full((1, 1, 1), 0.25)

    def __init__(self, noise: float = 0.0) -> None:
        generator = torch.Generator().manual_seed(4)
        self.first, self.second = (torch.randn(n, m, generator=generator) for n, m in ((16, 9), (4, 16)))
        self.noise = noise
        self.shown: list[torch.Tensor] = []

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        self.shown.append(inputs.detach().clone())
        scores = torch.tanh((inputs - 0.5).flatten(1) @ self.first.T) @ self.second.T
        if not self.noise or seeds is None:
            return scores
        return scores + self.noise * torch.tensor([[(seed >> place) % 7 for place in range(4)] for seed in seeds])


class Mostly(Examples):
    """Examples of 3x3 pixels in 4 classes, every seventh wrong when clean."""

    def __init__(self) -> None:
        super().__init__(SIZE, (1, 3, 3), num_classes=4)
        self.inputs = torch.rand(SIZE, 1, 3, 3, generator=torch.Generator().manual_seed(5))
        self.targets = Curved().outputs(self.inputs).argmax(1)
        self.targets[::7] = (self.targets[::7] + 1) % 4


def at(attack: Any, epsilon: Fraction) -> Any:
    if isinstance(attack, AutoAttack):
        return replace(attack, epsilon=epsilon, members=tuple(at(member, epsilon) for member in attack.members))
    if isinstance(attack, SparseL1):
        return replace(attack, epsilon=epsilon * 9, step_size=Fraction(1, 50))
    return replace(attack, epsilon=epsilon * 9 if attack.norm == "l1" else epsilon)


def sweep_of(attack: Any, *epsilons: Fraction, **fields: Any) -> Sweep:
    return Sweep(attacks=tuple(at(attack, epsilon) for epsilon in epsilons or EPSILONS[1:]), **fields)


def measured(
    perturbation: Any, *, noise: float = 0.0, num_predictions: int = 1, batch_size: int = 8, cuts: Sequence[int] = ()
) -> list[ClassificationOutcome]:
    condition = Condition(name="c", dataset=DIGITS, perturbation=perturbation, num_predictions=num_predictions)
    measurement = replace(MEASUREMENT, condition=condition, dataset=Mostly().identity, batch_size=batch_size)
    bounds = [0, *cuts, SIZE]
    shards = [Shard(measurement=measurement, start=a, stop=b) for a, b in pairwise(bounds)]
    found = [outcome for shard in shards for outcome in evaluate(shard, Curved(noise), Mostly()).outcomes]
    assert all(isinstance(outcome, ClassificationOutcome) for outcome in found)
    return found  # type: ignore[return-value]  # asserted


def by_budget(outcomes: Sequence[ClassificationOutcome]) -> dict[str, list[ClassificationOutcome]]:
    budgets: dict[str, list[ClassificationOutcome]] = {}
    for outcome in outcomes:
        budgets.setdefault(str(outcome.epsilon), []).append(outcome)
    return budgets


def batch() -> Batch:
    return Mostly().batch(0, SIZE)


@pytest.mark.parametrize("name", ATTACKS)
def test_every_budget_has_the_outcomes_of_the_attack_alone(name: str) -> None:
    epsilons = EPSILONS if name != "sparse-l1" else EPSILONS[1:]
    sweep = sweep_of(ATTACKS[name], *epsilons)
    # A victim that draws, so that other seeds would be seen.
    found = by_budget(measured(sweep, noise=0.02, num_predictions=2))
    assert list(found) == [str(attack.epsilon) for attack in sweep.at_budgets]
    for attack in sweep.at_budgets:
        alone = measured(attack, noise=0.02, num_predictions=2)
        assert [replace(outcome, epsilon=None) for outcome in found[str(attack.epsilon)]] == alone


def test_outcomes_stand_example_by_example_with_rising_budgets() -> None:
    outcomes = measured(sweep_of(PGD))
    assert [(outcome.example_id, outcome.epsilon) for outcome in outcomes] == [
        (f"example/{i}", str(epsilon)) for i in range(SIZE) for epsilon in EPSILONS[1:]
    ]


def test_a_budget_of_zero_returns_the_clean_input() -> None:
    found = by_budget(measured(sweep_of(PGD, *EPSILONS)))["0"]
    assert {outcome.linf for outcome in found} == {0.0}


def test_every_budget_is_checked_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = sweep_of(PGD)
    largest = perturb(sweep.at_budgets[-1], batch(), Curved(), ExampleDraws(range(SIZE)))

    def too_far(declaration: Any, batch: Batch, *others: Any) -> Any:
        rows = [int(each.split("/")[1]) for each in batch.ids]
        return replace(largest, inputs=largest.inputs[rows])

    monkeypatch.setattr("robench.perturbations.dispatch.perturb", too_far)
    with pytest.raises(BudgetExceededError, match=r"more than its budget 0\.02"):
        measured(sweep)


class TestCarry:
    @pytest.mark.parametrize("name", ["fgsm", "pgd", "pgd-at-success", "apgd", "square", "autoattack"])
    def test_what_a_smaller_budget_fooled_keeps_its_adversarial_example(self, name: str) -> None:
        small, *larger = by_budget(measured(sweep_of(ATTACKS[name], carry=True))).values()
        fooled = [i for i, outcome in enumerate(small) if not outcome.correct_top1]
        assert fooled
        for budget in larger:
            for i in fooled:
                kept = (budget[i].linf, budget[i].l2, budget[i].prediction, budget[i].correct_top1)
                assert kept == (small[i].linf, small[i].l2, small[i].prediction, False)

    def test_what_stands_is_attacked_as_by_the_attack_alone(self) -> None:
        plain, carrying = (by_budget(measured(sweep_of(PGD, carry=carry))) for carry in (False, True))
        fooled: set[str] = set()
        for epsilon, outcomes in carrying.items():
            for alone, carried in zip(plain[epsilon], outcomes, strict=True):
                if carried.example_id not in fooled:
                    assert (carried.linf, carried.prediction) == pytest.approx((alone.linf, alone.prediction))
            fooled |= {outcome.example_id for outcome in outcomes if not outcome.correct_top1}
        assert 0 < len(fooled) < SIZE

    def test_what_is_carried_costs_one_prediction(self) -> None:
        small, *larger = by_budget(measured(sweep_of(PGD, carry=True))).values()
        for budget in larger:
            for before, outcome in zip(small, budget, strict=True):
                if not before.correct_top1:
                    assert (outcome.num_queries, outcome.num_gradients) == (1, 0)
        standing = [outcome for before, outcome in zip(small, larger[0], strict=True) if before.correct_top1]
        assert {(outcome.num_queries, outcome.num_gradients) for outcome in standing} == {(6, 4)}

    def test_scores_of_what_was_left_alone_are_not_kept(self) -> None:
        for outcome in measured(sweep_of(PGD, carry=True)):
            assert outcome.loss_nats is outcome.confidence is outcome.correct_top5 is None

    def test_fooled_examples_make_room_for_others_in_a_pass(self) -> None:
        victim, sweep = Curved(), sweep_of(PGD, EPSILONS[-1], Fraction(1, 5), carry=True)
        found = list(perturb_each(sweep, batch(), victim, ExampleDraws(range(SIZE)), 8))
        stands = int((Curved().outputs(found[0][1].inputs).argmax(1) == batch().targets).sum())
        assert 0 < stands <= 8
        # The attack of the second budget ends with a look at where its last step led.
        assert [len(shown) for shown in victim.shown[-5:]] == [8] * 5

    def test_where_everything_fell_nothing_is_attacked(self) -> None:
        wrong = replace(batch(), targets=(Curved().outputs(batch().inputs).argmax(1) + 1) % 4)
        sweep = sweep_of(UniformNoise(epsilon=0), Fraction(0), Fraction(1, 10), carry=True)
        (_, first), (_, second) = perturb_each(sweep, wrong, Curved(), ExampleDraws(range(SIZE)))
        assert torch.equal(first.inputs, second.inputs)
        assert second.num_queries is not None
        assert second.num_queries.tolist() == [1] * SIZE
