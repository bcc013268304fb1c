"""Adversarial training: adversarial examples in place of the images of a batch.

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
    images: Tensor, loss_at: Callable[[Tensor], Tensor], training: ImageTraining, generator: torch.Generator
) -> Tensor:
    """Return points near ``images`` (B, C, H, W) in [0, 1] at which the loss is high; the images without a budget.

    ``loss_at`` returns the loss, a scalar, at such points. Only the start is drawn, on the CPU, and nothing without a
    budget.
    """
    epsilon, step_size = float(training.adversarial_epsilon), float(training.adversarial_step_size)
    if not epsilon:
        return images
    lowest, highest = (images - epsilon).clamp(min=0), (images + epsilon).clamp(max=1)
    start = torch.rand(images.shape, generator=generator).to(images.device)
    points = (images + epsilon * (2 * start - 1)).clamp(lowest, highest)
    for _ in range(training.adversarial_num_steps):
        points.requires_grad_()
        (gradient,) = torch.autograd.grad(loss_at(points), points)
        points = (points.detach() + step_size * gradient.sign()).clamp(lowest, highest)
    return points
