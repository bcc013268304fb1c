"""Floating-point operations of a forward pass, counted by torch while a model computes it once."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import torch
from torch.utils.flop_counter import FlopCounterMode

from robench.core.containment import Contained
from robench.core.errors import ExampleError
from robench.domains import DOMAINS
from robench.models.in_memory_impl import model_of
from robench.models.loading import load_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

    from robench.core.checkpoint import Checkpoint
    from robench.core.declared import DatasetDeclaration
    from robench.core.protocols import Dataset


def flops_of_a_pass(forward: Callable[[], object]) -> int:
    """Return the floating-point operations of what ``forward`` computes: two of each product that is summed."""
    with FlopCounterMode(display=False) as counter:
        forward()
    found: int = counter.get_total_flops()
    return found


def flops_of(
    checkpoint: Checkpoint, declared: DatasetDeclaration, dataset: Dataset, module: nn.Module | None = None
) -> int | None:
    """Return the floating-point operations of a forward pass of one example, counted on the CPU.

    ``module`` is the module of a checkpoint in memory. None if inputs differ in length, the first example cannot be
    read, or torch cannot count the model's operations.
    """
    domain = DOMAINS[declared.domain]
    if not domain.is_real_valued:
        return None
    # Whatever goes wrong in a model's code goes wrong in its checks as well; here it costs an estimate alone.
    with suppress(ExampleError, Exception), Contained(), torch.no_grad():
        inputs = domain.rules.collate([dataset[0][0]])
        model = load_model(checkpoint) if module is None else model_of(checkpoint, module)
        return flops_of_a_pass(lambda: model.outputs(inputs, [0])) or None
    return None
