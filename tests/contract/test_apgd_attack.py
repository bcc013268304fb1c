"""Auto-PGD: closed-form optima, Algorithm 1 again by hand, the mechanisms of both forms, and the paper's code."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Any

import pytest
import torch
from attack_examples import FunctionVictim, attacked, by_rows
from torch import Tensor
from torch.nn.functional import cross_entropy

from robench import load_checkpoint, load_dataset
from robench.attacks.apgd import WIDER, Apgd
from robench.attacks.apgd_impl import Pace, checkpoints
from robench.attacks.apgd_l1 import Sparsity, phases
from robench.attacks.apgd_objective import Targets
from robench.attacks.attack import problem_of
from robench.core.protocols import Batch
from robench.core.seeds import Stream
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws
from robench.tasks.classification_impl import dlr_loss

SHAPE = (3, 4, 4)
SIZE = 48
LINF = Apgd(epsilon=Fraction(8, 255), num_steps=30)
L2 = Apgd(norm="l2", epsilon=Fraction(1, 4), num_steps=30)
L1 = Apgd(norm="l1", epsilon=Fraction(1, 4), num_steps=60)
SHRINKING = replace(L1, radii="shrinking")
LOSSES = ("ce", "margin", "dlr", "dlr-targeted", "objective")


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def linear(num_classes: int = 5, seed: int = 0) -> FunctionVictim:
    weight = drawn(num_classes, SIZE, seed=seed)
    return FunctionVictim(lambda inputs: (inputs - 0.5).flatten(1) @ weight.T)


def curved(num_classes: int = 6, seed: int = 3) -> FunctionVictim:
    first, second = drawn(20, SIZE, seed=seed), drawn(num_classes, 20, seed=seed + 1)
    return FunctionVictim(lambda inputs: by_rows(torch.tanh(2 * by_rows((inputs - 0.5).flatten(1), first)), second))


def batch_of(num_examples: int = 8, victim: FunctionVictim | None = None, seed: int = 1) -> Batch:
    """Inputs that touch the borders of the box; labelled as the victim sees them, or at random."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.rand(num_examples, *SHAPE, generator=generator)
    inputs[0, 0, 0] = torch.tensor([0.0, 1.0, 1e-8, 1 - 2**-24])
    targets = torch.randint(0, 5, (num_examples,), generator=generator)
    if victim is not None:
        targets = victim.outputs(inputs).argmax(1)
    return Batch(ids=tuple(f"example-{i}" for i in range(num_examples)), inputs=inputs, targets=targets)


def middle_of_the_box(num_examples: int = 4) -> Batch:
    inputs = 0.45 + 0.1 * torch.rand(num_examples, *SHAPE, generator=torch.Generator().manual_seed(2))
    return Batch(ids=tuple("abcdefgh"[:num_examples]), inputs=inputs, targets=torch.zeros(num_examples).long())


def lengths(change: Tensor, norm: str) -> Tensor:
    return change.double().flatten(1).norm(p=float(norm[1:]), dim=1)


WEIGHT = drawn(SIZE, seed=5)
DUAL = {"linf": WEIGHT.abs().sum(), "l2": WEIGHT.norm(), "l1": WEIGHT.abs().max()}


class TestOptimum:
    """On a linear model, box inactive, the loss is highest where the margin is, at a known place."""

    def victim(self) -> FunctionVictim:
        """Two classes that differ by a margin, and two far behind, so that every loss falls with the margin."""

        def logits(inputs: Tensor) -> Tensor:
            margin = (inputs - 0.5).flatten(1) @ WEIGHT
            behind = torch.full_like(margin, -40.0)
            return torch.stack([margin, -margin, behind, behind - 1], 1)

        return FunctionVictim(logits)

    @pytest.mark.parametrize(
        ("declared", "loss"),
        [
            pytest.param(declared, loss, marks=[] if quick in ("all", loss) else pytest.mark.slow)
            for declared, quick in ((LINF, "all"), (L2, "ce"), (L1, "margin"), (SHRINKING, "dlr-targeted"))
            for loss in LOSSES
        ],
    )
    def test_the_closed_form_margin_is_reached(self, declared: Apgd, loss: Any) -> None:
        declared, batch, victim = replace(declared, loss=loss, num_steps=100), middle_of_the_box(), self.victim()
        reached = victim.outputs(attacked(declared, batch, victim).inputs)[:, 0]
        gain = float(declared.epsilon) * DUAL[declared.norm]
        tolerance = float(1e-4 + (0.01 * gain if declared.norm == "l1" else 0))
        torch.testing.assert_close(reached, victim.outputs(batch.inputs)[:, 0] - gain, atol=tolerance, rtol=0)

    @pytest.mark.parametrize("declared", [LINF, L2, L1])
    def test_the_last_point_is_the_optimum_too(self, declared: Apgd) -> None:
        declared, batch, victim = replace(declared, num_steps=100, returns="last"), middle_of_the_box(), self.victim()
        reached = victim.outputs(attacked(declared, batch, victim).inputs)[:, 0]
        gain = float(declared.epsilon) * DUAL[declared.norm]
        assert bool((reached <= victim.outputs(batch.inputs)[:, 0] - 0.98 * gain).all())


def algorithm_1(declared: Apgd, x: Tensor, start: Tensor, loss: Callable[[Tensor], Tensor]) -> Tensor:
    """Croce & Hein 2020, Algorithm 1, line by line for one example in float64: returns x_max."""
    epsilon, num_steps = float(declared.epsilon), declared.num_steps

    def project(point: Tensor) -> Tensor:
        if declared.norm == "linf":
            return torch.clamp(torch.clamp(point, x - epsilon, x + epsilon), 0, 1)
        change = point - x
        return torch.clamp(x + change * min(1.0, epsilon / float(change.norm())), 0, 1)

    def value_and_direction(point: Tensor) -> tuple[float, Tensor]:
        point = point.clone().requires_grad_(True)
        value = loss(point)
        (gradient,) = torch.autograd.grad(value, point)
        return float(value.detach()), gradient.sign() if declared.norm == "linf" else gradient / gradient.norm()

    shares = [Fraction(0), Fraction(22, 100)]
    while shares[-1] + max(shares[-1] - shares[-2] - Fraction(3, 100), Fraction(6, 100)) <= 1:
        shares.append(shares[-1] + max(shares[-1] - shares[-2] - Fraction(3, 100), Fraction(6, 100)))
    window = [ceil(share * num_steps) for share in shares]
    step_size, points, values = 2 * epsilon, [start], [value_and_direction(start)[0]]
    points.append(project(start + step_size * value_and_direction(start)[1]))
    values.append(value_and_direction(points[1])[0])
    # Of the visited: what f was, at the points that the algorithm goes on from.
    best_point, best_value = max(zip(points, values, strict=True), key=lambda pair: pair[1])
    rises, at_check, halved_before = int(values[1] > values[0]), values[0], False
    for k in range(1, num_steps):
        if k in window[1:]:
            since = k - window[window.index(k) - 1]
            halves = rises < 0.75 * since or (not halved_before and best_value == at_check)
            if halves:
                step_size, points[k], values[k] = step_size / 2, best_point, best_value
            rises, at_check, halved_before = 0, best_value, halves
        ahead = project(points[k] + step_size * value_and_direction(points[k])[1])
        points.append(project(points[k] + 0.75 * (ahead - points[k]) + 0.25 * (points[k] - points[k - 1])))
        values.append(value_and_direction(points[-1])[0])
        rises += int(values[-1] > values[-2])
        if values[-1] > best_value:
            best_point, best_value = points[-1], values[-1]
    return best_point


@pytest.mark.parametrize("declared", [replace(LINF, num_steps=40), replace(L2, num_steps=60)], ids=["linf", "l2"])
def test_it_is_algorithm_1_of_the_paper(declared: Apgd) -> None:
    """On a curved model, where steps are halved several times."""
    victim, batch = FunctionVictim(waves), batch_of(6)
    batch = replace(batch, targets=waves(batch.inputs).argmax(1))
    result = attacked(declared, batch, victim).inputs.double()
    starts = victim.shown[0].double()
    for x, start, target, met in zip(batch.inputs.double(), starts, batch.targets, result, strict=True):
        torch.testing.assert_close(met, algorithm_1(declared, x, start, loss_of(target)), atol=1e-3, rtol=0)


def algorithm_1_in_l1(declared: Apgd, x: Tensor, start: Tensor, loss: Callable[[Tensor], Tensor]) -> Tensor:
    """Croce & Hein 2021, Algorithm 1, line by line for one example in float64: returns x_best."""
    epsilon = float(declared.epsilon)

    def project(point: Tensor) -> Tensor:
        def cut(t: float) -> Tensor:
            return torch.clamp(x + (point - x).sign() * ((point - x).abs() - t).clamp(min=0), 0, 1)

        low, high = 0.0, float((point - x).abs().max())
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (low, middle) if float((cut(middle) - x).abs().sum()) <= epsilon else (middle, high)
        return cut(high) if float((cut(0.0) - x).abs().sum()) > epsilon else cut(0.0)

    def value_and_gradient(point: Tensor) -> tuple[float, Tensor]:
        point = point.clone().requires_grad_(True)
        value = loss(point)
        return float(value.detach()), torch.autograd.grad(value, point)[0]

    best, best_value, step_size, num_moved, density = start, -float("inf"), epsilon, SIZE // 5, SIZE
    point, every = start, max(4 * declared.num_steps // 100, 1)
    for i in range(declared.num_steps + 1):
        value, gradient = value_and_gradient(point)
        if value > best_value:
            best, best_value, best_gradient = point, value, gradient
        if i and i % every == 0:
            now = int((best - x).abs().gt(1e-7).sum())
            if now / density < 0.95:
                step_size, point, gradient = epsilon, best, best_gradient
            else:
                step_size = max(step_size / 1.5, epsilon / 10)
            density, num_moved = now, max(int(now / 1.5), 1)
        chosen = gradient.abs().flatten().topk(num_moved).indices
        direction = torch.zeros(SIZE, dtype=x.dtype)
        direction[chosen] = gradient.flatten()[chosen].sign() / num_moved
        point = project(point + step_size * direction.view_as(x))
    return best


def test_its_l1_form_is_algorithm_1_of_the_second_paper() -> None:
    declared, victim, batch = replace(L1, epsilon=Fraction(2), num_steps=50), FunctionVictim(waves), batch_of(8)
    batch = replace(batch, targets=waves(batch.inputs).argmax(1))
    result = attacked(declared, batch, victim).inputs.double()
    rows = list(zip(batch.inputs.double(), victim.shown[0].double(), batch.targets, result, strict=True))
    # Where the first touches the box, rounding decides which coordinates have changed.
    for x, start, target, met in rows[1:]:
        torch.testing.assert_close(met, algorithm_1_in_l1(declared, x, start, loss_of(target)), atol=1e-4, rtol=0)


def waves(inputs: Tensor) -> Tensor:
    first, second = drawn(10, SIZE, seed=3).to(inputs), drawn(2, 10, seed=4).to(inputs)
    return torch.sin(2 * (inputs - 0.5).flatten(1) @ first.T) @ second.T


def loss_of(target: Tensor) -> Callable[[Tensor], Tensor]:
    """The cross-entropy of one example on waves."""
    return lambda point: cross_entropy(waves(point[None])[0], target)


class TestPace:
    @staticmethod
    def pace(num_rises: float, *, was_halved: bool, best: float) -> Pace:
        fields = {"step_size": 1.0, "was_halved": was_halved, "num_rises": num_rises, "last_values": 0.0}
        return Pace(**{name: torch.tensor([value]) for name, value in {**fields, "best_values": best}.items()})

    def test_checkpoints_are_those_of_the_paper(self) -> None:
        assert list(checkpoints(100)) == [22, 41, 57, 70, 80, 87, 93, 99]
        assert list(checkpoints(100).values()) == [22, 19, 16, 13, 10, 7, 6, 6]
        assert list(checkpoints(10)) == [3, 5, 6, 7, 8, 9, 10]
        assert sum(checkpoints(7).values()) == max(checkpoints(7)) == 7

    @pytest.mark.parametrize(("num_rises", "halves"), [(11, True), (12, False), (16, False)])
    def test_a_step_is_halved_where_fewer_than_three_quarters_of_the_steps_rose(
        self, num_rises: int, halves: bool
    ) -> None:
        assert bool(self.pace(num_rises, was_halved=False, best=1.0).stalled(torch.tensor([2.0]), 16)) is halves

    def test_a_step_is_halved_where_the_best_has_not_risen_unless_it_just_was(self) -> None:
        same = torch.tensor([1.0])
        assert bool(self.pace(16, was_halved=False, best=1.0).stalled(same, 16))
        assert not bool(self.pace(16, was_halved=True, best=1.0).stalled(same, 16))

    def test_rises_are_counted_from_the_last_checkpoint_on(self) -> None:
        pace = self.pace(3, was_halved=False, best=0.0).seeing(torch.tensor([1.0])).seeing(torch.tensor([0.5]))
        assert float(pace.num_rises) == 4
        checked = pace.checked(torch.tensor([False]), torch.tensor([1.0]))
        assert (float(checked.num_rises), float(checked.step_size), float(checked.last_values)) == (0, 1, 0.5)

    def test_what_is_halved_goes_on_from_its_best_value(self) -> None:
        checked = self.pace(0, was_halved=False, best=0.0).checked(torch.tensor([True]), torch.tensor([7.0]))
        assert (float(checked.step_size), float(checked.last_values), bool(checked.was_halved)) == (0.5, 7, True)


class TestSparseForm:
    def test_radii_shrink_over_three_parts_of_the_steps(self) -> None:
        shrinking = phases(100, WIDER["l1"])
        found = [(phase.factor, phase.start, phase.num_steps) for phase in shrinking]
        assert found == [(3, 0, 30), (2, 30, 30), (1, 60, 40)]
        assert [sum(phase.num_steps for phase in phases(n, WIDER["l1"])) for n in range(3, 12)] == list(range(3, 12))
        assert [step for step in range(100) if phases(100, ())[0].is_checked(step)] == list(range(4, 100, 4))

    def test_wider_balls_are_searched_first_and_nothing_of_them_is_kept(self) -> None:
        victim, batch = curved(), batch_of(8)
        declared = replace(L1, num_steps=10, radii="shrinking")
        attacked(declared, batch, victim)
        met = [float(lengths(shown - batch.inputs, "l1").max()) for shown in victim.shown]
        epsilon = float(declared.epsilon)
        assert max(met) == pytest.approx(3 * epsilon, rel=1e-5)
        # Three steps within 3 epsilon and the end of that search; the same within 2 epsilon; then the budget.
        assert max(met[4:8]) == pytest.approx(2 * epsilon, rel=1e-5)
        assert max(met[8:]) <= epsilon * (1 + 1e-6)
        assert len(met) == declared.num_steps + 2 + 1

    def test_a_narrower_search_begins_at_the_projection_of_the_best_point_of_the_wider_one(self) -> None:
        victim, batch = curved(), batch_of(8)
        attacked(replace(L1, epsilon=Fraction(2), num_steps=40, radii="shrinking"), batch, victim)
        wide = torch.stack(victim.shown[:13])
        losses = torch.stack(
            [cross_entropy(victim.function(points), batch.targets, reduction="none") for points in wide]
        )
        assert len(losses.argmax(0).unique()) > 1
        best = wide[losses.argmax(0), torch.arange(8)]
        narrower = problem_of(replace(L1, epsilon=Fraction(4)), batch, victim, ExampleDraws(range(8)), 8).region
        torch.testing.assert_close(victim.shown[13], narrower.project(best), atol=1e-6, rtol=0)

    def test_what_became_sparser_steps_as_far_as_at_first_and_others_less_far(self) -> None:
        density = torch.tensor([100.0, 100, 100, 3])
        before = Sparsity(density, torch.ones(4), step_size=torch.full((4,), 0.5), most_moved=1)
        after, sparser = before.at(torch.tensor([94.0, 95.0, 120.0, 2.0]), epsilon=1.0)
        assert sparser.tolist() == [True, False, False, True]
        torch.testing.assert_close(after.step_size, torch.tensor([1.0, 0.5 / 1.5, 0.5 / 1.5, 1.0]))
        assert after.num_moved.tolist() == [62, 63, 80, 1]
        assert after.most_moved == 80
        for _ in range(9):
            after, _ = after.at(after.density, epsilon=1.0)
        torch.testing.assert_close(after.step_size, torch.full((4,), 0.1))


class TestTargets:
    def ranked(self, batch: Batch, victim: FunctionVictim, num_restarts: int) -> tuple[Any, list[list[int]]]:
        problem = problem_of(LINF, batch, victim, ExampleDraws(range(len(batch.ids))), len(batch.ids))
        targets = Targets(problem, num_draws=1)
        return problem, [targets.of(problem, restart).tolist() for restart in range(num_restarts)]

    def test_each_restart_goes_for_the_next_class_of_the_clean_logits(self) -> None:
        victim, batch = linear(), batch_of(8)
        _, met = self.ranked(batch, victim, 6)
        for i in range(8):
            order = victim.outputs(batch.inputs)[i].argsort(descending=True).tolist()
            others = [k for k in order if k != int(batch.targets[i])]
            assert [each[i] for each in met] == [*others, *others][:6]

    def test_what_has_left_changes_no_targets_of_others(self) -> None:
        victim, batch = linear(), batch_of(8)
        problem = problem_of(LINF, batch, victim, ExampleDraws(range(8)), 8)
        targets, some = Targets(problem, num_draws=1), torch.tensor([1, 4, 7])
        assert targets.of(problem.take(some), 2).tolist() == targets.of(problem, 2)[some].tolist()

    def test_targets_find_what_one_direction_does_not(self) -> None:
        """The nearest boundary at the clean input is a wall; that of the third class lies further on, and is open."""

        def logits(inputs: Tensor) -> Tensor:
            x = inputs.flatten(1)[:, 0] - 0.5
            wall = torch.where(x > 0, 1.0 - torch.exp(-40 * x), 60 * x)
            return torch.stack([torch.zeros_like(x), wall - 1.2, -30 * x - 2, x * 0 - 40], 1)

        victim = FunctionVictim(logits)
        inputs = torch.full((3, *SHAPE), 0.5)
        batch = Batch(ids=("a", "b", "c"), inputs=inputs, targets=torch.zeros(3).long())
        declared = Apgd(epsilon=Fraction(1, 10), num_steps=20, loss="dlr-targeted", num_restarts=1)
        one = logits(attacked(declared, batch, victim).inputs).argmax(1)
        two = logits(attacked(replace(declared, num_restarts=2), batch, victim).inputs).argmax(1)
        assert (one.tolist(), two.tolist()) == ([0, 0, 0], [2, 2, 2])

    def test_points_of_different_targets_are_compared_by_the_untargeted_ratio(self) -> None:
        victim = curved()
        batch = batch_of(24, victim)
        victim.shown.clear()
        declared = Apgd(epsilon=Fraction(1, 255), num_steps=6, loss="dlr-targeted", num_restarts=3)
        result = attacked(declared, batch, victim).inputs
        # The first pass is the one that ranks the classes.
        visited = torch.stack([dlr_loss(victim.function(points), batch.targets) for points in victim.shown[1:]])
        stands = (visited <= 0).all(0)
        met = dlr_loss(victim.function(result), batch.targets)
        assert int(stands.sum()) > 10
        torch.testing.assert_close(met[stands], visited.amax(0)[stands], atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("declared", "theirs"),
    [
        (Apgd(epsilon=Fraction(6, 255), num_steps=20), {"norm": "Linf"}),
        pytest.param(
            Apgd(epsilon=Fraction(6, 255), num_steps=20, loss="dlr"),
            {"norm": "Linf", "loss": "dlr"},
            marks=pytest.mark.slow,
        ),
        pytest.param(Apgd(norm="l2", epsilon=Fraction(6, 5), num_steps=20), {"norm": "L2"}, marks=pytest.mark.slow),
        (Apgd(norm="l1", epsilon=Fraction(8), num_steps=20, radii="shrinking"), {"norm": "L1", "use_largereps": True}),
    ],
    ids=["ce", "dlr", "l2", "l1"],
)
def test_it_leaves_standing_what_the_papers_code_leaves(declared: Apgd, theirs: dict[str, Any]) -> None:
    from pyautoattack.autopgd_base import APGDAttack

    victim, batch = load_checkpoint("digits-vit"), load_dataset("digits").batch(0, 30)
    reference = APGDAttack(victim.outputs, n_iter=20, eps=float(declared.epsilon), device="cpu", **theirs)
    expected = victim.outputs(reference.perturb(batch.inputs.clone(), batch.targets)).argmax(1) == batch.targets
    declared = replace(declared, stop="at_success")
    met = victim.outputs(perturb(declared, batch, victim, ExampleDraws(range(30))).inputs).argmax(1) == batch.targets
    assert int(met.sum()) <= int(expected.sum()) + 1
    assert int((met != expected).sum()) <= 1
    assert 0 < int(met.sum()) < 30


def test_the_start_is_random_noise_of_the_example() -> None:
    victim, batch = curved(), batch_of()
    attacked(L1, batch, victim)
    noise = ExampleDraws(range(8)).normal(Stream(purpose="start"), SHAPE)
    region = problem_of(L1, batch, victim, ExampleDraws(range(8)), 8).region
    assert torch.equal(victim.shown[0], region.project(batch.inputs + noise))
