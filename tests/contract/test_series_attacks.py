"""Attacks on time series: padding stays and takes no part of a budget, and what works on images works on them."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from presence import present
from series_examples import LENGTHS, NUM_CHANNELS, SeriesVictim, series_batch

from robench.attacks.apgd import Apgd
from robench.attacks.autoattack import AutoAttack
from robench.attacks.base import Attack
from robench.attacks.cw import Cw
from robench.attacks.ddn import Ddn
from robench.attacks.fab import Fab
from robench.attacks.fgsm import Fgsm
from robench.attacks.fmn import Fmn
from robench.attacks.noise import GaussianNoise, UniformNoise
from robench.attacks.pdpgd import Pdpgd
from robench.attacks.pgd import Pgd
from robench.attacks.rays import Rays
from robench.attacks.regions import random_start, region_of
from robench.attacks.sigma_zero import SigmaZero
from robench.attacks.sparse_l1 import SparseL1
from robench.attacks.sparse_rs import SparseRs
from robench.attacks.spsa import Spsa
from robench.attacks.square import Square
from robench.attacks.square_impl import proportion_of_pixels
from robench.attacks.square_series import SquareSeries
from robench.attacks.square_series_impl import TRIALS_AT_ONCE
from robench.core.protocols import Batch
from robench.core.seeds import Stream
from robench.datasets import DATASETS
from robench.declarations.supports import L0
from robench.domains.series import SERIES
from robench.domains.series_impl import PADDING
from robench.perturbations import PERTURBATIONS
from robench.perturbations.draws import ExampleDraws
from robench.testing import check_attack
from robench.testing.models import perturbed, rows_of

Array = np.ndarray[Any, Any]
EPSILON = Fraction("0.1")
# Radii that fool part of the examples of ``right_batch``, by norm.
RADII = {"linf": EPSILON, "l2": Fraction("0.4"), "l1": Fraction("0.7")}
EXAMPLES: dict[str, Attack] = {
    "uniform-noise": UniformNoise(epsilon=EPSILON),
    "gaussian-noise": GaussianNoise(epsilon=Fraction(2)),
    "fgsm": Fgsm(epsilon=Fraction(2)),
    "fgsm-l2": Fgsm(norm="l2", epsilon=Fraction(1)),
    "pgd": Pgd(epsilon=EPSILON, relative_step=Fraction(1, 4), num_steps=8),
    "pgd-unclipped": Pgd(epsilon=EPSILON, relative_step=Fraction(1, 4), num_steps=8, clip="none"),
    "pgd-l2": Pgd(norm="l2", epsilon=Fraction(1), relative_step=Fraction(1, 4), num_steps=8, stop="at_success"),
    "pgd-l1": Pgd(norm="l1", epsilon=Fraction(3), relative_step=Fraction(1, 4), num_steps=8),
    "apgd": Apgd(epsilon=EPSILON, num_steps=10),
    "apgd-dlr": Apgd(epsilon=EPSILON, num_steps=10, loss="dlr-targeted", num_restarts=2),
    "apgd-l2": Apgd(norm="l2", epsilon=Fraction(1), num_steps=10),
    "apgd-l1": Apgd(norm="l1", epsilon=Fraction(3), num_steps=10, radii="shrinking"),
    "spsa": Spsa(epsilon=EPSILON, num_steps=8, learning_rate=Fraction("0.1"), delta=Fraction("0.01"), num_samples=16),
    "spsa-l2": Spsa(
        norm="l2", epsilon=Fraction(1), num_steps=4, learning_rate=Fraction("0.1"), delta=Fraction("0.01"),
        num_samples=8,
    ),
    "sparse-l1": SparseL1(epsilon=Fraction(3), step_size=Fraction(1), num_steps=8, sparsity=0.9, random_start=True),
    "cw": Cw(num_steps=40, num_search_steps=3, initial_c=1.0, learning_rate=0.05),
    "fab": Fab(num_steps=10, num_restarts=2, epsilon=EPSILON),
    "fab-l2": Fab(norm="l2", num_steps=10, num_targets=2),
    "fab-l1": Fab(norm="l1", num_steps=10),
    "ddn": Ddn(num_steps=20),
    "fmn": Fmn(num_steps=10),
    "fmn-l0": Fmn(norm="l0", num_steps=10, num_restarts=2),
    "sigma-zero": SigmaZero(num_steps=10, num_restarts=2),
    "pdpgd": Pdpgd(num_steps=10, num_restarts=2),
    "square-series": SquareSeries(epsilon=EPSILON, num_queries=60, p_init=0.8),
    "square-series-at-success": SquareSeries(epsilon=EPSILON, num_queries=60, p_init=0.8, stop="at_success"),
    "sparse-rs": SparseRs(epsilon=Fraction(1), l0=L0(count=3, unit="values"), num_queries=15),
    "autoattack": AutoAttack(
        epsilon=EPSILON,
        variant="custom",
        members=(
            Apgd(epsilon=EPSILON, num_steps=5, stop="at_success"),
            Fab(num_steps=5),
            SquareSeries(epsilon=EPSILON, num_queries=20, p_init=0.5, stop="at_success"),
        ),
    ),
}  # fmt: skip
# SEA is of masks, a task of images. Attacks that see labels alone begin between limits, which series lack.
IMAGES_ALONE = {"square", "sea", "patch-fool", "transfer-pgd", "rays", "hop-skip-jump"}
every_attack = pytest.mark.parametrize("name", EXAMPLES)
# One of each implementation and norm; the contract of all settings on images is in test_perturbations_contract.py.
SHARPEST = (
    *("uniform-noise", "gaussian-noise", "fgsm", "pgd-l2", "pgd-l1", "apgd-l1", "spsa-l2", "sparse-l1", "cw", "fab-l2"),
    *("sparse-rs", "square-series-at-success", "autoattack"),
)


def right_batch(num_examples: int = 24) -> Batch:
    """Return series of many lengths with the classes that the victim gives them."""
    batch = series_batch([1 + 7 * row % 12 for row in range(num_examples)])
    with torch.no_grad():
        return replace(batch, targets=SeriesVictim().outputs(batch.inputs).argmax(1))


def test_every_attack_without_axes_of_its_own_has_an_example() -> None:
    kinds = {kind for kind, declared in PERTURBATIONS.items() if issubclass(declared, Attack)}
    assert kinds - IMAGES_ALONE == {each.kind for each in EXAMPLES.values()}


@every_attack
def test_it_keeps_what_is_promised_of_padded_series(name: str) -> None:
    declaration, batch, victim = EXAMPLES[name], right_batch(6), SeriesVictim()
    result = perturbed(declaration, batch, victim)
    # Padding that moved on its way to the model would be read as a value.
    assert all(int((shown == PADDING).any(-1).sum()) == int((shown > 1e9).any(-1).sum()) for shown in victim.shown)
    SERIES.rules.check_perturbed(result.inputs, batch.inputs, declaration, victim)
    if declaration.threat_model is not None:
        change = (result.inputs.double() - batch.inputs.double()).flatten(1)
        norm = {"linf": torch.inf, "l2": 2, "l1": 1}[declaration.threat_model.norm]
        assert float(change.norm(p=norm, dim=1).max()) <= float(declaration.threat_model.epsilon)
    assert torch.equal(perturbed(declaration, batch, SeriesVictim()).inputs, result.inputs)
    rows = [5, 1, 0]
    some = perturbed(declaration, replace(rows_of(batch, rows), domain="series"), SeriesVictim(), rows).inputs
    torch.testing.assert_close(some, result.inputs[rows], atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "name", [name if name in SHARPEST else pytest.param(name, marks=pytest.mark.slow) for name in EXAMPLES]
)
def test_it_keeps_what_every_attack_promises(name: str) -> None:
    check_attack(EXAMPLES[name], "series")


# The reference: projected gradient ascent in one loop, for one series at a time and without any of robench's attacks.
def plain_pgd(batch: Batch, norm: str, epsilon: float, num_moved: int = 1, num_steps: int = 10) -> torch.Tensor:
    victim, fooled = SeriesVictim(), []
    for row, length in enumerate((batch.inputs[..., 0] != PADDING).sum(1).tolist()):
        clean, target = batch.inputs[row, :length], batch.targets[[row]]
        points = clean.clone()
        is_fooled = False
        for _ in range(num_steps):
            points.requires_grad_()
            whole = torch.cat([points, batch.inputs[row, length:]])
            logits = victim.outputs(whole[None])
            is_fooled |= int(logits.argmax()) != int(target)
            (gradient,) = torch.autograd.grad(torch.nn.functional.cross_entropy(logits, target), points)
            with torch.no_grad():
                if norm == "linf":
                    moved = points + epsilon / 4 * gradient.sign()
                    points = torch.minimum(torch.maximum(moved, clean - epsilon), clean + epsilon)
                elif norm == "l2":
                    change = points + epsilon / 4 * gradient / gradient.norm() - clean
                    points = clean + change * min(1.0, epsilon / float(change.norm()))
                else:
                    change = points - clean
                    for place in gradient.abs().flatten().argsort(descending=True)[:num_moved].tolist():
                        at = divmod(place, NUM_CHANNELS)
                        change[at] += epsilon / 4 / num_moved * gradient[at].sign()
                    points = clean + change * min(1.0, epsilon / float(change.abs().sum()))
        whole = torch.cat([points, batch.inputs[row, length:]])
        fooled.append(is_fooled or int(victim.outputs(whole[None]).argmax()) != int(target))
    return torch.tensor(fooled)


STRONG: dict[str, Attack] = {
    "pgd": Pgd(epsilon=RADII["linf"], relative_step=Fraction(1, 4), num_steps=20),
    "apgd": Apgd(epsilon=RADII["linf"], num_steps=20),
    "apgd-dlr": Apgd(epsilon=RADII["linf"], num_steps=20, loss="dlr"),
    "apgd-dlr-targeted": Apgd(epsilon=RADII["linf"], num_steps=20, loss="dlr-targeted", num_restarts=4),
    "fab": Fab(num_steps=20),
    "spsa": Spsa(
        epsilon=RADII["linf"], num_steps=20, learning_rate=Fraction("0.1"), delta=Fraction("0.01"), num_samples=32
    ),
    "square-series": SquareSeries(epsilon=RADII["linf"], num_queries=300, p_init=0.8, stop="at_success"),
    "autoattack": EXAMPLES["autoattack"],
    "pgd-l2": Pgd(norm="l2", epsilon=RADII["l2"], relative_step=Fraction(1, 4), num_steps=20),
    "apgd-l2": Apgd(norm="l2", epsilon=RADII["l2"], num_steps=20),
    "cw": Cw(num_steps=60, num_search_steps=5, initial_c=1.0, learning_rate=0.05),
    "fab-l2": Fab(norm="l2", num_steps=20),
    "pgd-l1": Pgd(norm="l1", epsilon=RADII["l1"], relative_step=Fraction(1, 4), num_steps=20),
    "apgd-l1": Apgd(norm="l1", epsilon=RADII["l1"], num_steps=40),
    "sparse-l1": SparseL1(epsilon=RADII["l1"], step_size=RADII["l1"] / 4, num_steps=20, sparsity=0.99),
    "fab-l1": Fab(norm="l1", num_steps=20),
}


@pytest.fixture(scope="module")
def reached_by_reference() -> dict[str, torch.Tensor]:
    reached = {norm: plain_pgd(right_batch(), norm, float(radius)) for norm, radius in RADII.items()}
    # A step of sparse l1 descent moves at least two values.
    return reached | {"sparse-l1": plain_pgd(right_batch(), "l1", float(RADII["l1"]), num_moved=2)}


@pytest.mark.parametrize("name", STRONG)
def test_it_fools_as_many_as_a_plain_loop(name: str, reached_by_reference: dict[str, torch.Tensor]) -> None:
    declaration, batch, victim = STRONG[name], right_batch(), SeriesVictim()
    norm = declaration.search_norm or declaration.budget[0]
    result = perturbed(declaration, batch, victim).inputs
    distances = SERIES.rules.check_perturbed(result, batch.inputs, declaration, victim)[norm]
    fooled = (victim.outputs(result).argmax(1) != batch.targets) & (distances <= float(RADII[norm]))
    reference = reached_by_reference.get(name, reached_by_reference[norm])
    assert 8 <= int(reference.sum()) <= 20
    assert int(fooled.sum()) >= int(reference.sum())


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_random_starts_are_uniform_in_the_ball_of_what_is_free(norm: str) -> None:
    # A series of 2 steps padded to 20, and one whose free values do not come first.
    clean = torch.zeros(400, 20, 2)
    free = torch.zeros_like(clean, dtype=torch.bool)
    free[::2, :2] = free[1::2, 7:9] = True
    infinite = torch.tensor(torch.inf)
    region = region_of(norm, clean, 1.5, -infinite, infinite, free)
    points = random_start(region, clean, ExampleDraws(range(400)), Stream(purpose="start"))
    assert not bool(points[~free].any())
    assert bool(points[free].all())
    radii = points.flatten(1).norm(p={"l2": 2, "l1": 1}[norm], dim=1) / 1.5
    # The fourth power of the radius is uniform in four dimensions; over all 40 it would be next to 0.
    assert abs(float(radii.pow(4).mean()) - 0.5) < 0.06
    assert abs(float(points[free].mean())) < 0.05
    assert torch.equal(region.take(torch.tensor([3, 0])).num_free, torch.tensor([4.0, 4.0]))


def test_noise_and_starts_spend_the_whole_budget_on_values() -> None:
    batch = right_batch()
    noise = perturbed(GaussianNoise(epsilon=Fraction(2)), batch, SeriesVictim()).inputs - batch.inputs
    torch.testing.assert_close(noise.flatten(1).norm(dim=1), torch.full((24,), 2.0), atol=1e-4, rtol=0)
    victim = SeriesVictim()
    fab = Fab(norm="l2", num_steps=1, num_targets=1, num_restarts=2, epsilon=Fraction("0.02"), num_final_steps=0)
    perturbed(fab, batch, victim)
    # After the clean inputs, and a gradient and a prediction of the first search.
    start = victim.shown[3] - batch.inputs
    torch.testing.assert_close(start.flatten(1).norm(dim=1), torch.full((24,), 0.01), atol=1e-5, rtol=0)


JAPANESE, FACES = DATASETS["japanese-vowels"], DATASETS["face-detection"]
HAVE_PADDING = "must be left out on japanese-vowels, whose inputs (series) have padding, got 0.0"
OF_TWO_CLASSES = "must be ce or margin on face-detection, which has 2 classes: dlr needs at least 3"


@pytest.mark.parametrize(
    ("declaration", "dataset", "field", "message"),
    [
        (Square(epsilon=EPSILON, num_queries=2, p_init=0.5), JAPANESE, "", "have the axes time, channels; it needs "),
        (Square(epsilon=EPSILON, num_queries=2, p_init=0.5), JAPANESE, "", "; take square-series"),
        (SquareSeries(epsilon=EPSILON, num_queries=2, p_init=0.5), DATASETS["digits"], "", "channels; take square"),
        (AutoAttack(epsilon=EPSILON, variant="standard"), JAPANESE, "variant", "; take variant custom, with other"),
        (AutoAttack(epsilon=EPSILON, variant="rand"), FACES, "variant", "few-classes or custom on face-detection"),
        (Rays(num_queries=9), JAPANESE, "", "must be no rays on inputs (series) without limits, between which it"),
        (replace(EXAMPLES["pgd"], space="normalised"), JAPANESE, "space", "must be input on japanese-vowels, whose in"),
        (replace(EXAMPLES["spsa"], formula="released"), JAPANESE, "formula", "must be paper on japanese-vowels, whose"),
        (replace(EXAMPLES["cw"], clip="none", clip_min=0.0, clip_max=1.0), JAPANESE, "clip_min", HAVE_PADDING),
        (Fgsm(epsilon=EPSILON, backend="torchattacks"), JAPANESE, "backend", "whose inputs (series) are not limited"),
        (replace(EXAMPLES["apgd"], loss="dlr"), FACES, "loss", OF_TWO_CLASSES),
        (EXAMPLES["apgd-dlr"], replace(FACES, num_classes=3), "loss", "has 3 classes: dlr-targeted needs at least 4"),
    ],
)
def test_what_needs_limits_images_or_more_classes_is_refused(
    declaration: Any, dataset: Any, field: str, message: str
) -> None:
    ((found, text),) = declaration.problems_on(dataset)
    assert found == field
    assert message in text


# The reference: one series and one trial at a time, in float64, from the description of the search.
def reference_search(declaration: SquareSeries, batch: Batch, row: int) -> Array:
    length = LENGTHS[row]
    clean, epsilon = batch.inputs[row, :length].double().numpy(), float(declaration.epsilon)
    draws, target = ExampleDraws([row]), int(batch.targets[row])
    victim = SeriesVictim()

    def margin(points: Array) -> float:
        whole = batch.inputs[[row]].clone()
        whole[0, :length] = torch.from_numpy(points).float()
        logits = victim.outputs(whole)[0].double().numpy()
        return float(np.delete(logits, target).max() - logits[target])

    signs = draws.signs(Stream(purpose="start"), batch.inputs.shape[1:])[0, :length].double().numpy()
    best = clean + epsilon * signs
    value = margin(best)
    for trial in range(declaration.num_queries - 1):
        stream = Stream(purpose="windows", step=trial // TRIALS_AT_ONCE)
        of_trials = draws.uniform(stream, (TRIALS_AT_ONCE, 1 + 2 * NUM_CHANNELS))[0]
        drawn = of_trials[trial % TRIALS_AT_ONCE].double().numpy()
        part = proportion_of_pixels(trial, declaration.num_queries, declaration.p_init)
        count = max(round(part**0.5 * NUM_CHANNELS), 1)
        size = min(max(round(part * length * NUM_CHANNELS / count), 1), length)
        first = int(drawn[0] * (length - size + 1))
        ranks, ups = drawn[1 : 1 + NUM_CHANNELS], drawn[1 + NUM_CHANNELS :] >= 0.5
        channels = np.argsort(ranks, kind="stable")[:count]
        for turn in (1, -1):
            points = best.copy()
            for channel in channels:
                sign = turn * (1 if ups[channel] else -1)
                points[first : first + size, channel] = clean[first : first + size, channel] + sign * epsilon
            if (points != best).any():
                break
        if (new := margin(points)) > value:
            best, value = points, new
    return best


def test_square_series_equals_its_reference() -> None:
    declaration, batch = SquareSeries(epsilon=EPSILON, num_queries=40, p_init=0.75), series_batch()
    victim = SeriesVictim()
    result = perturbed(declaration, batch, victim)
    assert present(result.num_queries).tolist() == [40] * len(LENGTHS)
    for row, length in enumerate(LENGTHS):
        wanted = reference_search(declaration, batch, row)
        np.testing.assert_allclose(result.inputs[row, :length].numpy(), wanted, atol=1e-5)


def test_square_series_stops_at_success() -> None:
    batch = right_batch()
    declaration = SquareSeries(epsilon=EPSILON, num_queries=100, p_init=0.8, stop="at_success")
    victim = SeriesVictim()
    result = perturbed(declaration, batch, victim)
    fooled = victim.outputs(result.inputs).argmax(1) != batch.targets
    assert 0 < int(fooled.sum()) < 24
    assert bool((present(result.num_queries)[~fooled] >= 100).all())
    assert int(present(result.num_queries)[fooled].min()) < 10
