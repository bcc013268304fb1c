"""Attacks on segmentation: losses as loops over pixels, the points that searches keep, SEA, and what is refused."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from robench.attacks.apgd import Apgd
from robench.attacks.attack import problem_of
from robench.attacks.autoattack import AutoAttack
from robench.attacks.base import Attack
from robench.attacks.cw import Cw
from robench.attacks.fab import Fab
from robench.attacks.fgsm import Fgsm
from robench.attacks.pgd import Pgd
from robench.attacks.problem import Problem
from robench.attacks.sea import Sea
from robench.attacks.search import State, search
from robench.attacks.spsa import Spsa
from robench.attacks.square import Square
from robench.core.protocols import Batch, Perturbed
from robench.datasets.digits import DIGITS
from robench.metrics.segmentation import worst_conditions
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws
from robench.tasks.segmentation import IGNORED, SEGMENTATION
from robench.tasks.segmentation_impl import RULES, confusion
from robench.tasks.segmentation_losses_impl import LOSSES

EPSILON = Fraction(8, 255)
SCENES: Any = replace(DIGITS, name="scenes", task="segmentation")
NUM_CLASSES, PROGRESS = 3, 0.4


def resized(logits: np.ndarray[Any, Any], height: int, width: int) -> np.ndarray[Any, Any]:
    """Return logits (K, h, w) as (K, H, W): each pixel's from the four nearest centres."""
    found = np.empty((len(logits), height, width))
    rows, columns = logits.shape[1:]
    for i in range(height):
        for j in range(width):
            y = min(max((i + 0.5) * rows / height - 0.5, 0), rows - 1)
            x = min(max((j + 0.5) * columns / width - 0.5, 0), columns - 1)
            top, left = int(y), int(x)
            bottom, right = min(top + 1, rows - 1), min(left + 1, columns - 1)
            above = logits[:, top, left] * (1 - x + left) + logits[:, top, right] * (x - left)
            below = logits[:, bottom, left] * (1 - x + left) + logits[:, bottom, right] * (x - left)
            found[:, i, j] = above * (1 - y + top) + below * (y - top)
    return found


def by_pixels(name: str, logits: np.ndarray[Any, Any], mask: np.ndarray[Any, Any]) -> float:
    """Return a loss of one image by the formulas of the papers, pixel by pixel."""
    whole, total = resized(logits, *mask.shape), 0.0
    counted = [(i, j) for i in range(mask.shape[0]) for j in range(mask.shape[1]) if mask[i, j] != IGNORED]
    classes = {int(mask[place]) for place in counted}
    for i, j in counted:
        z, y = whole[:, i, j], int(mask[i, j])
        p = np.exp(z) / np.exp(z).sum()
        ce, is_right, truth = -np.log(p[y]), int(np.argmax(z)) == y, np.eye(len(z))[y]
        middle = (p + truth) / 2
        match name:
            case "ce":
                total += ce
            case "segpgd":
                total += ce * (1 - PROGRESS / 2 if is_right else PROGRESS / 2)
            case "cospgd":
                total += ce * (p @ truth) / (np.linalg.norm(p) * np.linalg.norm(truth))
            case "masked-ce":
                total += ce * is_right
            case "balanced-ce":
                of_class = sum(int(mask[place]) == y for place in counted)
                total += ce * is_right * len(counted) / (of_class * len(classes))
            case _:
                total += (np.sum(p * np.log(p / middle)) + np.log(1 / middle[y])) / 2
    return total / len(counted)


def loss_of(name: str, outputs: Tensor, masks: Tensor) -> Tensor:
    beside = [torch.full((len(outputs),), PROGRESS, dtype=outputs.dtype)] if name == "segpgd" else []
    return LOSSES[name](outputs, masks, *beside)


def sample(size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Return logits (2, 3, 4, 5) and masks of a size with ignored pixels, most of them right."""
    generator = torch.Generator().manual_seed(3)
    outputs = 2 * torch.randn(2, NUM_CLASSES, 4, 5, generator=generator, dtype=torch.float64)
    masks = RULES.own_labels(outputs, torch.zeros(2, *size, dtype=torch.int64))
    flipped = torch.rand(2, *size, generator=generator)
    masks = torch.where(flipped < 0.3, (masks + 1) % NUM_CLASSES, masks)
    return outputs, torch.where(flipped > 0.8, IGNORED, masks)


@pytest.mark.parametrize("size", [(4, 5), (7, 3)])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_those_of_the_papers(name: str, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    outputs, masks = sample(size)
    wanted = [by_pixels(name, one.numpy(), mask.numpy()) for one, mask in zip(outputs, masks, strict=True)]
    np.testing.assert_allclose(loss_of(name, outputs, masks), wanted, rtol=0, atol=1e-10)
    given = outputs.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss_of(name, given, masks).sum(), given)
    # Strips of one row give the same, in value and gradient.
    monkeypatch.setattr("robench.tasks.segmentation_losses_impl.MOST_VALUES", 1)
    np.testing.assert_allclose(loss_of(name, outputs, masks), wanted, rtol=0, atol=1e-10)
    (by_strips,) = torch.autograd.grad(loss_of(name, given, masks).sum(), given)
    torch.testing.assert_close(by_strips, gradient, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_those_of_differences_with_weights_held(name: str) -> None:
    outputs, masks = sample((4, 5))
    given = outputs.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss_of(name, given, masks).sum(), given)
    assert not bool(gradient.movedim(1, -1)[masks == IGNORED].any())
    change = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    weights = torch.exp(-nn.functional.cross_entropy(outputs, masks, ignore_index=IGNORED, reduction="none"))
    weights /= outputs.softmax(1).norm(dim=1)

    def value(logits: Tensor) -> Tensor:
        if name != "cospgd":
            return loss_of(name, logits, masks).sum()
        losses = nn.functional.cross_entropy(logits, masks, ignore_index=IGNORED, reduction="none")
        return ((weights * losses).sum((1, 2)) / (masks != IGNORED).sum((1, 2))).sum()

    slope = (value(outputs + 1e-6 * change) - value(outputs - 1e-6 * change)) / 2e-6
    assert float((gradient * change).sum()) == pytest.approx(float(slope), rel=1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_an_image_whose_pixels_are_all_ignored_is_none_and_gives_no_gradient(name: str) -> None:
    outputs, masks = sample((4, 5))
    masks[0] = IGNORED
    given = outputs.clone().requires_grad_()
    values = loss_of(name, given, masks)
    (gradient,) = torch.autograd.grad(values.sum(), given)
    assert float(values[0].detach()) == 0
    assert not bool(gradient[0].any())
    assert bool(gradient[1].any())


class Tiny:
    """A network of two convolutions, of images (3, 6, 8) and three classes."""

    device = torch.device("cpu")
    normalisation = torch.zeros(3, 1, 1), torch.ones(3, 1, 1)
    takes_seeds = True

    def __init__(self, scale: float = 4.0) -> None:
        with torch.random.fork_rng():
            torch.manual_seed(2)
            layers = nn.Conv2d(3, 8, 3, padding=1), nn.Tanh(), nn.Conv2d(8, NUM_CLASSES, 1)
        self.model, self.scale = nn.Sequential(*layers).requires_grad_(False), scale

    def outputs(self, inputs: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        logits: Tensor = self.scale * self.model(inputs)
        return logits


def scenes(num_images: int = 4, size: tuple[int, int] = (9, 12)) -> Batch:
    """Return images, and masks of another size: mostly what the network predicts, some pixels are ignored."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(num_images, 3, 6, 8, generator=generator)
    masks = RULES.own_labels(Tiny().outputs(inputs), torch.zeros(num_images, *size, dtype=torch.int64))
    drawn = torch.rand(masks.shape, generator=generator)
    masks = torch.where(drawn < 0.1, (masks + 1) % NUM_CLASSES, masks)
    masks = torch.where(drawn > 0.9, IGNORED, masks)
    return Batch(ids=tuple(map(str, range(num_images))), inputs=inputs, targets=masks, task="segmentation")


DRAWS = ExampleDraws(range(4))
BATCH = scenes()
STEPS: dict[str, Any] = {"epsilon": EPSILON, "relative_step": Fraction(1, 4), "num_steps": 5}


class Sure(Tiny):
    """The network with logits of the class 0 that are ahead by about 60: cross-entropies of e^-60."""

    def outputs(self, inputs: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        return super().outputs(inputs) + 60 * torch.eye(NUM_CLASSES)[0].view(-1, 1, 1)


@pytest.mark.parametrize("name", [name for name in LOSSES if name != "segpgd"])
def test_of_saturated_pixels_steps_go_where_exact_gradients_point(name: str) -> None:
    """Each loss is then a multiple of the mean over pixels of ln sum exp(z_i - z_0), over the other classes i."""
    batch = replace(BATCH, targets=torch.zeros(4, 6, 8, dtype=torch.int64))
    declared = Fgsm(epsilon=EPSILON, loss=name)  # type: ignore[arg-type]  # a name
    change = perturb(declared, batch, Sure(), DRAWS).inputs - batch.inputs
    given = batch.inputs.double().requires_grad_()
    logits = Tiny().scale * Tiny().model.double()(given)
    (gradient,) = torch.autograd.grad((logits[:, 1:] - logits[:, :1]).logsumexp(1).sum(), given)
    is_inside = (batch.inputs > float(EPSILON)) & (batch.inputs < 1 - float(EPSILON))
    assert float((change.sign() == gradient.sign())[is_inside].double().mean()) > 0.995


def made(declaration: Attack, batch: Batch = BATCH, batch_size: int | None = None) -> Perturbed:
    return perturb(declaration, batch, Tiny(), DRAWS, batch_size)


def right(inputs: Tensor, batch: Batch = BATCH) -> list[int]:
    found: list[int] = RULES.num_right(Tiny().outputs(inputs), batch.targets).tolist()
    return found


WORKING: dict[str, Any] = {
    "fgsm": Fgsm(epsilon=EPSILON),
    "fgsm-masked": Fgsm(epsilon=EPSILON, loss="masked-ce"),
    **{f"pgd-{loss}": Pgd(**STEPS, loss=loss) for loss in (*LOSSES, "objective")},
    **{f"apgd-{loss}": Apgd(epsilon=EPSILON, num_steps=5, loss=loss) for loss in LOSSES if loss != "segpgd"},
    "pgd-l2": Pgd(**STEPS | {"epsilon": Fraction(1, 2)}, norm="l2", loss="segpgd", num_restarts=2, momentum=0.5),
    "pgd-draws": Pgd(**STEPS, loss="segpgd", num_draws=2, returns="last"),
    "apgd-l1": Apgd(norm="l1", epsilon=Fraction(4), num_steps=10, radii="shrinking", loss="js", num_restarts=2),
    "apgd-red": Apgd(epsilon=EPSILON, num_steps=10, radii="shrinking", loss="balanced-ce"),
    "spsa": Spsa(
        epsilon=EPSILON, num_steps=3, learning_rate=Fraction(1, 50), delta=Fraction(1, 50), num_samples=9, loss="ce"
    ),
    "square": Square(epsilon=EPSILON, num_queries=20, p_init=0.5, loss="ce"),
    "sea": Sea(epsilon=EPSILON, num_steps=6),
}


@pytest.mark.parametrize("name", WORKING)
def test_attacks_fool_pixels_and_an_image_alone_and_in_batches_is_the_same(name: str) -> None:
    declaration = WORKING[name]
    assert declaration.problems_on(SCENES) == []
    reached = made(declaration)
    pairs = list(zip(right(reached.inputs), right(BATCH.inputs), strict=True))
    assert all(after <= before for after, before in pairs)
    assert sum(before - after for after, before in pairs) >= 15
    torch.testing.assert_close(made(declaration, batch_size=2).inputs, reached.inputs, rtol=0, atol=1e-6)


def test_segpgd_weighs_right_pixels_by_one_at_its_first_step_and_less_at_each_further_one() -> None:
    """Written out: lambda is (t - 1) / (2 T) at step t."""
    declared = Pgd(**STEPS, loss="segpgd", random_start=False, returns="last")
    points = BATCH.inputs.clone()
    for step in range(5):
        given = points.clone().requires_grad_()
        loss = LOSSES["segpgd"](Tiny().outputs(given), BATCH.targets, torch.full((4,), step / 5))
        (gradient,) = torch.autograd.grad(loss.sum(), given)
        moved = points + float(EPSILON) / 4 * gradient.sign()
        points = (BATCH.inputs + (moved - BATCH.inputs).clamp(-float(EPSILON), float(EPSILON))).clamp(0, 1)
    torch.testing.assert_close(made(declared).inputs, points, rtol=0, atol=1e-6)


def test_ignored_pixels_move_nothing() -> None:
    """Images of which all but one corner is ignored: no gradient reaches beyond the convolution's width."""
    targets = torch.full_like(BATCH.targets, IGNORED)
    targets[:, 0, 0] = BATCH.targets[:, 0, 0].clamp(min=0)
    batch = replace(BATCH, targets=targets)
    for loss in ("segpgd", "cospgd", "balanced-ce", "js"):
        declared = Pgd(**STEPS, loss=loss, random_start=False, returns="last")  # type: ignore[arg-type]  # names
        moved = (made(declared, batch).inputs != batch.inputs).any(1)
        assert not bool(moved[:, 3:].any()), loss
        assert not bool(moved[:, :, 3:].any()), loss


def test_predicted_labels_are_the_networks_and_leave_out_what_the_data_ignore() -> None:
    declared = replace(WORKING["pgd-ce"], labels="predicted")
    problem = problem_of(declared, BATCH, Tiny(), DRAWS, 4)
    predicted = Tiny().outputs(BATCH.inputs)
    whole = nn.functional.interpolate(predicted, size=BATCH.targets.shape[-2:], mode="bilinear").argmax(1)
    is_ignored = BATCH.targets == IGNORED
    assert torch.equal(problem.labels == IGNORED, is_ignored)
    assert torch.equal(problem.labels[~is_ignored], whole[~is_ignored])
    assert sum(right(made(declared).inputs)) < sum(right(BATCH.inputs))


class Brighter(Tiny):
    """Logits of two classes in which one threshold of brightness decides about most pixels of an image (1, 2, 3)."""

    def outputs(self, inputs: Tensor, seeds: Any = None) -> Tensor:
        level = inputs.mean(1)
        # One pixel is very wrong in bright images, and others a little in images of medium brightness.
        thresholds = torch.tensor([[0.9, 0.0, 0.0], [0.0, 0.0, 0.0]])
        steep = torch.tensor([[100.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
        medium = 0.1 - (level - 0.6).abs()
        ahead = torch.where(thresholds > 0, level - 0.9, medium) * steep
        return torch.stack([torch.zeros_like(ahead), ahead], 1)


class Walk:
    """A search through given brightnesses, whose loss is the cross-entropy."""

    loss = staticmethod(LOSSES["ce"])

    def __init__(self, values: list[float]) -> None:
        self.values, self.num_steps = values, len(values) - 1

    def begin(self, problem: Problem, restart: int) -> State:
        return State(points=torch.full_like(problem.inputs, self.values[0]))

    def step(self, problem: Problem, state: State, step: int) -> State:
        seen = problem.evaluate(state.points, self.loss)
        return State(points=torch.full_like(state.points, self.values[step + 1]), seen=seen)


def test_a_search_keeps_the_point_with_the_fewest_right_pixels_and_not_that_of_the_highest_loss() -> None:
    """At 1.0 one pixel is very wrong, and at 0.6 five pixels are."""
    inputs = torch.full((2, 3, 2, 3), 0.5)
    batch = Batch(ids=("a", "b"), inputs=inputs, targets=torch.zeros(2, 2, 3).long(), task="segmentation")
    victim = Brighter()
    high, many = (torch.full_like(inputs, level) for level in (1.0, 0.6))
    assert [RULES.num_right(victim.outputs(each), batch.targets).tolist() for each in (high, many)] == [[5, 5], [1, 1]]
    losses = [LOSSES["ce"](victim.outputs(each), batch.targets) for each in (high, many)]
    assert bool((losses[0] > losses[1]).all())
    problem = problem_of(Fgsm(epsilon=Fraction(1)), batch, victim, ExampleDraws(range(2)), 2)
    # Of points with as many right pixels, that of the highest loss.
    reached = search(Walk([0.5, 0.62, 0.6, 0.58, 1.0, 0.4]), problem, num_restarts=1)
    torch.testing.assert_close(reached.points, many)


class Watching(Tiny):
    """The network, which remembers what it saw."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[Tensor] = []

    def outputs(self, inputs: Tensor, seeds: Any = None) -> Tensor:
        self.shown.append(inputs.detach().clone())
        return super().outputs(inputs)


class TestApgd:
    def test_steps_are_judged_by_the_cross_entropy_of_all_pixels_whatever_loss_drives_them(self) -> None:
        """A step from the best point after a checkpoint: the best by that loss, with the driving loss' gradient."""
        victim, declared = Watching(), Apgd(epsilon=Fraction(32, 255), num_steps=10, loss="masked-ce")
        perturb(declared, BATCH, victim, DRAWS)
        # The third pass is followed by the first checkpoint, after steps 0, 1 and 2.
        losses = torch.stack([LOSSES["ce"](Tiny().outputs(points), BATCH.targets) for points in victim.shown[:5]])
        own = torch.stack([LOSSES["masked-ce"](Tiny().outputs(points), BATCH.targets) for points in victim.shown[:5]])
        step = 3
        best = losses[: step + 1].argmax(0)
        assert (own[: step + 1].argmax(0) != best).any()
        rises = (losses[1 : step + 1] > losses[:step]).sum(0)
        for row in range(4):
            halved = int(rises[row]) < 0.75 * step or int(best[row]) == 0
            start = victim.shown[int(best[row]) if halved else step][row]
            given = start[None].clone().requires_grad_()
            value = LOSSES["masked-ce"](Tiny().outputs(given), BATCH.targets[row : row + 1]).sum()
            (gradient,) = torch.autograd.grad(value, given)
            size = float(declared.epsilon) * (1 if halved else 2)
            region = problem_of(declared, BATCH, Tiny(), DRAWS, 4).region.take(torch.tensor([row]))
            ahead = region.project(start + size * gradient.sign())
            wanted = region.project(start + 0.75 * (ahead - start) + 0.25 * (start - victim.shown[step - 1][row]))
            torch.testing.assert_close(victim.shown[step + 1][row], wanted[0], rtol=0, atol=1e-6)

    def test_radii_shrink_and_each_search_begins_at_the_point_with_the_fewest_right_pixels(self) -> None:
        victim, declared = Watching(), WORKING["apgd-red"]
        reached = perturb(declared, BATCH, victim, DRAWS)
        distances = [float((shown - BATCH.inputs).abs().amax() / float(EPSILON)) for shown in victim.shown]
        # Of 10 steps 3, 3 and 4, each search with a look at where the one before ended.
        assert max(distances[:4]) == pytest.approx(2, rel=1e-5)
        assert max(distances[4:8]) == pytest.approx(1.5, rel=1e-5)
        assert max(distances[8:]) <= 1 + 1e-5
        assert len(distances) == 10 + 2 + 1
        assert float((reached.inputs - BATCH.inputs).abs().amax()) <= float(EPSILON)
        counts = torch.tensor([right(shown) for shown in victim.shown[:4]])
        losses = torch.stack([LOSSES["ce"](Tiny().outputs(points), BATCH.targets) for points in victim.shown[:4]])
        for row in range(4):
            first = max(range(4), key=lambda place: (-int(counts[place, row]), float(losses[place, row])))
            change = victim.shown[first][row] - BATCH.inputs[row]
            wanted = (BATCH.inputs[row] + change.clamp(-1.5 * float(EPSILON), 1.5 * float(EPSILON))).clamp(0, 1)
            torch.testing.assert_close(victim.shown[4][row], wanted, rtol=0, atol=1e-6)


class TestSea:
    def test_it_is_the_best_of_its_members_image_by_image(self) -> None:
        declared = replace(WORKING["sea"], epsilon=Fraction(2, 255))
        members = [made(each).inputs for each in declared.attacks]
        counts = torch.tensor([right(each) for each in (BATCH.inputs, *members)])
        reached = made(declared)
        assert right(reached.inputs) == counts.amin(0).tolist()
        assert len(set(counts[1:].argmin(0).tolist())) > 1
        assert [each.loss for each in declared.attacks] == ["balanced-ce", "masked-ce", "js"]
        assert all(each.problems_on(SCENES) == [] for each in declared.attacks)
        assert Sea(epsilon=EPSILON).num_steps == 300
        assert Sea(epsilon=EPSILON).most_passes == (900, 900)


def mean_iou(counts: np.ndarray[Any, Any]) -> float:
    """Return the mean IoU of the counts (K, 3) of true, predicted and both pixels."""
    unions = [true + predicted - both for true, predicted, both in counts]
    ratios = [both / union for (_, _, both), union in zip(counts, unions, strict=True) if union]
    return float(np.mean(ratios))


class TestWorstCaseOfMeanIou:
    def test_over_the_members_of_sea_it_is_below_each_and_below_the_choice_by_pixel_accuracy(self) -> None:
        members = [made(each).inputs for each in replace(WORKING["sea"], epsilon=Fraction(2, 255)).attacks]
        counts = np.stack([confusion(Tiny().outputs(each), BATCH.targets).numpy() for each in members])
        counts = counts.transpose(0, 1, 3, 2)
        chosen = counts[worst_conditions(counts), np.arange(4)]
        by_accuracy = counts[counts[..., 2].sum(2).argmin(0), np.arange(4)]
        bounds = [mean_iou(each.sum(0)) for each in (*counts, by_accuracy)]
        assert mean_iou(chosen.sum(0)) <= min(bounds) + 1e-12
        assert mean_iou(chosen.sum(0)) < max(bounds)

    def test_a_class_of_few_pixels_counts_as_much_as_one_of_many(self) -> None:
        """Two images of 100 pixels of one class and 5 of another, of which one attack or the other is undone."""
        true = [100, 5]
        one, other = [[true, [88, 17], [88, 5]], [true, [105, 0], [100, 0]]]
        clean = [true, true, true]
        counts = np.array([[one, clean], [other, one]]).transpose(0, 1, 3, 2)
        # By image the fewest right pixels: 93 of the first attack and 93 of the second.
        by_accuracy = counts[counts[..., 2].sum(2).argmin(0), np.arange(2)].sum(0)
        chosen = counts[worst_conditions(counts), np.arange(2)].sum(0)
        assert counts[..., 2].sum(2).tolist() == [[93, 105], [100, 93]]
        assert mean_iou(by_accuracy) == pytest.approx((176 / 200 + 10 / 34) / 2)
        assert mean_iou(chosen) == pytest.approx((188 / 205 + 5 / 22) / 2)
        assert mean_iou(chosen) < mean_iou(by_accuracy)


REFUSED: list[tuple[Attack, str, str]] = [
    (Cw(num_steps=3, num_search_steps=1, initial_c=1.0, learning_rate=0.1), "", "be another attack than cw"),
    (Fab(num_steps=3), "", "be another attack than fab"),
    (AutoAttack(epsilon=EPSILON, variant="standard"), "", "be another attack than autoattack"),
    (Square(epsilon=EPSILON, num_queries=9, p_init=0.5), "", "have loss objective or ce or segpgd or"),
    (Apgd(epsilon=EPSILON, num_steps=9, loss="dlr"), "", "and no dlr"),
    (Apgd(epsilon=EPSILON, num_steps=9, loss="dlr-targeted"), "", "no class of their own"),
    (Pgd(**STEPS, stop="at_success"), "stop", "must be never on scenes, whose task is segmentation: no example is"),
    (Apgd(epsilon=EPSILON, num_steps=9, returns="published"), "returns", "must be best or last on scenes"),
    (Fgsm(epsilon=EPSILON, backend="foolbox"), "backend", "libraries attack classifiers, got foolbox"),
]


@pytest.mark.parametrize(("declaration", "field", "message"), REFUSED)
def test_what_needs_one_class_per_image_is_refused(declaration: Attack, field: str, message: str) -> None:
    ((found, problem),) = declaration.problems_on(SCENES)
    assert found == field
    assert message in problem
    assert declaration.problems_on(DIGITS) == []


def test_losses_of_pixels_are_refused_for_classifiers_and_schedules_for_all_but_pgd() -> None:
    for declaration in (WORKING["pgd-js"], WORKING["apgd-masked-ce"], WORKING["sea"]):
        ((_, problem),) = declaration.problems_on(DIGITS)
        assert problem.endswith("on digits, whose task is classification")
    assert "be another attack than sea" in problem
    with pytest.raises(ValueError, match="loss must be another one for apgd: the weights of segpgd depend on the step"):
        Apgd(epsilon=EPSILON, num_steps=9, loss="segpgd")
    with pytest.raises(ValueError, match="num_steps must be at least 3 for sea, got 2"):
        Sea(epsilon=EPSILON, num_steps=2)
    with pytest.raises(ValueError, match="radii must be constant for norm linf with backend autoattack"):
        Apgd(epsilon=EPSILON, num_steps=9, radii="shrinking", backend="autoattack", stop="at_success")


def test_declared_losses_are_those_of_the_rules() -> None:
    assert tuple(LOSSES) == SEGMENTATION.losses
