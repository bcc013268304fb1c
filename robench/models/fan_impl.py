"""Fully attentional networks with declared token mixing.

Source: Zhou et al. 2022, arXiv:2204.12451, FAN-ViT, in the form of the authors' code (NVlabs/FAN, models/fan.py), whose
names of parameters it has: patches by convolutions, Fourier features of places, ``blocks`` of token mixing (``attn``,
with ``q`` and ``kv`` apart) and channel attention (``mlp``), each scaled channel by channel (``gamma1``, ``gamma2``),
then class attention (``cls_attn_blocks``, Touvron et al. 2021, CaiT), the only blocks that see the class token.

The embedding, the features of places and the class attention are timm's, where XCiT has the same ones; fused kernels
are off. RPC-Attention's authors drop ``attn.q`` in their symmetric form (rachtsy/FAN, models/fan_sym.py), and so does
this. They drop the query of class attention too; that is declared apart, as ``class_attention: symmetric``.

Where no code is published: twicing replaces the mixing of tokens in every block (FAN-Twicing), and boost is the
connection around the scaled token mixing, its Y0 the embedded patches (FAN+Boost); class attention is unchanged.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
from timm.layers.drop import DropPath
from timm.layers.weight_init import trunc_normal_
from timm.models.xcit import ClassAttentionBlock, ConvPatchEmbed, PositionalEncodingFourier
from torch import Tensor, nn

from robench.attention.build import build_attention
from robench.attention.geometry import Geometry
from robench.attention.state import ForwardState
from robench.models.fan_layers import ChannelProcessing, SymmetricClassAttention
from robench.models.residuals_impl import BlockParts, build_block

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robench.models.fan import Fan


NORM = partial(nn.LayerNorm, eps=1e-6)


class FullyAttentionalNetwork(nn.Module):
    """Fully attentional network from images (B, channels, side, side) to logits (B, num_classes)."""

    def __init__(self, architecture: Fan, drop_path_rate: float = 0.0) -> None:
        super().__init__()
        dim = architecture.dim
        self.patch_embed = ConvPatchEmbed(
            architecture.image_size, architecture.patch_size, architecture.num_channels, dim
        )
        self.pos_embed = PositionalEncodingFourier(dim=dim)
        self.blocks = nn.ModuleList(_block(architecture, layer, drop_path_rate) for layer in range(architecture.depth))
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.cls_attn_blocks = nn.ModuleList(_class_block(architecture) for _ in range(architecture.num_class_blocks))
        self.norm = NORM(dim)
        self.head = nn.Linear(dim, architecture.num_classes)
        trunc_normal_(self.cls_token, std=0.02)
        self.apply(_initialise)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (B, num_classes)."""
        patches_BNC, (height, width) = self.patch_embed(x)
        first_BNC: Tensor = patches_BNC + self.pos_embed(1, height, width).flatten(2).transpose(1, 2)
        state, x_BNC = ForwardState(), first_BNC
        for block in self.blocks:
            x_BNC = block(x_BNC, first_BNC, state)
        x_BNC = torch.cat([self.cls_token.expand(len(x), -1, -1), x_BNC], dim=1)
        for block in self.cls_attn_blocks:
            x_BNC = block(x_BNC)
        logits: Tensor = self.head(self.norm(x_BNC)[:, 0])
        return logits

    def mismatch_advice(self, missing: Sequence[str], unexpected: Sequence[str]) -> str | None:
        """Return advice for weights of the other form of class attention, None for any other mismatch."""
        different = (*missing, *unexpected)
        if not different or not all(map(_is_class_query, different)):
            return None
        form, has = ("softmax", "a query") if unexpected else ("symmetric", "no query")
        return f"Class attention has {has} in these weights: set class_attention: {form} in the architecture"


def build_fan(architecture: Fan, drop_path_rate: float = 0.0) -> nn.Module:
    """Return the declared network with initial weights; ``drop_path_rate`` is for training, the same in all blocks.

    Raises:
        UnknownNameError: it declares an unknown attention or residual connection.
    """
    model = FullyAttentionalNetwork(architecture, drop_path_rate)
    for module in model.modules():
        if hasattr(module, "fused_attn"):
            module.fused_attn = False  # type: ignore[assignment]  # a plain attribute, which torch's stubs leave out
    return model


def _block(architecture: Fan, layer: int, drop_path_rate: float) -> nn.Module:
    dim, num_heads = architecture.dim, architecture.num_heads
    geometry = Geometry(
        dim=dim,
        num_heads=num_heads,
        num_tokens=architecture.num_tokens,
        depth=architecture.depth,
        layer=layer,
        separate_queries=True,
    )
    parts = BlockParts(
        norm1=NORM(dim),
        attention=build_attention(architecture.attention, geometry),
        norm2=NORM(dim),
        mlp=ChannelProcessing(
            dim,
            num_heads,
            int(dim * architecture.mlp_ratio),
            architecture.image_size // architecture.patch_size,
            NORM,
        ),
        drop_path1=DropPath(drop_path_rate) if drop_path_rate else nn.Identity(),
        drop_path2=DropPath(drop_path_rate) if drop_path_rate else nn.Identity(),
        gamma1=nn.Parameter(torch.ones(dim)),
        gamma2=nn.Parameter(torch.ones(dim)),
    )
    return build_block(architecture.residual, parts)


def _class_block(architecture: Fan) -> nn.Module:
    block = ClassAttentionBlock(
        architecture.dim,
        architecture.num_heads,
        architecture.mlp_ratio,
        qkv_bias=True,
        norm_layer=NORM,  # type: ignore[arg-type]  # it is called like its own default
        tokens_norm=True,
    )
    if architecture.class_attention == "symmetric":
        block.attn = SymmetricClassAttention(architecture.dim, architecture.num_heads)  # type: ignore[assignment]  # no ClassAttn
    return block


def _is_class_query(name: str) -> bool:
    return name.startswith("cls_attn_blocks.") and ".attn.q." in name


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
