"""Fused attention, which is switched off: the gradients of some fused kernels change from run to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


def without_fused_attention(model: nn.Module) -> None:
    """Switch fused attention off in every module that has timm's switch for it."""
    for module in model.modules():
        if hasattr(module, "fused_attn"):
            module.fused_attn = False  # type: ignore[assignment]  # a plain attribute, which torch's stubs leave out
