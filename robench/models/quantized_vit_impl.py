"""Vision transformers that see rounded inputs, and have no gradient with respect to them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch

from robench.models.vit_impl import build_vit

if TYPE_CHECKING:
    from torch import Tensor, nn

    from robench.models.quantized_vit import QuantizedVit


def build_quantized_vit(architecture: QuantizedVit, drop_path_rate: float = 0.0) -> nn.Module:
    """Return the declared vision transformer with rounding in front of it; arguments and errors as of ``build_vit``."""
    model = build_vit(architecture, drop_path_rate)
    model.register_forward_pre_hook(partial(_rounded, architecture.step))
    return model


def _rounded(step: float, module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return the positional arguments of a pass with the images rounded to multiples of ``step``."""
    images, *others = inputs
    return (torch.round(images / step) * step, *others)
