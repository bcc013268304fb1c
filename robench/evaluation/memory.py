"""Batch sizes that fit into the memory of a device, found by single forward and backward passes."""

import gc

import torch
from torch import Tensor

from robench.core.protocols import Model
from robench.devices import is_out_of_memory, to_device
from robench.evaluation.arithmetic import arithmetic_for


def largest_fitting_power(model: Model, inputs: Tensor, most: int) -> int | None:
    """Return the largest power of two, at most ``most``, whose forward and backward pass fits; None if none does.

    ``inputs`` (B, ...) are repeated as needed. Errors other than exhausted memory are raised. Sizes are tried in
    ascending order, since a pass of too many rows can take long before it fails.
    """
    fitting, size = None, 1
    while size <= most and _fits(model, inputs, size):
        fitting, size = size, 2 * size
    return fitting


def halved_until_it_fits(model: Model, inputs: Tensor, size: int) -> int:
    """Return ``size``, or its largest halving whose forward and backward pass fits; 1 if none does.

    ``inputs`` (B, ...) are repeated as needed. Errors other than exhausted memory are raised.
    """
    while size > 1 and not _fits(model, inputs, size):
        size //= 2
    return size


def free() -> None:
    """Free the memory of tensors that nothing refers to any more, also that which torch keeps for later ones."""
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def _fits(model: Model, inputs: Tensor, num_rows: int) -> bool:
    # Before the pass, so that what the failed one left does not count; the error that holds it is gone by then.
    free()
    try:
        with arithmetic_for(model):
            _pass(model, inputs, num_rows)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return False
    return True


def _pass(model: Model, inputs: Tensor, num_rows: int) -> None:
    shown = to_device(inputs[torch.arange(num_rows) % len(inputs)], model.device)
    has_gradient = shown.is_floating_point()
    with torch.set_grad_enabled(has_gradient):
        outputs = model.outputs(shown.requires_grad_(has_gradient), list(range(num_rows)))
        if outputs.requires_grad:
            torch.autograd.grad(outputs.sum(), shown)
