"""Patch-Fool: one patch moved by Adam to fool the model and to draw attention to itself.

Source: Fu et al. 2022, arXiv:2203.08392, section 3: the gradient of a step is

    g = g_CE + weight * sum_l project(g_l),   project(a) = a - min(0, a . g_CE) / |g_CE|^2 g_CE

with g_l the gradient of the attention that the patch receives in layer l (``attention_losses.received``), projected
where it conflicts (PCGrad, Yu et al. 2020, arXiv:2001.06782). The patch starts at uniform values. Adam maximises, with
a learning rate that falls in steps.

``formula: released`` is the loss of the authors' code (GATECH-EIC/Patch-Fool, main.py), the mean over queries of the
logarithm of the attention's mean over heads, of layers 1 to half the depth. In its sparse variant a mask of the patch's
pixels is learned by Adam with the rate 0.01 until step 200: the largest entries choose the pixels, and gradients reach
the mask as if pixels were added in proportion to it. Where this differs: the code returns the last points (``returns:
last``), steps in the space of normalised pixels (``space: normalised``), limits the l2 norm of each channel, and counts
images that an attack turns from wrong to right as successes; here a success is an image that is wrong. The mean over a
batch, by which the code divides all gradients alike, is left out: Adam's steps do not depend on it.
"""

from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from robench.attacks.attention_losses import Layers, patch_tokens, received
from robench.attacks.patch_fool import PatchFool
from robench.attacks.places import placed
from robench.attacks.problem import Problem, Reached
from robench.attacks.rows import Moments, adam, largest, spread
from robench.attacks.search import State, declared_search, starting_points
from robench.core.errors import ContractError
from robench.core.seeds import Stream
from robench.tasks.base import Loss, reads_layers

MASK_RATE = 0.01
MASK_STEPS = 200
LEAST_MASK = 1e-6


@dataclass(frozen=True, slots=True)
class PatchState(State):
    """Points, values of the patch (B, C, H, W), its tokens (B, N), and of a sparse patch the mask (B, 1, H, W)."""

    values: Tensor | None = None
    is_patch: Tensor | None = None
    moments: Moments | None = None
    mask: Tensor | None = None
    of_mask: Moments | None = None


class PatchFoolSearch:
    """Search by Adam; points are compared by cross-entropy, or the task's objective."""

    def __init__(self, declaration: PatchFool, problem: Problem) -> None:
        self.declaration = declaration
        self.num_steps = declaration.num_steps
        self.loss: Loss = problem.task.objective
        self._losses = [_beside(self.loss)]

    def begin(self, problem: Problem, restart: int) -> PatchState:
        """Return a patch of uniform values between the bounds of its pixels, in l2 of the ball."""
        formula = self.declaration.formula
        if self.declaration.attention_weight and len(self._losses) == 1:
            tokens = problem.within("layers").at(search=0, step=0).look(problem.inputs, _a_number_each)
            layers = range(len(tokens)) if formula == "paper" else range(1, len(tokens) // 2)
            self._losses += [attention_loss(layer, formula) for layer in layers]
        region, stream = replace(problem.region, most=None), Stream(purpose="start", restart=restart)
        if region.norm == "linf":
            drawn = problem.draws.uniform(stream, problem.inputs.shape[1:]).to(problem.inputs)
            values = region.project(torch.lerp(region.lower, region.upper, drawn))
        else:
            values = starting_points(replace(problem, region=region), restart)
        is_patch = patch_tokens(problem) if self.declaration.attention_weight else None
        state = PatchState(values, values=values, is_patch=is_patch, moments=Moments.like(values))
        if problem.region.most is None:
            return state
        drawn = problem.draws.uniform(replace(stream, draw=1), problem.inputs.shape[2:]).to(values)[:, None]
        return _masked(problem, replace(state, mask=drawn * _patch_of(problem), of_mask=Moments.like(drawn)))

    def step(self, problem: Problem, state: PatchState, step: int) -> PatchState:
        """Return the patch after one step of Adam, and one of its mask."""
        declaration = self.declaration
        assert state.values is not None
        assert state.moments is not None
        assert declaration.step_size is not None
        beside = [] if state.is_patch is None else [state.is_patch]
        passes = list(problem.differentiate_each(state.points, self._losses, beside=beside))
        free = problem.region.freed
        gradient = combined([free(each.gradient()) for each in passes], declaration.attention_weight)
        of_values = gradient if state.mask is None else gradient * chosen_pixels(problem, state.mask)
        rate = float(declaration.step_size) * declaration.step_decay ** (step // declaration.decay_every)
        direction, moments = adam(of_values, state.moments, step)
        values = replace(problem.region, most=None).project(state.values + rate * direction)
        moved = replace(state, points=values, seen=passes[0], values=values, moments=moments)
        if state.mask is None or state.of_mask is None:
            return moved
        if step < MASK_STEPS:
            of_pixels = combined(
                [(free(each.gradient()) * state.values).sum(1, keepdim=True) for each in passes],
                declaration.attention_weight,
            )
            climbed, of_mask = adam(of_pixels, state.of_mask, step)
            mask = state.mask + MASK_RATE * climbed
            mask = (mask - spread(mask.flatten(1).amin(1), mask) + LEAST_MASK) * _patch_of(problem)
            moved = replace(moved, mask=mask, of_mask=of_mask)
        return _masked(problem, moved)


def _masked(problem: Problem, state: PatchState) -> PatchState:
    """Return a state whose points have the patch's values in the pixels that the mask chooses, else clean ones."""
    assert state.values is not None
    assert state.mask is not None
    return replace(state, points=torch.where(chosen_pixels(problem, state.mask), state.values, problem.inputs))


def chosen_pixels(problem: Problem, mask: Tensor) -> Tensor:
    """Return the pixels (B, 1, H, W) of the largest entries of a mask, as many as may change."""
    return largest(mask, problem.region.most or 0) & _patch_of(problem)


def _patch_of(problem: Problem) -> Tensor:
    assert problem.region.free is not None  # of a placed patch
    return problem.region.free[:, :1]


def combined(gradients: list[Tensor], weight: float) -> Tensor:
    """Return the first gradient (B, ...) plus weighted others, without their parts against it."""
    main, *others = gradients
    rows = main.flatten(1)
    lengths = rows.square().sum(1).clamp(min=torch.finfo(rows.dtype).tiny)
    total = main.clone()
    for other in others:
        conflict = (other.flatten(1) * rows).sum(1).clamp(max=0) / lengths
        total += weight * (other - spread(conflict, other) * main)
    return total


def attention_loss(layer: int, formula: str) -> Loss:
    """Return the loss on the attention that the patch receives in a layer, of outputs, labels and its tokens (B, N)."""

    @reads_layers
    def of_layer(outputs: Tensor, labels: Tensor, is_patch: Tensor, *, layers: Layers) -> Tensor:
        if formula == "paper":
            return received([layers[layer]], is_patch)[0]
        # The mean of the logarithms of several tokens is that of one where the embedding does not overlap.
        mean = layers[layer].weights_BHNM.mean(1)
        if not bool((mean > 0).all()):
            found = f"attention layer {layer} shows weights that are not positive"
            raise ContractError(f"{found}, and formula released takes their logarithms: take formula paper")
        return (mean.log().mean(1) * is_patch).sum(1) / is_patch.sum(1)

    return of_layer


def _beside(loss: Loss) -> Loss:
    def alone(outputs: Tensor, labels: Tensor, *beside: Tensor) -> Tensor:
        value: Tensor = loss(outputs, labels)
        return value

    return alone


def _a_number_each(layers: Layers) -> tuple[Tensor, ...]:
    return tuple(layer.tokens_BNC[:, 0, 0] for layer in layers)


def patch_fool(declaration: PatchFool, problem: Problem) -> Reached:
    """Return the best points (B, ...) of ``num_restarts`` searches of ``num_steps`` steps in the patches."""
    problem = replace(problem, shows_layers=declaration.attention_weight > 0)
    search = PatchFoolSearch(declaration, problem)
    return declared_search(declaration, search, problem, limited=partial(placed, declaration))
