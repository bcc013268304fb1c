"""Changes of the inputs of a batch in training: small shifts of images, noise, and adversarial examples.

Adversarial training is by Madry et al. 2018, arXiv:1706.06083, section 2: the gradient of a step of training is taken
at the points that projected gradient descent finds, from a random start, within a ball in l-infinity. As there, clean
images are not learned from. A single step longer than the budget is the fast recipe of Wong et al. 2020,
arXiv:2001.03994.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

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


def shifted(images: Tensor, max_shift: int, generator: torch.Generator) -> Tensor:
    """Move each image (B, C, H, W) by up to ``max_shift`` pixels in each direction, repeating its border."""
    if max_shift == 0:
        return images
    num_images, _, height, width = images.shape
    padded = pad(images, [max_shift] * 4, mode="replicate")
    offsets = torch.randint(0, 2 * max_shift + 1, (2, num_images), generator=generator)
    rows = offsets[0][:, None] + torch.arange(height)
    columns = offsets[1][:, None] + torch.arange(width)
    index = torch.arange(num_images)[:, None, None]
    return padded.permute(0, 2, 3, 1)[index, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()


def noisy(inputs: Tensor, scale: float, generator: torch.Generator, limits: tuple[float, float] = (0.0, 1.0)) -> Tensor:
    """Add Gaussian noise of standard deviation ``scale`` to each value, and clip to the limits."""
    if scale == 0:
        return inputs
    return (inputs + scale * torch.randn(inputs.shape, generator=generator)).clamp(*limits)
