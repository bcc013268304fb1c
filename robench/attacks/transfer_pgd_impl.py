"""PGD for transfer: momentum over averaged, smoothed or regularised gradients.

With the loss J and the clean image x0, a step of length a from x is

    g = K * mean_i dJ(D(x' / 2^i)) / dx,  x' = M x + (1 - M) x0
    m <- g / mean|g| + momentum m,  x <- project(x + a sgn m)

* D, Xie et al. 2019, arXiv:1803.06978: with a probability, bilinear resizing to a random size amid zeros. The paper
  enlarges 299 pixels to [299, 330) and pads to 330; TransferAttack then resizes back. Here an image shrinks to
  [smallest * side, side] and is padded to its side: the same picture (299 / 330 is 0.9) after one interpolation.
* K, Dong et al. 2019, arXiv:1904.02884: a Gaussian kernel that reaches three deviations and sums to one.
* x / 2^i, Lin et al. 2020, arXiv:1908.06281: the gradient is that by x, so a copy's is times 1 / 2^i.
* M, Wei et al. 2022, arXiv:2109.04176: random patches of each image. The released code draws the same ones for all
  images from the number of the step, and adds 0.1 |x - x0|_2 to the loss, which is left out here.

The rules of ``backward`` belong to models (``models.backward_rules_impl``). All draws belong to examples.
"""

import math
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.functional import interpolate, pad

from robench.attacks.pgd_impl import PgdSearch, PgdState, limited
from robench.attacks.problem import Passed, Problem, Reached
from robench.attacks.search import declared_search
from robench.attacks.transfer_pgd import TransferPgd
from robench.core.seeds import Stream

DEVIATIONS = 3.0


class TransferSearch(PgdSearch):
    """Search of PGD, by gradients through what a pass is shown in place of its points."""

    declaration: TransferPgd

    def _differentiated(self, problem: Problem, state: PgdState, step: int) -> Passed:
        points, passes = state.points, list[Passed]()
        gradients: list[Tensor] = []
        for copy in range(self.declaration.scale_copies):
            leaves = points.detach().requires_grad_(True)
            with torch.enable_grad():
                shown = self._shown(problem, leaves, copy)
            passes.append(super()._differentiated(problem, replace(state, points=shown.detach()), step))
            gradients += torch.autograd.grad(shown, leaves, passes[-1].gradient())
        gradient = gradients[0] if len(gradients) == 1 else torch.stack(gradients).mean(0)
        smooth = smoothed(gradient, self.declaration.translation)
        return replace(passes[0], points=points.detach(), _gradient=smooth)

    def _shown(self, problem: Problem, points: Tensor, copy: int) -> Tensor:
        """Return the images that the pass of one copy sees, differentiable in points (B, C, H, W)."""
        declared = self.declaration
        if declared.patch_out is not None:
            points = torch.where(self._patches(problem, declared.patch_out), points, problem.inputs)
        points = points / 2**copy
        if not declared.input_diversity:
            return points
        stream = _stream("diversity", problem, copy)
        # Numbers of the program itself, so that no device is waited for.
        draws = zip(*(problem.draws.seeds(replace(stream, draw=draw)) for draw in range(4)), strict=True)
        rows = []
        for each, seeds in zip(points, draws, strict=True):
            chance, *drawn = (seed / 2**64 for seed in seeds)
            is_changed = chance < declared.input_diversity
            rows.append(resized_and_padded(each, declared.smallest_size, *drawn) if is_changed else each)
        return torch.stack(rows)

    def _patches(self, problem: Problem, count: int) -> Tensor:
        """Return a mask (B, 1, H, W), true in ``count`` random patches of each image; the same for all copies."""
        grid = cast("Any", problem.victim).patch_grid
        drawn = problem.draws.uniform(_stream("patches", problem), (grid[0] * grid[1],))
        mask = (drawn.argsort(dim=1).argsort(dim=1) < count).view(-1, 1, *grid).to(problem.inputs)
        return interpolate(mask, size=problem.inputs.shape[-2:], mode="nearest") > 0


def _stream(purpose: str, problem: Problem, copy: int = 0) -> Stream:
    return Stream(purpose=purpose, restart=problem.address.search or 0, step=problem.address.step, query=copy)


def resized_and_padded(image: Tensor, smallest: float, size: float, top: float, left: float) -> Tensor:
    """Return an image (C, H, W) resized to [smallest, 1] of its sides, amid zeros; size and place are in [0, 1)."""
    sides = image.shape[-2:]
    least = math.ceil(smallest * sides[0])
    height = least + int(size * (sides[0] - least + 1))
    width = max(1, round(sides[1] * height / sides[0]))
    if (height, width) == tuple(sides):
        return image
    above, before = int(top * (sides[0] - height + 1)), int(left * (sides[1] - width + 1))
    small = interpolate(image[None], size=(height, width), mode="bilinear", align_corners=False)[0]
    return pad(small, (before, sides[1] - width - before, above, sides[0] - height - above))


def smoothed(gradient: Tensor, side: int) -> Tensor:
    """Return gradients (B, C, H, W) convolved with a Gaussian kernel of an odd side, zero outside.

    Row by row and column by column, as sums, so that no image's bits depend on the others.
    """
    if side == 1:
        return gradient
    weights = torch.exp(-(torch.linspace(-DEVIATIONS, DEVIATIONS, side, dtype=torch.float64) ** 2) / 2)
    kernel = (weights / weights.sum()).tolist()
    for axis, room in ((-1, (side // 2, side // 2)), (-2, (0, 0, side // 2, side // 2))):
        wide, size = pad(gradient, room), gradient.shape[axis]
        gradient = sum(
            (weight * wide.narrow(axis, at, size) for at, weight in enumerate(kernel)), gradient.new_zeros(())
        )
    return gradient


def transfer_pgd(declaration: TransferPgd, problem: Problem) -> Reached:
    """Return the points (B, C, H, W) of ``num_restarts`` searches, against the victim with the declared rule."""
    if declaration.backward != "plain":
        problem = replace(problem, victim=cast("Any", problem.victim).with_backward(declaration.backward))
    search = TransferSearch(declaration, problem)
    return declared_search(declaration, search, problem, limited=partial(limited, declaration))
