"""The loop of iterative attacks: what is kept, who leaves, and that leaving changes no verdict."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import torch

from robench.attacks.attack import problem_of
from robench.attacks.fgsm import Fgsm
from robench.attacks.pgd import Pgd
from robench.attacks.problem import Problem
from robench.attacks.search import State, rows_of, search
from robench.core.protocols import Batch
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws
from robench.tasks.classification_impl import margin_loss

PGD = Pgd(epsilon=Fraction(2, 25), step_size=Fraction(1, 50), num_steps=12, num_restarts=2)


class Curved:
    """A victim of two layers, so that attacks take several steps and some examples stand."""

    device = torch.device("cpu")
    normalisation = torch.zeros(1, 1, 1), torch.ones(1, 1, 1)

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(4)
        self.first, self.second = (torch.randn(n, m, generator=generator) for n, m in ((16, 9), (4, 16)))
        self.num_rows = 0

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        self.num_rows += len(inputs)
        return torch.tanh((inputs - 0.5).flatten(1) @ self.first.T) @ self.second.T


def batch_of(num_examples: int = 64) -> Batch:
    inputs = torch.rand(num_examples, 1, 3, 3, generator=torch.Generator().manual_seed(5))
    targets = Curved().outputs(inputs).argmax(1)
    # Some are wrong from the start.
    targets[::7] = (targets[::7] + 1) % 4
    return Batch(ids=tuple(map(str, range(num_examples))), inputs=inputs, targets=targets)


def test_momentum_sums_gradients_over_their_mean_size_as_dong_et_al() -> None:
    # Equation 6 of arXiv:1710.06081, written out.
    declaration = replace(PGD, num_steps=6, num_restarts=1, momentum=0.5, random_start=False, returns="last")
    batch = batch_of(16)
    made = perturb(declaration, batch, Curved(), ExampleDraws(range(16)))
    points, summed = batch.inputs.clone(), torch.zeros_like(batch.inputs)
    for _ in range(6):
        points.requires_grad_()
        loss = torch.nn.functional.cross_entropy(Curved().outputs(points), batch.targets, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, points)
        summed = 0.5 * summed + gradient / gradient.abs().mean(dim=(1, 2, 3), keepdim=True)
        points = points.detach() + summed.sign() / 50
        points = (batch.inputs + (points - batch.inputs).clamp(-2 / 25, 2 / 25)).clamp(0, 1)
    assert torch.allclose(made.inputs, points, atol=1e-6)


class TestAtSuccess:
    def test_what_is_wrong_already_is_returned_clean(self) -> None:
        batch = batch_of()
        made = perturb(replace(PGD, stop="at_success"), batch, Curved(), ExampleDraws(range(64)))
        wrong = Curved().outputs(batch.inputs).argmax(1) != batch.targets
        assert int(wrong.sum()) >= 10
        assert torch.equal(made.inputs[wrong], batch.inputs[wrong])
        assert made.num_gradients is not None
        assert made.num_gradients[wrong].tolist() == [0] * int(wrong.sum())

    def test_an_example_leaves_only_if_the_prediction_confirms_it(self) -> None:
        class Doubting(Curved):
            """Fooled in every pass but the final prediction, whose seeds are those of ExampleDraws."""

            def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
                scores = torch.zeros(len(inputs), 4) + 0 * inputs.flatten(1)[:, :1]
                predicting = seeds is not None and set(seeds) <= set(predictions)
                scores[:, 0 if predicting else 1] += 1
                return scores

        predictions = ExampleDraws(range(3)).prediction_seeds
        batch = Batch(ids=("a", "b", "c"), inputs=torch.full((3, 1, 3, 3), 0.5), targets=torch.zeros(3).long())
        made = perturb(replace(PGD, stop="at_success"), batch, Doubting(), ExampleDraws(range(3)))
        assert made.num_gradients is not None
        assert made.num_gradients.tolist() == [24, 24, 24]

    def test_a_victim_that_draws_nothing_needs_no_confirmation_and_every_verdict_stays(self) -> None:
        class Promising(Curved):
            takes_seeds = True

        batch, declared = batch_of(), replace(PGD, stop="at_success")
        made, confirmed = (
            perturb(declared, batch, victim, ExampleDraws(range(64)), 16) for victim in (Promising(), Curved())
        )
        assert torch.equal(made.inputs, confirmed.inputs)
        assert made.num_queries is not None
        assert confirmed.num_queries is not None
        left = Curved().outputs(made.inputs).argmax(1) != batch.targets
        left &= Curved().outputs(batch.inputs).argmax(1) == batch.targets
        assert bool(left.any())
        assert torch.equal(confirmed.num_queries - made.num_queries, left.long())

    def test_one_that_promises_to_draw_from_seeds_and_does_is_confirmed(self) -> None:
        class Drawing(Curved):
            """Fooled with most seeds, but not with those of the prediction."""

            takes_seeds = True

            def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
                scores = torch.zeros(len(inputs), 4) + 0 * inputs.flatten(1)[:, :1]
                assert seeds is not None
                predicting = torch.tensor([seed in predictions for seed in seeds])
                scores[:, 1] = torch.where(predicting, -1.0, 1.0)
                return scores

        predictions = ExampleDraws(range(3)).prediction_seeds
        batch = Batch(ids=("a", "b", "c"), inputs=torch.full((3, 1, 3, 3), 0.5), targets=torch.zeros(3).long())
        made = perturb(replace(PGD, stop="at_success"), batch, Drawing(), ExampleDraws(range(3)))
        assert made.num_gradients is not None
        assert made.num_gradients.tolist() == [24, 24, 24]


@dataclass(frozen=True, slots=True)
class Walk(State):
    """A state with more than the points."""

    memory: torch.Tensor | None = None
    pair: tuple[torch.Tensor, int] | None = None


class Stairs:
    """Visits the points x + 0.1 s, s = 0, 1, 2 ..., and remembers which row is which."""

    num_steps = 4
    loss = staticmethod(margin_loss)

    def begin(self, problem: Problem, restart: int) -> Walk:
        return Walk(points=problem.inputs, memory=problem.rows.clone(), pair=(problem.rows.clone(), 7))

    def step(self, problem: Problem, state: Walk, step: int) -> Walk:
        assert state.memory is not None
        assert state.pair is not None
        assert torch.equal(state.memory, problem.rows)
        assert torch.equal(state.pair[0], problem.rows)
        seen = problem.evaluate(state.points, self.loss)
        return replace(state, points=state.points + 0.1, seen=seen)


class Slope:
    """Two classes; the margin of class 0 falls until the mean reaches ``turn`` and rises from there."""

    device = torch.device("cpu")
    normalisation = torch.zeros(1, 1, 1), torch.ones(1, 1, 1)

    def __init__(self, turn: float, depth: float) -> None:
        self.turn, self.depth = turn, depth

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        margin = (inputs.flatten(1).mean(1) - self.turn).abs() - self.depth
        return torch.stack([margin, -margin], 1)


def walked(turn: float, depth: float, **options: Any) -> torch.Tensor:
    batch = Batch(ids=("a", "b"), inputs=torch.tensor([0.2, 0.3]).view(2, 1, 1, 1), targets=torch.zeros(2).long())
    unbounded = Fgsm(epsilon=Fraction(9, 10))
    problem = problem_of(unbounded, batch, Slope(turn, depth), ExampleDraws([0, 1]), 2)
    return search(Stairs(), problem, num_restarts=1, **options).points.flatten()


class TestKept:
    def test_best_is_the_visited_point_of_highest_loss_the_last_among_them(self) -> None:
        torch.testing.assert_close(walked(turn=0.4, depth=-1.0), torch.tensor([0.4, 0.4]))
        torch.testing.assert_close(walked(turn=0.9, depth=-1.0), torch.tensor([0.6, 0.7]))
        # The last one is returned whatever its loss.
        torch.testing.assert_close(walked(turn=0.4, depth=-1.0, returns="last"), torch.tensor([0.6, 0.7]))

    def test_a_fooled_point_is_kept_before_one_of_higher_loss(self) -> None:
        class Odd(Stairs):
            """A loss that is lower where the victim is fooled."""

            loss = staticmethod(lambda logits, labels: -margin_loss(logits, labels))

        batch = Batch(ids=("a",), inputs=torch.full((1, 1, 1, 1), 0.2), targets=torch.zeros(1).long())
        problem = problem_of(Fgsm(epsilon=Fraction(9, 10)), batch, Slope(0.4, 0.05), ExampleDraws([0]), 1)
        torch.testing.assert_close(search(Odd(), problem, num_restarts=1).points.flatten(), torch.tensor([0.4]))

    def test_rows_of_a_state_are_those_of_all_that_it_holds(self) -> None:
        state = Walk(points=torch.arange(6.0).view(3, 2), memory=torch.arange(3), pair=(torch.arange(3), 7))
        some = rows_of(state, torch.tensor([True, False, True]))
        assert some.points.tolist() == [[0.0, 1.0], [4.0, 5.0]]
        assert some.memory.tolist() == [0, 2]
        assert some.pair[0].tolist() == [0, 2]
        assert some.pair[1] == 7
        assert some.seen is None

    def test_the_loss_of_an_attack_is_what_its_points_are_compared_by(self) -> None:
        batch = batch_of()
        best = replace(PGD, loss="margin")
        made = [
            perturb(each, batch, Curved(), ExampleDraws(range(64))).inputs
            for each in (best, replace(best, returns="last", num_restarts=1))
        ]
        of_best, of_last = (margin_loss(Curved().outputs(inputs), batch.targets) for inputs in made)
        assert bool((of_best >= of_last - 1e-6).all())
