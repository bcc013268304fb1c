"""Switch for fused attention, which is disabled: gradients of some fused kernels differ between runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


def without_fused_attention(model: nn.Module) -> None:
    """Disable fused attention in every module with timm's switch for it."""
    for module in model.modules():
        if hasattr(module, "fused_attn"):
            module.fused_attn = False  # type: ignore[assignment]  # a plain attribute, which torch's stubs leave out
