"""Parts that trainings share: reproducible sums and draws, AdamW, auxiliary losses, and the type of saved weights.

AdamW is Loshchilov & Hutter 2019, arXiv:1711.05101. The libraries that augment and mix images draw from the global
generators of Python, numpy and torch. Here each of those draws starts from its own seed, and the generators are
restored: neither the number of decoding processes, nor interruptions of the training, change a byte.

Layers may have losses of their own in training, such as the KSVD loss of Primal-Attention or the load balance of
experts. A model with such layers declares it by an attribute ``takes_losses``, and takes a list ``losses_B`` beside its
inputs, to which each such layer appends its loss, (B,). So does the method of a model that training calls.

Adversarial training is by Madry et al. 2018, arXiv:1706.06083, section 2: the gradient of a step of training is taken
at the points that projected gradient descent finds, from a random start, within a ball in l-infinity. As there, clean
images are not learned from. A single step longer than the budget is the fast recipe of Wong et al. 2020,
arXiv:2001.03994.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from math import cos, pi

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from robench.core.containment import KeptSettings, settings_of
from robench.core.errors import DeclarationError
from robench.core.seeds import Stream, stream_seed
from robench.core.shard import EXACT_DTYPE
from robench.devices import deterministic_kernels
from robench.training.base import TrainingPrecision
from robench.training.images import ImageTraining

# Parameters of vision transformers, by timm's names, without weight decay.
UNDECAYED = ("pos_embed", "cls_token", "dist_token")


@contextmanager
def reproducible(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Seed torch's generators; sums have a fixed order, on a CPU, the default, since one thread computes.

    On a GPU kernels are deterministic where torch has such kernels. Generators and settings are restored at the end.
    """
    threads = torch.get_num_threads()
    device = device or torch.device("cpu")
    is_on_gpu = device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if is_on_gpu else []), deterministic_kernels(device):
        torch.manual_seed(seed)
        if not is_on_gpu:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


@contextmanager
def flushing_denormals() -> Iterator[None]:
    """Round results below the smallest normal number to zero on a CPU, which computes with them far more slowly."""
    with KeptSettings(settings_of(torch)):
        torch.set_flush_denormal(True)
        yield


def adamw(
    parameters: Iterable[nn.Parameter], decayed: Iterable[nn.Parameter], *, learning_rate: float, weight_decay: float
) -> torch.optim.Optimizer:
    """Return AdamW over ``parameters``, with weight decay for ``decayed`` alone."""
    decayed = list(decayed)
    chosen = {id(value) for value in decayed}
    others = [value for value in parameters if id(value) not in chosen]
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=learning_rate)


def matrices_but_embeddings(model: nn.Module) -> list[nn.Parameter]:
    """Return the parameters with two or more axes, embeddings of words excluded."""
    return [value for name, value in model.named_parameters() if value.ndim >= 2 and not name.startswith("embedding")]


def fraction_of_peak(done: float, warmup_share: float) -> float:
    """Return the learning rate over its peak when a part ``done`` of all steps is made: warm-up, cosine decay.

    >>> [round(fraction_of_peak(done, 0.5), 2) for done in (0.0, 0.25, 0.5, 0.75, 1.0)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    if done < warmup_share:
        return (done + 1e-4) / warmup_share
    return 0.5 * (1 + cos(pi * (done - warmup_share) / (1 - warmup_share + 1e-9)))


def set_learning_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """Set the learning rate of all parameters."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate


def saved(state: Mapping[str, Tensor], saved_as: str) -> dict[str, Tensor]:
    """Return the tensors as a file of weights has them: ``float32`` or ``float16``; counts stay whole numbers."""

    def kept(value: Tensor) -> Tensor:
        return value.to(torch.float16) if saved_as == "float16" and value.is_floating_point() else value

    # Copies, since layers may share a parameter, and a file holds each on its own.
    return {name: kept(value).detach().contiguous().clone() for name, value in state.items()}


def seed_for(seed: int, purpose: str, epoch: int, position: int = 0) -> int:
    """Return the 64-bit seed for one purpose in one epoch (0-based), at one position of it."""
    return stream_seed(seed, Stream(purpose=purpose, step=epoch, draw=position))


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global generators of this process, except those of GPUs, for the block; restore them afterwards."""
    generator = torch.default_generator
    before = random.getstate(), np.random.get_state(), generator.get_state()
    random.seed(seed)
    np.random.seed(seed % 2**32)
    generator.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
        generator.set_state(before[2])


@contextmanager
def evaluating(model: nn.Module, device: torch.device | None = None) -> Iterator[None]:
    """Put a model into evaluation mode, without gradients and with seeded generators; restore modes and generators.

    So trained weights do not depend on it, and what a model draws is the same after every epoch.
    """
    was_training = model.training
    model.eval()
    is_on_gpu = device is not None and device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if is_on_gpu else []), torch.no_grad():
        torch.manual_seed(0)
        yield
    model.train(was_training)


def in_precision(device: torch.device, precision: TrainingPrecision) -> AbstractContextManager[object]:
    """Return a context in which torch computes matrix products and convolutions in the given numbers."""
    return nullcontext() if precision == EXACT_DTYPE else torch.autocast(device.type, dtype=torch.bfloat16)


def with_auxiliary(model: Callable[..., Tensor], inputs: Tensor, weight: float) -> tuple[Tensor, Tensor | float]:
    """Return the outputs (B, ...), and ``weight`` times the mean of the layers' losses, 0 without a weight."""
    if not weight:
        return model(inputs), 0.0
    losses: list[Tensor] = []
    outputs = model(inputs, losses_B=losses)
    return outputs, (weight * torch.stack(losses).mean(dim=0)).mean()


def check_auxiliary(
    model: nn.Module, inputs: Tensor, weight: float, method: Callable[..., Tensor] | None = None
) -> None:
    """Run the model, or a method of it, on ``inputs`` if there is a weight; refuse one without auxiliary losses."""
    if not weight:
        return
    losses: list[Tensor] = []
    if method is not None or getattr(model, "takes_losses", False):
        with evaluating(model, inputs.device):
            (method or model)(inputs, losses_B=losses)
    if not losses:
        raise DeclarationError(
            f"auxiliary_weight is {weight:g}, but no layer of the model asks training for a loss, as Primal-Attention"
            " and experts do; leave it out of the entry's training"
        )


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


def noisy(
    inputs: Tensor, scale: float, generator: torch.Generator, limits: tuple[float, float] | None = (0.0, 1.0)
) -> Tensor:
    """Add Gaussian noise of standard deviation ``scale``, drawn on the CPU, to each value, and clip to any limits."""
    if scale == 0:
        return inputs
    found = inputs + scale * torch.randn(inputs.shape, generator=generator).to(inputs.device)
    return found if limits is None else found.clamp(*limits)
