"""What every perturbation must hold, run over the whole registry.

A new perturbation brings one line in EXAMPLES and gets all of it. A line in REFERENCES, or a file
``test_<kind>_attack.py`` with its laws on models whose nearest and worst points are known, shows more.
"""

import dataclasses
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attack_examples import ConstantVictim
from presence import present

from robench.attacks.apgd import Apgd
from robench.attacks.autoattack import AutoAttack
from robench.attacks.base import Attack
from robench.attacks.cw import Cw
from robench.attacks.ddn import Ddn
from robench.attacks.fab import Fab
from robench.attacks.fgsm import Fgsm
from robench.attacks.fmn import Fmn
from robench.attacks.hop_skip_jump import HopSkipJump
from robench.attacks.noise import GaussianNoise, UniformNoise
from robench.attacks.patch_fool import PatchFool
from robench.attacks.pdpgd import Pdpgd
from robench.attacks.pgd import Pgd
from robench.attacks.rays import Rays
from robench.attacks.rows import length_of
from robench.attacks.sea import Sea
from robench.attacks.sigma_zero import SigmaZero
from robench.attacks.sparse_l1 import SparseL1
from robench.attacks.sparse_rs import SparseRs
from robench.attacks.spsa import Spsa
from robench.attacks.square import Square
from robench.attacks.transfer_pgd import TransferPgd
from robench.core.protocols import Batch
from robench.core.seeds import Stream
from robench.corruptions.corruption import Corruption
from robench.declarations.supports import L0, Patches
from robench.domains.images import IMAGES
from robench.evaluation.actions import Audit
from robench.perturbations import PERTURBATIONS as DECLARED
from robench.perturbations.clean import Clean
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws
from robench.testing.attack import ATTACK_CHECKS, a_constant_added_to_all_logits_changes_nothing
from robench.testing.expectations import DECLARATION_CHECKS
from robench.testing.models import SHAPE, LinearModel, batch_of
from robench.testing.models import perturbed as made
from robench.testing.perturbations import PERTURBATION_CHECKS

Array = np.ndarray[Any, Any]
EPSILON = Fraction(8, 255)
EXAMPLES: dict[str, Any] = {
    "clean": Clean(),
    "uniform-noise": UniformNoise(epsilon=EPSILON),
    "fgsm": Fgsm(epsilon=EPSILON),
    "pgd": Pgd(epsilon=EPSILON, step_size=Fraction(2, 255), num_steps=8, num_restarts=3),
    "pgd-last": Pgd(epsilon=EPSILON, relative_step=Fraction(1, 4), num_steps=3, num_restarts=3, returns="last"),
    "pgd-momentum": Pgd(epsilon=EPSILON, step_size=Fraction(2, 255), num_steps=8, momentum=0.75, loss="margin"),
    "transfer-pgd": TransferPgd(
        epsilon=EPSILON,
        relative_step=Fraction(1, 4),
        num_steps=4,
        input_diversity=0.7,
        smallest_size=0.6,
        translation=3,
    ),
    "pgd-l2": Pgd(norm="l2", epsilon=Fraction(1, 2), step_size=Fraction(1, 8), num_steps=8, num_restarts=2),
    "pgd-l1": Pgd(norm="l1", epsilon=Fraction(2), step_size=Fraction(1, 2), num_steps=8, loss="dlr"),
    "pgd-at-success": Pgd(epsilon=EPSILON, step_size=Fraction(2, 255), num_steps=8, stop="at_success"),
    "gaussian-noise": GaussianNoise(epsilon=Fraction(1, 2)),
    "gaussian-noise-linf": GaussianNoise(norm="linf", epsilon=EPSILON),
    "apgd": Apgd(epsilon=EPSILON, num_steps=12, num_restarts=2),
    "apgd-l1": Apgd(norm="l1", epsilon=Fraction(2), num_steps=12, loss="dlr-targeted", num_restarts=3),
    "apgd-l2": Apgd(norm="l2", epsilon=Fraction(1, 2), num_steps=12),
    "apgd-l1-shrinking": Apgd(norm="l1", epsilon=Fraction(2), num_steps=12, radii="shrinking"),
    "square": Square(epsilon=EPSILON, num_queries=40, p_init=0.8),
    "square-l2": Square(norm="l2", epsilon=Fraction(1, 2), num_queries=40, p_init=0.8, stop="at_success"),
    "square-l1": Square(norm="l1", epsilon=Fraction(4), num_queries=60, p_init=0.4),
    "spsa": Spsa(epsilon=EPSILON, num_steps=6, learning_rate=Fraction(1, 100), delta=Fraction(1, 100), num_samples=16),
    "sparse-l1": SparseL1(epsilon=Fraction(2), num_steps=8, step_size=Fraction(1, 2), sparsity=0.9),
    "sparse-l1-rescale": SparseL1(
        epsilon=Fraction(2), num_steps=8, step_size=Fraction(1, 2), sparsity=0.9, projection="rescale"
    ),
    "cw": Cw(num_steps=30, num_search_steps=3, initial_c=1.0, learning_rate=0.05),
    "fab": Fab(num_steps=10),
    "fab-l2": Fab(norm="l2", num_steps=10, num_targets=2),
    "fab-l1": Fab(norm="l1", num_steps=10),
    "rays": Rays(num_queries=150),
    "hop-skip-jump": HopSkipJump(num_queries=300, initial_evaluations=30),
    "hop-skip-jump-linf": HopSkipJump(norm="linf", num_queries=150, initial_evaluations=20, num_restarts=2),
    "sparse-rs": SparseRs(epsilon=Fraction(1, 2), l0=L0(count=5), num_queries=40),
    "sparse-rs-values": SparseRs(
        epsilon=Fraction(1, 2), l0=L0(count=9, unit="values"), num_queries=30, num_restarts=2, stop="at_success"
    ),
    "ddn": Ddn(num_steps=20, initial_norm=0.1),
    "fmn": Fmn(num_steps=20, num_restarts=2),
    "fmn-l2": Fmn(norm="l2", num_steps=20),
    "fmn-l1": Fmn(norm="l1", num_steps=20),
    "fmn-l0": Fmn(norm="l0", num_steps=20, num_restarts=2, unit="pixels"),
    "sigma-zero": SigmaZero(num_steps=20, num_restarts=2),
    "pdpgd": Pdpgd(num_steps=20),
    "autoattack": AutoAttack(
        variant="custom", epsilon=EPSILON, members=(Apgd(epsilon=EPSILON, num_steps=10), Fab(num_steps=10))
    ),
    "sea": Sea(epsilon=EPSILON, num_steps=9),
    "pgd-segpgd": Pgd(epsilon=EPSILON, step_size=Fraction(2, 255), num_steps=8, num_restarts=2, loss="segpgd"),
    "corruption": Corruption(type="glass_blur", severity=3),
    "fgsm-l2": Fgsm(norm="l2", epsilon=Fraction(1, 2)),
    "fgsm-l1": Fgsm(norm="l1", epsilon=Fraction(2), loss="margin"),
    "pgd-patch": Pgd(epsilon=Fraction(1, 2), patches=Patches(size=2), relative_step=Fraction(1, 4), num_steps=8),
    "pgd-random-patches": Pgd(
        epsilon=Fraction(1), patches=Patches(size=2, count=2), place="random", step_size=Fraction(1, 8), num_steps=8
    ),
    "pgd-l0": Pgd(epsilon=Fraction(1, 2), l0=L0(count=5), relative_step=Fraction(1, 4), num_steps=8),
    "pgd-l0-values": Pgd(
        epsilon=Fraction(1, 2), l0=L0(count=9, unit="values"), relative_step=Fraction(1, 4), num_steps=8
    ),
    "patch-fool": PatchFool(
        epsilon=Fraction(1, 2), patches=Patches(size=2), place="gradient", attention_weight=0.0, num_steps=20
    ),
    "patch-fool-sparse": PatchFool(
        patches=Patches(size=3), l0=L0(count=5), place="random", attention_weight=0.0, num_steps=20, stop="at_success"
    ),
}


VICTIM = LinearModel()


def named(check: Callable[..., None]) -> str:
    return check.__name__


def perturbed(declaration: Any, batch: Batch) -> torch.Tensor:
    return made(declaration, batch, VICTIM).inputs


# References: one example at a time, in numpy float64, written from the papers' equations.
def softmax_gradient(x: Array, target: int) -> Array:
    weight = VICTIM.weight.double().numpy()
    logits = weight @ (x - 0.5).ravel()
    shares = np.exp(logits - logits.max())
    shares /= shares.sum()
    shares[target] -= 1.0
    return (shares @ weight).reshape(x.shape)


def loss_of(x: Array, target: int) -> float:
    logits = VICTIM.weight.double().numpy() @ (x - 0.5).ravel()
    return float(np.log(np.exp(logits - logits.max()).sum()) + logits.max() - logits[target])


def into_ball(moved: Array, x: Array, epsilon: float) -> Array:
    return np.clip(np.minimum(np.maximum(moved, x - epsilon), x + epsilon), 0.0, 1.0)


def unit_noise(seed: int, purpose: str, restart: int) -> Array:
    return ExampleDraws([seed]).uniform(Stream(purpose=purpose, restart=restart), SHAPE)[0].double().numpy()


def reference_clean(declaration: Clean, x: Array, target: int, seed: int) -> Array:
    return x


def reference_noise(declaration: UniformNoise, x: Array, target: int, seed: int) -> Array:
    epsilon = float(declaration.epsilon)
    return into_ball(x + epsilon * (2 * unit_noise(seed, "noise", 0) - 1), x, epsilon)


def reference_fgsm(declaration: Fgsm, x: Array, target: int, seed: int) -> Array:
    epsilon = float(declaration.epsilon)
    return into_ball(x + epsilon * np.sign(softmax_gradient(x, target)), x, epsilon)


def reference_gaussian(declaration: GaussianNoise, x: Array, target: int, seed: int) -> Array:
    epsilon = float(declaration.epsilon)
    noise = ExampleDraws([seed]).normal(Stream(purpose="noise"), SHAPE)[0].double().numpy()
    if declaration.norm == "l2":
        return np.clip(x + epsilon * noise / np.linalg.norm(noise), 0, 1)
    return into_ball(x + epsilon * noise, x, epsilon)


def reference_pgd(declaration: Pgd, x: Array, target: int, seed: int) -> Array:
    epsilon, step = float(declaration.epsilon), float(declaration.step_length)
    candidates = []
    for restart in range(declaration.num_restarts):
        point = into_ball(x + epsilon * (2 * unit_noise(seed, "start", restart) - 1), x, epsilon)
        points = [point]
        for _ in range(declaration.num_steps):
            point = into_ball(point + step * np.sign(softmax_gradient(point, target)), x, epsilon)
            points.append(point)
        for visited in points if declaration.returns == "best" else points[-1:]:
            fooled = int((VICTIM.weight.double().numpy() @ (visited - 0.5).ravel()).argmax()) != target
            candidates.append((fooled, loss_of(visited, target), visited))
    return max(candidates, key=lambda candidate: candidate[:2])[2]


# By example, since a reference is of one form of an attack.
REFERENCES: dict[str, Any] = {
    "clean": reference_clean, "uniform-noise": reference_noise, "gaussian-noise": reference_gaussian,
    "gaussian-noise-linf": reference_gaussian, "fgsm": reference_fgsm, "pgd": reference_pgd,
    "pgd-last": reference_pgd,
}  # fmt: skip


def required_fields(declared: Any) -> list[dataclasses.Field[Any]]:
    return [each for each in dataclasses.fields(declared) if each.default is dataclasses.MISSING]


def test_every_declared_perturbation_has_an_implementation_and_an_example() -> None:
    assert all(callable(declared.implemented()) for declared in (*DECLARED.values(), Audit))
    assert all(declared.kind == kind for kind, declared in DECLARED.items())
    # Others have examples in test_text_perturbations.py, test_token_perturbations.py and test_series_*.py.
    others = {
        kind
        for kind, declared in DECLARED.items()
        if getattr(declared, "domain", "") in ("", IMAGES.name)
        and getattr(declared, "needed_axes", ()) in ((), IMAGES.axes)
    }
    for kind in sorted(others - {example.kind for example in EXAMPLES.values()}):
        fields = "".join(f"{each.name}=..., " for each in required_fields(DECLARED[kind])).removesuffix(", ")
        pytest.fail(f'add to EXAMPLES in {Path(__file__).name}: "{kind}": DECLARED["{kind}"]({fields}),')
    assert others == {example.kind for example in EXAMPLES.values()}
    assert all(type(example) is DECLARED[example.kind] for example in EXAMPLES.values())


# What patches and few pixels can reach is in test_local_attacks.py.
READING = {
    name: each
    for name, each in EXAMPLES.items()
    if isinstance(each, Attack) and each.reads_outputs and getattr(each, "support", None) is None
}
# Their examples are too short to come near a boundary.
READING["cw"] = dataclasses.replace(EXAMPLES["cw"], num_steps=100, learning_rate=0.01)
READING["ddn"] = dataclasses.replace(EXAMPLES["ddn"], num_steps=60)
READING["pdpgd"] = dataclasses.replace(EXAMPLES["pdpgd"], num_steps=100, step_size=1e-3)
DUAL = {"linf": 1, "l2": 2, "l1": torch.inf}


def fewest_changes(inputs: torch.Tensor, normals: torch.Tensor, gaps: torch.Tensor, unit: str) -> torch.Tensor:
    """The least number of values or pixels (B, K), each moved to its limit, by which each class comes ahead."""
    rooms = torch.where(normals > 0, inputs.flatten(1)[:, None], 1 - inputs.flatten(1)[:, None])
    gains = normals.abs() * rooms
    if unit == "pixels":
        gains = gains.unflatten(2, (SHAPE[0], -1)).sum(2)
    return 1 + (gains.sort(dim=2, descending=True).values.cumsum(2) < gaps[:, :, None]).sum(2).float()


@pytest.mark.parametrize("name", READING)
def test_an_attack_reaches_what_can_be_reached_on_a_linear_model(name: str) -> None:
    """The nearest class boundary is a hyperplane, whose distance has a closed form within the box."""
    declared = READING[name]
    inputs = 0.5 + 0.2 * (2 * torch.rand(64, *SHAPE, generator=torch.Generator().manual_seed(8)) - 1)
    logits = VICTIM.outputs(inputs)
    targets = logits.argmax(1)
    gaps = logits.gather(1, targets[:, None]) - logits
    normals = VICTIM.weight[targets][:, None] - VICTIM.weight
    norm, unit = declared.search_norm or declared.budget[0], getattr(declared, "unit", "values")
    if norm == "l0":
        distances = fewest_changes(inputs, normals, gaps, unit)
    else:
        distances = gaps / normals.norm(p=DUAL[norm], dim=2)
    nearest = distances.scatter(1, targets[:, None], torch.inf).amin(1)
    result = made(declared, Batch(ids=tuple(map(str, range(64))), inputs=inputs, targets=targets), VICTIM).inputs
    fooled = VICTIM.outputs(result).argmax(1) != targets
    if declared.is_minimum_norm:
        moved = length_of(result - inputs, norm, unit)
        assert float((fooled & (moved <= 2 * nearest)).float().mean()) > 0.8
    else:
        can_be_fooled = nearest < 0.8 * declared.budget[1]
        assert int(can_be_fooled.sum()) >= 8
        assert float(fooled[can_be_fooled].float().mean()) > 0.5


@pytest.mark.parametrize("name", REFERENCES)
def test_it_equals_its_reference(name: str) -> None:
    batch, declaration = batch_of(), EXAMPLES[name]
    result = perturbed(declaration, batch).double().numpy()
    for i in range(len(batch.ids)):
        x, target = batch.inputs[i].double().numpy(), int(batch.targets[i])
        np.testing.assert_allclose(result[i], REFERENCES[name](declaration, x, target, i), atol=3e-7)


# The one below is of all perturbations, and sharper for those that do not round.
ATTACK_CHECKS_BUT_ONE = [each for each in ATTACK_CHECKS if each is not a_constant_added_to_all_logits_changes_nothing]


@pytest.mark.parametrize("declaration", EXAMPLES.values(), ids=EXAMPLES.keys())
class TestPerturbationContract:
    @pytest.mark.parametrize("check", PERTURBATION_CHECKS, ids=named)
    def test_it_keeps_what_every_perturbation_promises(self, declaration: Any, check: Any) -> None:
        check(declaration)

    @pytest.mark.parametrize("check", DECLARATION_CHECKS, ids=named)
    def test_it_keeps_what_every_declaration_promises(self, declaration: Any, check: Any) -> None:
        check(declaration)

    @pytest.mark.parametrize("check", ATTACK_CHECKS_BUT_ONE, ids=named)
    def test_it_keeps_what_every_attack_promises(self, declaration: Any, check: Any) -> None:
        if isinstance(declaration, Attack):
            check(declaration)

    def test_without_a_budget_it_looks_for_the_nearest_or_is_no_attack(self, declaration: Any) -> None:
        assert declaration.threat_model or declaration.is_minimum_norm or not declaration.is_attack

    def test_a_constant_added_to_all_logits_changes_nothing(self, declaration: Any) -> None:
        # Signs do not round; lengths of gradients, estimates of them, and distances to a boundary do.
        has_lengths = getattr(declaration, "norm", "linf") != "linf" or getattr(declaration, "l0", None) is not None
        rounds = declaration.is_minimum_norm or declaration.kind == "spsa" or has_lengths
        a_constant_added_to_all_logits_changes_nothing(declaration, rounding=2e-6 if rounds else 0.0)


CUT_TO_LIMITS = {name: each for name, each in EXAMPLES.items() if isinstance(each, Attack) and each.clip == "box"}


@pytest.mark.parametrize("declaration", CUT_TO_LIMITS.values(), ids=CUT_TO_LIMITS.keys())
def test_an_attack_stays_between_the_limits_of_the_domain(declaration: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = dataclasses.replace(IMAGES, limits=(-2.0, 3.0))
    monkeypatch.setattr("robench.attacks.attack.domain_of", lambda batch: wide)
    inputs = 5 * torch.rand(12, *SHAPE, generator=torch.Generator().manual_seed(7)) - 2
    targets = VICTIM.outputs(inputs).argmax(1)
    batch = Batch(ids=tuple("abcdefghijkl"), inputs=inputs, targets=targets)
    result = made(declaration, batch, VICTIM)
    wide.rules.check_perturbed(result.inputs, inputs, declaration, VICTIM)
    assert not bool(present(result.num_clamped).any())
    # What lies outside [0, 1] is moved as anything else is, and nothing to its border.
    is_moved = result.inputs != inputs
    assert bool(is_moved[(inputs < -1) | (inputs > 2)].any())
    assert not bool((is_moved & ((result.inputs == 0) | (result.inputs == 1))).any())


@pytest.mark.parametrize("name", READING)
def test_a_model_whose_answers_are_constant_is_not_fooled_and_gives_no_nan(name: str) -> None:
    batch = dataclasses.replace(batch_of(), targets=torch.zeros(6, dtype=torch.int64))
    result = made(READING[name], batch, ConstantVictim())
    assert bool(torch.isfinite(result.inputs).all())
    assert result.found is None or not bool(result.found.any())
    assert result.found is None or torch.equal(result.inputs, batch.inputs)


def test_fgsm_reaches_the_closed_form_margin_of_a_binary_linear_model() -> None:
    weight = torch.randn(48, generator=torch.Generator().manual_seed(3))

    class Binary(LinearModel):
        def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
            margin = (inputs - 0.5).flatten(1) @ weight
            return torch.stack([margin, -margin], 1)

    inputs = 0.3 + 0.4 * torch.rand(8, *SHAPE, generator=torch.Generator().manual_seed(4))
    batch = Batch(ids=tuple("abcdefgh"), inputs=inputs, targets=torch.zeros(8, dtype=torch.int64))
    victim = Binary()
    best = victim.outputs(inputs)[:, 0] - float(EPSILON) * weight.abs().sum()
    for declaration in (EXAMPLES["fgsm"], EXAMPLES["pgd"]):
        reached = victim.outputs(perturb(declaration, batch, victim, ExampleDraws(range(8))).inputs)[:, 0]
        torch.testing.assert_close(reached, best, atol=1e-4, rtol=0)


def test_noise_never_exceeds_the_closed_form_margin() -> None:
    batch = batch_of(32, seed=5)
    noise = loss(perturbed(EXAMPLES["uniform-noise"], batch), batch)
    attacked = loss(perturbed(EXAMPLES["pgd"], batch), batch)
    assert bool((noise <= attacked + 1e-5).all())


def loss(inputs: torch.Tensor, batch: Batch) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(VICTIM.outputs(inputs), batch.targets, reduction="none")


def test_three_restarts_are_a_prefix_of_five() -> None:
    batch = batch_of(32, seed=6)
    few, many = (
        perturbed(dataclasses.replace(EXAMPLES["pgd"], num_steps=2, num_restarts=number), batch) for number in (3, 5)
    )
    fooled_by_few = VICTIM.outputs(few).argmax(1) != batch.targets
    assert bool((VICTIM.outputs(many).argmax(1) != batch.targets)[fooled_by_few].all())
    assert bool((loss(many, batch) >= loss(few, batch) - 1e-6)[~fooled_by_few].all())


def test_budgets_share_their_noise() -> None:
    batch = Batch(ids=("a",), inputs=torch.full((1, *SHAPE), 0.5), targets=torch.zeros(1, dtype=torch.int64))
    small = perturbed(UniformNoise(epsilon=Fraction(1, 255)), batch) - 0.5
    large = perturbed(UniformNoise(epsilon=Fraction(8, 255)), batch) - 0.5
    torch.testing.assert_close(8 * small, large, atol=1e-6, rtol=0)
