"""AutoAttack: who meets what, what decides, the parameters of the paper's code, and what it leaves standing."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import torch
from attack_examples import FunctionVictim, attacked
from presence import present
from pydantic import ValidationError
from torch import Tensor

from robench import load_checkpoint, load_dataset
from robench.attacks.apgd import Apgd
from robench.attacks.apgd_impl import RISING_PROPORTION, checkpoints
from robench.attacks.attack import problem_of
from robench.attacks.autoattack import MOST_TARGETS, AutoAttack
from robench.attacks.autoattack_impl import autoattack
from robench.attacks.fab import Fab
from robench.attacks.fgsm import Fgsm
from robench.attacks.noise import UniformNoise
from robench.attacks.pgd import Pgd
from robench.attacks.problem import Problem, Reached
from robench.attacks.square import Square
from robench.core.errors import DeclarationError
from robench.core.protocols import Batch
from robench.declare.schema import FAMILIES, construct_member
from robench.perturbations.draws import ExampleDraws

SHAPE = (3, 4, 4)
EPSILON = Fraction(8, 255)
FGSM = Fgsm(epsilon=EPSILON)
NOISE = UniformNoise(epsilon=EPSILON)
FAB = Fab(num_steps=10)
APGD = Apgd(epsilon=EPSILON, num_steps=10, stop="at_success")
CHEAP_FIRST = (FGSM, APGD, replace(APGD, loss="dlr-targeted", num_restarts=3), FAB)


def ensemble(*members: Any, **fields: Any) -> AutoAttack:
    return AutoAttack(epsilon=EPSILON, variant="custom", members=members, **fields)


def curved() -> FunctionVictim:
    generator = torch.Generator().manual_seed(3)
    first, second = torch.randn(20, 48, generator=generator), torch.randn(6, 20, generator=generator)
    return FunctionVictim(lambda inputs: torch.tanh(2 * (inputs - 0.5).flatten(1) @ first.T) @ second.T)


def batch_of(num_examples: int, victim: FunctionVictim, seed: int = 1) -> Batch:
    inputs = torch.rand(num_examples, *SHAPE, generator=torch.Generator().manual_seed(seed))
    inputs[0, 0, 0] = torch.tensor([0.0, 1.0, 1e-8, 1 - 2**-24])
    ids = tuple(f"example-{i}" for i in range(num_examples))
    return Batch(ids=ids, inputs=inputs, targets=victim.function(inputs).argmax(1))


def stands(declared: Any, batch: Batch, victim: FunctionVictim) -> Tensor:
    return victim.function(attacked(declared, batch, victim).inputs).argmax(1) == batch.targets


class Brightness:
    """A victim that errs where the first pixel is above 0.55, attacked by attacks that move it by a given way."""

    def __init__(self) -> None:
        slopes, constants = torch.tensor([0.0, 1, 0]), torch.tensor([0, -0.55, -9])
        self.victim = FunctionVictim(lambda inputs: inputs[:, 0, 0, :1] * slopes + constants)
        self.met: list[tuple[str, list[int]]] = []

    def batch(self, *brightness: float) -> Batch:
        inputs = torch.full((len(brightness), *SHAPE), 0.5)
        inputs[:, 0, 0, 0] = torch.tensor(brightness)
        ids = tuple(map(str, range(len(brightness))))
        return Batch(ids=ids, inputs=inputs, targets=torch.zeros(len(ids)).long())

    def by(self, way: float) -> Callable[[Any, Problem], Reached]:
        def function(declaration: Any, problem: Problem) -> Reached:
            self.met.append((declaration.kind, problem.rows.tolist()))
            points = problem.inputs.clone()
            points[:, 0, 0, 0] += way
            return Reached(points)

        return function

    def run(self, batch: Batch, functions: dict[type, Any], declared: AutoAttack) -> tuple[Reached, Problem]:
        problem = problem_of(declared, batch, self.victim, ExampleDraws(range(len(batch.ids))), len(batch.ids))
        with pytest.MonkeyPatch.context() as patch:
            for kind, function in functions.items():
                patch.setattr(kind, "implemented", staticmethod(lambda function=function: function))
            return autoattack(declared, problem), problem


class TestCascade:
    def test_each_meets_only_what_all_before_it_left_standing_in_the_order_declared(self) -> None:
        world = Brightness()
        functions = {UniformNoise: world.by(0.01), Fgsm: world.by(0.03), Apgd: world.by(0.0)}
        batch = world.batch(0.6, 0.545, 0.53, 0.51)
        reached, _ = world.run(batch, functions, ensemble(NOISE, FGSM, APGD))
        assert world.met == [("uniform-noise", [1, 2, 3]), ("fgsm", [2, 3]), ("apgd", [3])]
        moved = (reached.points - batch.inputs)[:, 0, 0, 0]
        torch.testing.assert_close(moved, torch.tensor([0.0, 0.01, 0.03, 0.03]))

    def test_it_ends_where_nothing_stands(self) -> None:
        world = Brightness()
        world.run(world.batch(0.54, 0.6), {UniformNoise: world.by(0.02), Fgsm: world.by(0.0)}, ensemble(NOISE, FGSM))
        assert world.met == [("uniform-noise", [0])]
        world.run(world.batch(0.7, 0.6), {UniformNoise: world.by(0.02)}, ensemble(NOISE))
        assert len(world.met) == 1

    def test_what_stands_is_returned_at_its_smallest_margin(self) -> None:
        world = Brightness()
        functions = {UniformNoise: world.by(0.01), Fgsm: world.by(0.02), Apgd: world.by(-0.01)}
        batch = world.batch(0.5)
        reached, _ = world.run(batch, functions, ensemble(NOISE, FGSM, APGD))
        assert float((reached.points - batch.inputs)[0, 0, 0, 0]) == pytest.approx(0.02, abs=1e-6)

    def test_an_attack_without_a_budget_counts_within_that_of_the_ensemble(self) -> None:
        world = Brightness()
        batch = world.batch(0.53, 0.5)
        reached, problem = world.run(batch, {Fab: world.by(0.4)}, ensemble(FAB))
        moved = (reached.points.double() - batch.inputs.double())[:, 0, 0, 0]
        assert float(moved.max()) <= float(EPSILON)
        assert problem.fooled(world.victim.outputs(reached.points)).tolist() == [True, False]

    def test_an_attack_without_a_budget_is_given_a_region_without_one(self) -> None:
        regions = []

        def function(declaration: Any, problem: Problem) -> Reached:
            regions.append(problem.region)
            return Reached(problem.inputs)

        world = Brightness()
        world.run(world.batch(0.5), {Fab: function, Fgsm: function}, ensemble(FAB, FGSM))
        assert [region.epsilon for region in regions] == [float("inf"), float(EPSILON)]
        assert (float(regions[0].lower.min()), float(regions[0].upper.max())) == (0, 1)

    def test_a_prediction_made_anew_decides(self) -> None:
        """The victim is fooled by nothing but the seed of the final prediction."""
        world, final = Brightness(), ExampleDraws([0]).prediction_seeds[0]

        def logits(inputs: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
            err = 10.0 * torch.tensor([float(seed == final and bool(world.met)) for seed in seeds or ()])
            return torch.stack([torch.zeros_like(err), err - 1], 1)

        world.victim.outputs = logits  # type: ignore[method-assign]
        world.run(world.batch(0.5), {Fgsm: world.by(0.01), UniformNoise: world.by(0.01)}, ensemble(FGSM, NOISE))
        assert [kind for kind, _ in world.met] == ["fgsm"]


class TestOnCurves:
    def test_it_leaves_what_every_member_alone_leaves(self) -> None:
        victim = curved()
        batch = batch_of(40, victim)
        alone = torch.stack([stands(member, batch, victim) for member in CHEAP_FIRST[:3]]).all(0)
        together = stands(ensemble(*CHEAP_FIRST[:3]), batch, victim)
        assert torch.equal(alone, together)
        assert 0 < int(together.sum()) < 40
        assert bool((together | ~stands(ensemble(*CHEAP_FIRST), batch, victim)).all())

    def test_what_falls_early_costs_less(self) -> None:
        victim = curved()
        batch = batch_of(40, victim)
        result = attacked(ensemble(*CHEAP_FIRST), batch, victim)
        stood = victim.function(result.inputs).argmax(1) == batch.targets
        assert int(present(result.num_queries)[~stood].min()) < 10 < int(present(result.num_queries)[stood].min())
        assert int(present(result.num_gradients)[stood].min()) == 1 + 10 + 30 + 5 * 10  # fab: one for each other class

    @pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
    def test_the_budget_is_exact_whatever_the_members_are(self, norm: Any) -> None:
        victim = curved()
        batch = batch_of(16, victim)
        batch.inputs[8:] = batch.inputs[8:].round()
        members = tuple(replace(member, norm=norm) for member in (FGSM, APGD, FAB))
        result = attacked(ensemble(*members, norm=norm), batch, victim).inputs
        moved = (result.double() - batch.inputs.double()).flatten(1).norm(p=float(norm[1:]), dim=1)
        assert float(moved.max()) <= float(EPSILON)
        assert 0 <= float(result.min()) <= float(result.max()) <= 1

    def test_other_spaces_go_through_every_member(self) -> None:
        victim = curved()
        batch = batch_of(16, victim)
        fields: dict[str, Any] = {"space": "normalised", "clip": "none"}
        members = [replace(member, **fields) for member in (FGSM, APGD, FAB)]
        result = attacked(ensemble(*members, **fields), batch, victim).inputs
        moved = ((result.double() - batch.inputs.double()) / 0.25).abs().max()
        assert float(EPSILON) * 0.5 < float(moved) <= float(EPSILON) * (1 + 1e-5)


PUBLISHED = [(variant, norm) for variant in ("standard", "plus", "rand") for norm in ("linf", "l2", "l1")]
# Attributes of the package's attacks that are no parameter of what is searched, or that robench has in its problem.
NO_PARAMETERS = {
    *("model", "predict", "device", "logger", "seed", "verbose", "is_tf_model", "return_all", "y_target", "targeted"),
    *("n_iter_orig", "eps_orig", "target_class", "perturb"),
}


def as_published(variant: str, norm: str) -> list[tuple[str, dict[str, Any]]]:
    """Return which attacks the package runs, with every attribute that each has when it is run."""
    from pyautoattack import AutoAttack as Reference

    victim = FunctionVictim(lambda inputs: (10 * inputs - 5).flatten(1)[:, :10])
    inputs = batch_of(6, victim).inputs
    theirs = Reference(victim.outputs, norm=norm.capitalize(), eps=float(EPSILON), version=variant, seed=0)  # type: ignore[arg-type]  # a victim as well
    met = []

    def noting(attack: Any) -> Callable[[Tensor, Tensor], Tensor]:
        def perturb(points: Tensor, labels: Tensor) -> Tensor:
            met.append((type(attack).__name__, dict(vars(attack))))
            return points

        return perturb

    for attack in (theirs.apgd, theirs.apgd_targeted, theirs.fab, theirs.square):
        attack.perturb = noting(attack)
    theirs.run_standard_evaluation(inputs, victim.function(inputs).argmax(1))
    return met


def theirs_of(attack: Any) -> tuple[str, dict[str, Any]]:
    """Return the class of the package's that a declared attack stands for, and its attributes."""
    shared = {"norm": attack.norm.capitalize(), "eps": float(attack.epsilon)}
    assert (attack.stop, attack.space, attack.clip, attack.labels) == ("at_success", "input", "box", "true")
    match attack:
        case Apgd():
            fields = {
                **{"n_iter": attack.num_steps, "eot_iter": attack.num_draws, "thr_decr": RISING_PROPORTION},
                **{"use_largereps": attack.radii == "shrinking", "loss": attack.loss},
                **{"n_iter_2": next(iter(checkpoints(attack.num_steps))), "n_iter_min": 6, "size_decr": 3},
                **{"topk": None, "use_rs": True},
            }
            if attack.loss == "dlr-targeted":
                of_targets = {"n_target_classes": attack.num_restarts, "n_restarts": 1}
                return "APGDAttack_targeted", shared | fields | of_targets
            return "APGDAttack", shared | fields | {"n_restarts": attack.num_restarts}
        case Fab():
            assert attack.num_final_steps == 0
            fields = {
                **{"n_iter": attack.num_steps, "n_restarts": attack.num_restarts, "alpha_max": attack.alpha_max},
                **{"eta": attack.eta, "beta": attack.beta, "targeted": attack.num_targets is not None},
                **{"n_target_classes": attack.num_targets or MOST_TARGETS},
            }
            return "FABAttack_PT", shared | fields
        case _:
            fields = {
                **{"n_queries": attack.num_queries, "n_restarts": attack.num_restarts, "p_init": attack.p_init},
                **{"loss": attack.loss, "rescale_schedule": attack.schedule == "rescaled"},
            }
            return "SquareAttack", shared | fields


def check_closed_form(declared: Any, num_classes: int) -> None:
    """Attack a linear victim at its median distance: a difference of logits over the dual norm of that of weights."""
    generator = torch.Generator().manual_seed(7)
    weights = torch.randn(num_classes, 48, generator=generator)
    inputs = 0.3 + 0.4 * torch.rand(40, *SHAPE, generator=generator)
    victim = FunctionVictim(lambda inputs: (inputs.flatten(1) - 0.5) @ weights.T)
    batch = Batch(ids=tuple(map(str, range(40))), inputs=inputs, targets=victim.outputs(inputs).argmax(1))
    differences = (weights[batch.targets][:, None] - weights).double()
    gaps = ((inputs.flatten(1) - 0.5).double()[:, None] * differences).sum(2)
    dual = {"linf": 1, "l2": 2, "l1": torch.inf}[declared.norm]
    distances = (gaps / torch.linalg.vector_norm(differences, dual, dim=2)).nan_to_num(torch.inf).amin(1)
    epsilon = Fraction(float(distances.quantile(0.5))).limit_denominator(1000)
    result = attacked(replace(declared, epsilon=epsilon), batch, victim).inputs
    fooled, is_near = victim.outputs(result).argmax(1) != batch.targets, distances < float(epsilon)
    is_clear = (distances / float(epsilon) - 1).abs() > 1e-3
    assert 10 < int(fooled.sum()) < 30
    assert torch.equal(fooled[is_clear], is_near[is_clear])


@pytest.mark.parametrize(("num_classes", "norm"), [(2, "linf"), (3, "linf"), (3, "l2")])
def test_targeted_margins_reach_the_nearest_boundary_of_few_classes(num_classes: int, norm: Any) -> None:
    apgd = replace(APGD, norm=norm, num_steps=30, loss="margin-targeted", num_restarts=num_classes - 1)
    check_closed_form(apgd, num_classes)


class TestVariants:
    def of(self, variant: Any, num_classes: int = 10) -> list[tuple[str, Any]]:
        declared = AutoAttack(epsilon=EPSILON, variant=variant)
        return [(attack.kind, attack) for attack in declared.attacks(num_classes)]

    @pytest.mark.parametrize(("variant", "norm"), PUBLISHED)
    def test_every_parameter_and_the_order_are_those_of_the_papers_code(self, variant: Any, norm: Any) -> None:
        ours = AutoAttack(epsilon=EPSILON, norm=norm, variant=variant).attacks(10)
        theirs = as_published(variant, norm)
        assert [theirs_of(attack)[0] for attack in ours] == [name for name, _ in theirs]
        for attack, (name, met) in zip(ours, theirs, strict=True):
            wanted = theirs_of(attack)[1]
            assert {key: met[key] for key in wanted} == wanted, name
            assert met.keys() - wanted.keys() <= NO_PARAMETERS, name

    def test_the_rescaled_form_has_a_name_of_its_own_and_differs_in_square_alone(self) -> None:
        (*others, square), (*of_rescaled, rescaled) = (
            [attack for _, attack in self.of(each)] for each in ("standard", "standard-rescaled")
        )
        assert others == of_rescaled
        assert (square.schedule, square.trials) == ("fixed", "as_drawn")
        assert rescaled == replace(square, schedule="rescaled", trials="changing")

    @pytest.mark.parametrize(("num_classes", "wanted"), [(4, 3), (7, 6), (10, 9), (1000, 9)])
    def test_few_classes_have_few_targets(self, num_classes: int, wanted: int) -> None:
        for variant in ("standard", "plus"):
            attacks = [attack for _, attack in self.of(variant, num_classes)]
            assert [each.num_restarts for each in attacks if getattr(each, "loss", "") == "dlr-targeted"] == [wanted]
            assert [each.num_targets for each in attacks if isinstance(each, Fab)][-1] == wanted

    @pytest.mark.parametrize(
        ("variant", "num_classes", "message"),
        [
            ("standard", 3, "few-classes or custom with a model of 3 classes: .* loss dlr-targeted needs at least 4"),
            ("plus", 2, "with a model of 2 classes: its apgd with loss dlr needs at least 3, got plus"),
            ("rand", 2, "with a model of 2 classes: its apgd with loss dlr needs at least 3, got rand"),
        ],
    )
    def test_too_few_classes_are_refused_before_anything_is_attacked(
        self, variant: Any, num_classes: int, message: str
    ) -> None:
        victim = FunctionVictim(lambda inputs: inputs.flatten(1)[:, :num_classes])
        with pytest.raises(DeclarationError, match=message):
            attacked(AutoAttack(epsilon=EPSILON, variant=variant), batch_of(4, victim), victim)
        assert len(victim.seeds) == 1

    @pytest.mark.parametrize(("num_classes", "num_targets"), [(2, 1), (3, 2), (10, 9)])
    def test_few_classes_is_standard_with_margins_in_place_of_ratios(self, num_classes: int, num_targets: int) -> None:
        ce, targeted, fab, square = (attack for _, attack in self.of("few-classes", num_classes))
        (of_standard, ratio, *_), (*_, last) = ([each for _, each in self.of("standard", 10)] for _ in range(2))
        assert (ce, square) == (of_standard, last)
        assert targeted == replace(ratio, loss="margin-targeted", num_restarts=num_targets)
        assert (fab.num_targets, fab.num_restarts, fab.num_steps) == (num_targets, 1, 100)

    @pytest.mark.slow
    @pytest.mark.parametrize(("num_classes", "norm"), [(2, "linf"), (3, "linf"), (3, "l2"), (2, "l1")])
    def test_few_classes_fools_a_linear_victim_exactly_where_a_boundary_is_within_reach(
        self, num_classes: int, norm: Any
    ) -> None:
        check_closed_form(AutoAttack(epsilon=Fraction(1), norm=norm, variant="few-classes"), num_classes)

    def test_a_custom_ensemble_needs_no_more_classes_than_its_losses(self) -> None:
        victim = FunctionVictim(lambda inputs: inputs.flatten(1)[:, :2] - inputs.flatten(1)[:, 2:4])
        batch = batch_of(8, victim)
        assert not bool(stands(ensemble(replace(APGD, loss="margin"), FAB), batch, victim).all())


class TestInSuites:
    WRITTEN: dict[str, Any] = {  # noqa: RUF012  # never changed
        "kind": "autoattack",
        "epsilon": "8/255",
        "variant": "custom",
        "members": [
            {"kind": "fgsm", "epsilon": "8/255"},
            {"kind": "pgd", "epsilon": "8/255", "relative_step": "1/4", "num_steps": 3},
        ],
    }

    def test_custom_members_are_read_as_attacks_are(self) -> None:
        read = construct_member(FAMILIES["perturbation"], self.WRITTEN)
        pgd = Pgd(epsilon=EPSILON, relative_step=Fraction(1, 4), num_steps=3)
        assert read == ensemble(Fgsm(epsilon=EPSILON), pgd)

    def test_a_mistake_in_a_member_is_told_with_its_place(self) -> None:
        wrong = self.WRITTEN | {"members": [{"kind": "fgsm", "epsilon": "8/255"}, {"kind": "pgdd"}]}
        with pytest.raises(ValidationError) as caught:
            construct_member(FAMILIES["perturbation"], wrong)
        (error,) = caught.value.errors()
        assert error["loc"] == ("members", 1, "kind")
        assert "Did you mean 'pgd'?" in error["msg"]


@pytest.mark.parametrize(
    ("norm", "epsilon"), [("linf", Fraction(7, 255)), pytest.param("l2", Fraction(6, 5), marks=pytest.mark.slow)]
)
def test_it_leaves_no_more_standing_than_the_papers_code(norm: Any, epsilon: Fraction) -> None:
    """The same four attacks in both, each of a few of its steps, so that it takes no minutes."""
    from pyautoattack import AutoAttack as Reference
    from pyautoattack.autopgd_base import APGDAttack, APGDAttack_targeted

    victim, batch = load_checkpoint("digits-vit"), load_dataset("digits").batch(0, 12)
    of_theirs = {"norm": norm.capitalize(), "eps": float(epsilon)}
    reference = Reference(victim.outputs, version="custom", attacks=list(THEIRS), seed=0, **of_theirs)
    reference.apgd = APGDAttack(victim.outputs, n_iter=10, device="cpu", **of_theirs)
    reference.apgd_targeted = APGDAttack_targeted(victim.outputs, n_iter=10, n_target_classes=3, **of_theirs)
    reference.fab.n_iter, reference.fab.n_target_classes, reference.square.n_queries = 10, 3, 50
    theirs, _ = reference.run_standard_evaluation(batch.inputs, batch.targets)
    ours = attacked(of_few_steps(norm, epsilon), batch, victim).inputs  # type: ignore[arg-type]  # a victim as well
    stand = [victim.outputs(each).argmax(1) == batch.targets for each in (ours, theirs)]
    assert 0 < int(stand[0].sum()) <= int(stand[1].sum()) < 12


THEIRS = ("apgd-ce", "apgd-t", "fab-t", "square")


def of_few_steps(norm: Any, epsilon: Fraction) -> AutoAttack:
    shared: dict[str, Any] = {"norm": norm, "epsilon": epsilon, "stop": "at_success"}
    apgd = Apgd(num_steps=10, **shared)
    fab = Fab(num_steps=10, num_targets=3, num_final_steps=0, **shared)
    square = Square(num_queries=50, p_init=0.8, **shared)
    targeted = replace(apgd, loss="dlr-targeted", num_restarts=3)
    return AutoAttack(norm=norm, epsilon=epsilon, variant="custom", members=(apgd, targeted, fab, square))
