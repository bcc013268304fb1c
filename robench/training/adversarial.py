"""Adversarial training: adversarial examples in place of the inputs of a batch.

Source: Madry et al. 2018, arXiv:1706.06083, section 2: the gradient of a step of training is taken at the points that
projected gradient descent finds, from a random start, within a ball in l-infinity. As there, clean images are not
learned from. A single step longer than the budget is the fast recipe of Wong et al. 2020, arXiv:2001.03994.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from robench.training.base import ImageTraining


def adversarial(
    inputs: Tensor,
    loss_at: Callable[[Tensor], Tensor],
    training: ImageTraining,
    generator: torch.Generator,
    limits: tuple[float, float] = (0.0, 1.0),
) -> Tensor:
    """Return points near ``inputs`` (B, ...) at which the loss is high; the inputs without a budget.

    ``loss_at`` returns the loss, a scalar, at such points. Only the start is drawn, on the CPU, and nothing without a
    budget.
    """
    epsilon, step_size = float(training.adversarial_epsilon), float(training.adversarial_step_size)
    if not epsilon:
        return inputs
    lowest, highest = (inputs - epsilon).clamp(min=limits[0]), (inputs + epsilon).clamp(max=limits[1])
    start = torch.rand(inputs.shape, generator=generator).to(inputs.device)
    points = (inputs + epsilon * (2 * start - 1)).clamp(lowest, highest)
    for _ in range(training.adversarial_num_steps):
        points.requires_grad_()
        (gradient,) = torch.autograd.grad(loss_at(points), points)
        points = (points.detach() + step_size * gradient.sign()).clamp(lowest, highest)
    return points
