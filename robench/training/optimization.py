"""Parts that trainings on embedded data share: reproducible sums and draws, AdamW, and the type of saved weights.

AdamW is Loshchilov & Hutter 2019, arXiv:1711.05101.
"""

from __future__ import annotations

from contextlib import contextmanager
from math import cos, pi
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from torch import Tensor, nn

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
    """Return AdamW over ``parameters``, of which those of ``decayed`` alone have weight decay."""
    decayed = list(decayed)
    chosen = {id(value) for value in decayed}
    others = [value for value in parameters if id(value) not in chosen]
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=learning_rate)


def matrices_but_embeddings(model: nn.Module) -> list[nn.Parameter]:
    """Return the parameters with two or more axes, embeddings of words excluded."""
    return [value for name, value in model.named_parameters() if value.ndim >= 2 and not name.startswith("embedding")]


def share_of_peak(done: float, warmup_share: float) -> float:
    """Return the learning rate over its peak when a part ``done`` of all steps is made: warm-up, cosine decay.

    >>> [round(share_of_peak(done, 0.5), 2) for done in (0.0, 0.25, 0.5, 0.75, 1.0)]
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
