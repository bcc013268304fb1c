"""Parts that trainings share: reproducible sums and draws, AdamW, auxiliary losses, and the type of saved weights.

AdamW is Loshchilov & Hutter 2019, arXiv:1711.05101. The libraries that augment and mix images draw from the global
generators of Python, numpy and torch. Here each of those draws starts from its own seed, and the generators are
restored: neither the number of decoding processes, nor interruptions of the training, change a byte.

Layers may have losses of their own in training, such as the KSVD loss of Primal-Attention or the load balance of
experts. A model with such layers declares it by an attribute ``takes_losses``, and takes a list ``losses_B`` beside its
inputs, to which each such layer appends its loss, (B,). So does the method of a model that training calls.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import cos, pi

import numpy as np
import torch
from torch import Tensor, nn

from robench.core.errors import DeclarationError
from robench.core.seeds import Stream, stream_seed

# Parameters of vision transformers, by timm's names, without weight decay.
UNDECAYED = ("pos_embed", "cls_token", "dist_token")


@contextmanager
def reproducible(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Seed torch's generators; on a CPU, the default, compute with one thread, so that sums have a fixed order.

    Generators and number of threads are restored at the end.
    """
    threads = torch.get_num_threads()
    is_on_gpu = device is not None and device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if is_on_gpu else []):
        torch.manual_seed(seed)
        if not is_on_gpu:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


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
    return {name: _saved(value, saved_as) for name, value in state.items()}


def _saved(value: Tensor, saved_as: str) -> Tensor:
    kept = value.to(torch.float16) if saved_as == "float16" and value.is_floating_point() else value
    return kept.detach().contiguous()


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


def with_auxiliary(model: Callable[..., Tensor], inputs: Tensor, weight: float) -> tuple[Tensor, Tensor | None]:
    """Return the outputs (B, ...), and (B,) ``weight`` times the mean of the layers' losses; None for no weight."""
    if not weight:
        return model(inputs), None
    losses: list[Tensor] = []
    outputs = model(inputs, losses_B=losses)
    return outputs, weight * torch.stack(losses).mean(dim=0)


def check_auxiliary(
    model: nn.Module, inputs: Tensor, weight: float, method: Callable[..., Tensor] | None = None
) -> None:
    """Run the model, or a method of it, on ``inputs`` if ``weight`` is not zero; the global generators are restored.

    Raises:
        DeclarationError: no layer has an auxiliary loss.
    """
    if not weight:
        return
    losses: list[Tensor] = []
    if method is not None or getattr(model, "takes_losses", False):
        was_training = model.training
        model.eval()
        with torch.random.fork_rng(), torch.no_grad():
            (method or model)(inputs, losses_B=losses)
        model.train(was_training)
    if not losses:
        raise DeclarationError(
            f"auxiliary_weight is {weight:g}, but no layer of the model asks training for a loss, as Primal-Attention"
            " and experts do; leave it out of the entry's training"
        )
