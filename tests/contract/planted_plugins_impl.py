"""What ``planted_plugins`` declares, with one mistake each."""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from planted_plugins_impl_metrics import honest_metric as with_torch
from torch import Tensor

from robench.attacks.problem import Problem, Reached
from robench.attention.heads import attend
from robench.attention.projected import ProjectedAttention
from robench.core.protocols import Batch, Draws, Perturbed
from robench.core.seeds import Stream
from robench.datasets.in_memory import InMemoryImages
from robench.domains.series_impl import PADDING
from robench.tasks.classification_impl import cross_entropy_loss

__all__ = ["with_torch"]


# Attacks.
def climbed(declaration: Any, problem: Problem, sign: float = 1.0) -> Tensor:
    points, step = problem.inputs, sign * problem.region.epsilon / declaration.num_steps
    for number in range(declaration.num_steps):
        seen = problem.at(search=0, step=number).differentiate(points, cross_entropy_loss)
        points = problem.region.project(points + step * seen.gradient().sign())
    return points


def honest_attack(declaration: Any, problem: Problem) -> Reached:
    return Reached(climbed(declaration, problem))


def exceeds_budget(declaration: Any, problem: Problem) -> Reached:
    return Reached((problem.inputs + 2 * (climbed(declaration, problem) - problem.inputs)).clamp(*problem.limits))


def moves_padding(declaration: Any, problem: Problem) -> Reached:
    points = climbed(declaration, problem)
    # What a smoothing over time would do to the step after the last one.
    return Reached(torch.where(points < PADDING, points, points * (1 - 1e-6)))


def exceeds_budget_by_rounding(declaration: Any, problem: Problem) -> Reached:
    signs = (climbed(declaration, problem) - problem.inputs).sign()
    return Reached((problem.inputs + problem.region.epsilon * signs).clamp(0, 1))


def leaves_the_box(declaration: Any, problem: Problem) -> Reached:
    return Reached(problem.inputs + problem.region.epsilon * (climbed(declaration, problem) - problem.inputs).sign())


def shifted_by(declaration: Any, problem: Problem, amount: Any) -> Reached:
    return Reached(problem.region.project(climbed(declaration, problem) - amount * problem.region.epsilon))


def draws_from_torch(declaration: Any, problem: Problem) -> Reached:
    return shifted_by(declaration, problem, torch.rand_like(problem.inputs))


def draws_from_numpy(declaration: Any, problem: Problem) -> Reached:
    np.random.rand()
    return honest_attack(declaration, problem)


def draws_from_random(declaration: Any, problem: Problem) -> Reached:
    random.random()
    return honest_attack(declaration, problem)


def seeds_torch(declaration: Any, problem: Problem) -> Reached:
    torch.manual_seed(0)
    return shifted_by(declaration, problem, torch.rand(problem.inputs.shape[1:]))


def depends_on_neighbours(declaration: Any, problem: Problem) -> Reached:
    return shifted_by(declaration, problem, problem.inputs.mean())


def depends_on_its_place(declaration: Any, problem: Problem) -> Reached:
    places = torch.arange(len(problem)) / max(1, len(problem) - 1)
    places = places.flip(0) if len(problem) == 1 else places
    return shifted_by(declaration, problem, 0.5 * places.view(-1, 1, 1, 1))


def returns_float64(declaration: Any, problem: Problem) -> Reached:
    return Reached(climbed(declaration, problem).double())


def returns_another_shape(declaration: Any, problem: Problem) -> Reached:
    return Reached(climbed(declaration, problem)[:, :, :1])


def writes_into_the_batch(declaration: Any, problem: Problem) -> Reached:
    found = climbed(declaration, problem)
    problem.inputs.copy_(found)
    return Reached(found)


MEMORY: list[int] = []


def has_memory(declaration: Any, problem: Problem) -> Reached:
    MEMORY.append(1)
    return shifted_by(declaration, problem, float(len(MEMORY) % 2))


def descends(declaration: Any, problem: Problem) -> Reached:
    return Reached(climbed(declaration, problem, sign=-1.0))


def peeks_at_scores(declaration: Any, problem: Any) -> Reached:
    hidden = problem._LabelProblem__problem.at(search=0, step=0)
    values = hidden.evaluate(problem.inputs, hidden.loss("margin")).values
    return Reached(problem.region.project(problem.inputs + 1e-3 * values.view(-1, 1, 1, 1)))


def hides_passes(declaration: Any, problem: Problem) -> Reached:
    problem.victim.outputs(problem.inputs, [0] * len(problem))
    return honest_attack(declaration, problem)


def repeats_its_address(declaration: Any, problem: Problem) -> Reached:
    here = problem.at(search=0, step=0)
    seeds = here.draws.seeds(here.address.stream(0))
    here.evaluate(problem.inputs, cross_entropy_loss)
    with torch.inference_mode():
        problem.victim.outputs(problem.inputs, seeds)
    problem.ledger.count(problem.rows, queries=1)
    return honest_attack(declaration, problem)


def uses_the_prediction(declaration: Any, problem: Problem) -> Reached:
    with torch.inference_mode():
        problem.victim.outputs(problem.inputs, problem.draws.prediction_seeds)
    problem.ledger.count(problem.rows, queries=1)
    return honest_attack(declaration, problem)


def moves_at_zero(declaration: Any, problem: Problem) -> Reached:
    moved = (problem.inputs - 1e-7).clamp(0, 1)
    return Reached(moved) if declaration.epsilon == 0 else honest_attack(declaration, problem)


def climbs_logits(declaration: Any, problem: Problem) -> Reached:
    here = problem.at(search=0, step=0)
    # Relative to the logits' own size, which a constant changes.
    seen = here.differentiate(problem.inputs, lambda logits, labels: (logits**2).sum(1))
    return Reached(problem.region.project(problem.inputs + problem.region.epsilon * seen.gradient().sign()))


def raises(declaration: Any, problem: Problem) -> Reached:
    raise ZeroDivisionError("division by zero\nwith a second line")


# Corruptions.
def dimmed(declaration: Any, batch: Batch, draws: Draws) -> Tensor:
    amount = (
        0.1 * declaration.severity * (1 - 0.1 * draws.uniform(Stream(purpose="dim"), (1,) * (batch.inputs.ndim - 1)))
    )
    return (batch.inputs.detach() * (1 - amount)).clamp(0, 1)


def honest_corruption(declaration: Any, batch: Batch, victim: Any, draws: Draws) -> Perturbed:
    return Perturbed(inputs=dimmed(declaration, batch, draws))


def out_of_range(declaration: Any, batch: Batch, victim: Any, draws: Draws) -> Perturbed:
    return Perturbed(inputs=dimmed(declaration, batch, draws) - 0.1 * declaration.severity)


def corrupts_in_double(declaration: Any, batch: Batch, victim: Any, draws: Draws) -> Perturbed:
    return Perturbed(inputs=dimmed(declaration, batch, draws).double())


def dims_by_the_batch(declaration: Any, batch: Batch, victim: Any, draws: Draws) -> Perturbed:
    return Perturbed(inputs=(dimmed(declaration, batch, draws) * batch.inputs.detach().mean()).clamp(0, 1))


def corrupts_globally(declaration: Any, batch: Batch, victim: Any, draws: Draws) -> Perturbed:
    np.random.rand()
    return Perturbed(inputs=dimmed(declaration, batch, draws))


def corrupts_in_place(declaration: Any, batch: Batch, victim: Any, draws: Draws) -> Perturbed:
    batch.inputs.data.mul_(1 - 0.1 * declaration.severity)
    return Perturbed(inputs=batch.inputs.detach().clone())


def cuts_a_corner(declaration: Any, batch: Batch, victim: Any, draws: Draws) -> Perturbed:
    result = dimmed(declaration, batch, draws)
    result[:, :, 3, 3] = 0.0  # images of one pixel have none
    return Perturbed(inputs=result)


def knows_no_severity(declaration: Any, batch: Batch, victim: Any, draws: Draws) -> Perturbed:
    return Perturbed(inputs=batch.inputs.detach() * 0.5)


def does_nothing(declaration: Any, batch: Batch, victim: Any, draws: Draws) -> Perturbed:
    return Perturbed(inputs=batch.inputs.detach().clone())


def asks_the_model(declaration: Any, batch: Batch, victim: Any, draws: Draws) -> Perturbed:
    victim.outputs(batch.inputs)
    return Perturbed(inputs=dimmed(declaration, batch, draws))


# Attention.
class HonestModule(ProjectedAttention):
    def mix(self, heads: tuple[Tensor, ...], state: Any) -> Tensor:
        return attend(*heads)


class MixesRows(HonestModule):
    def mix(self, heads: tuple[Tensor, ...], state: Any) -> Tensor:
        mixed = attend(*heads)
        return mixed - mixed.mean(0, keepdim=True)


class DropsATokens(HonestModule):
    def forward(self, x: Tensor, state: Any = None) -> Tensor:
        return super().forward(x, state)[:, :-1]


class ReturnsDouble(HonestModule):
    def forward(self, x: Tensor, state: Any = None) -> Tensor:
        return super().forward(x, state).double()


class DividesByZero(HonestModule):
    def mix(self, heads: tuple[Tensor, ...], state: Any) -> Tensor:
        q, k, v = heads
        return attend(q, k, v / v.norm(dim=-1, keepdim=True))


class DrawsNoise(HonestModule):
    def mix(self, heads: tuple[Tensor, ...], state: Any) -> Tensor:
        mixed = attend(*heads)
        return mixed + torch.randn_like(mixed)


class WritesIntoTokens(HonestModule):
    def forward(self, x: Tensor, state: Any = None) -> Tensor:
        mixed = super().forward(x.clone(), state)
        x.data.add_(1.0)
        return mixed


class KeepsAHiddenState(HonestModule):
    def __init__(self, declaration: Any, geometry: Any) -> None:
        super().__init__(declaration, geometry)
        self.hidden = torch.rand(1).item()

    def mix(self, heads: tuple[Tensor, ...], state: Any) -> Tensor:
        return attend(*heads) * (1 + self.hidden)


class HasADeadParameter(HonestModule):
    def __init__(self, declaration: Any, geometry: Any) -> None:
        super().__init__(declaration, geometry)
        self.unused = torch.nn.Parameter(torch.zeros(3))


class ShowsOtherWeights(HonestModule):
    def mix(self, heads: tuple[Tensor, ...], state: Any) -> Tensor:
        q, k, v = heads
        return attend(q + v.mean(dim=(-2, -1), keepdim=True), k, v)


class DeclaresNoParameters(HonestModule):
    def __init__(self, declaration: Any, geometry: Any) -> None:
        super().__init__(declaration, geometry)
        self.bias = torch.nn.Parameter(torch.zeros(geometry.num_heads, geometry.num_tokens, geometry.num_tokens))

    def mix(self, heads: tuple[Tensor, ...], state: Any) -> Tensor:
        q, k, v = heads
        return ((q @ k.transpose(-2, -1) + self.bias).softmax(-1)) @ v


# Datasets.
def parts(num_examples: int = 12) -> tuple[dict[str, int], dict[str, np.ndarray[Any, Any]]]:
    draw = np.random.default_rng(0)
    ids = [f"planted/{index}" for index in range(num_examples)]
    images = {each: draw.random((3, 4, 4)).astype(np.float32) for each in ids}
    return {each: index % 3 for index, each in enumerate(ids)}, images


def honest_dataset() -> InMemoryImages:
    return InMemoryImages("planted", *parts())


def twice_the_same_id() -> InMemoryImages:
    made = honest_dataset()
    made.ids = (made.ids[0], *made.ids[:1], *made.ids[2:])
    return made


def in_its_own_order() -> InMemoryImages:
    made = honest_dataset()
    made.ids = tuple(sorted(made.ids))
    return made


def in_255_levels() -> InMemoryImages:
    targets, images = parts()
    return InMemoryImages("planted", targets, {name: image * 255 for name, image in images.items()})


def in_double_precision() -> InMemoryImages:
    targets, images = parts()
    return InMemoryImages("planted", targets, {name: image.astype(np.float64) for name, image in images.items()})


def with_a_class_too_many() -> InMemoryImages:
    targets, images = parts()
    return InMemoryImages("planted", {**targets, "planted/5": 3}, images)


def of_another_name() -> InMemoryImages:
    return InMemoryImages("implanted", *parts())


def one_example_short() -> InMemoryImages:
    return InMemoryImages("planted", *parts(11))


def drawn_at_random() -> InMemoryImages:
    targets, images = parts()
    return InMemoryImages("planted", targets, {name: image * random.random() for name, image in images.items()})


class OtherBatches(InMemoryImages):
    def batch(self, start: int, stop: int) -> Batch:
        made = super().batch(start, stop)
        return Batch(ids=made.ids, inputs=made.inputs.flip(0), targets=made.targets)


def batch_of_other_images() -> InMemoryImages:
    return OtherBatches("planted", *parts())


class Lending(InMemoryImages):
    def _inputs(self, start: int, stop: int) -> Tensor:
        return torch.from_numpy(self._pixels[start:stop])


def that_lends_its_memory() -> InMemoryImages:
    return Lending("planted", *parts())


class Short(InMemoryImages):
    def batch(self, start: int, stop: int) -> Batch:
        return super().batch(start, min(stop, len(self)))


def with_short_batches() -> InMemoryImages:
    return Short("planted", *parts())


class Impatient(InMemoryImages):
    """Its next batch is what it read ahead, whatever is asked for."""

    def read_ahead(self, start: int, stop: int) -> None:
        self._ahead = super().batch(start, min(stop, len(self)))

    def batch(self, start: int, stop: int) -> Batch:
        ahead = vars(self).pop("_ahead", None)
        return super().batch(start, stop) if ahead is None else ahead


def with_whatever_it_read_ahead() -> InMemoryImages:
    return Impatient("planted", *parts())


class Strict(InMemoryImages):
    def read_ahead(self, start: int, stop: int) -> None:
        self.batch(start, stop)


def that_raises_when_it_reads_ahead() -> InMemoryImages:
    return Strict("planted", *parts())


def without_a_digest() -> InMemoryImages:
    made = InMemoryImages("planted", *parts())
    made.identity = replace(made.identity, fingerprint="v1")
    return made
