"""Vision transformers in which the attention of every layer can be declared.

Source: Dosovitskiy et al. 2021, arXiv:2010.11929, in the form of DeiT (Touvron et al. 2021, arXiv:2012.12877): class
token, learned positions, biases in ``qkv``, LayerNorm before each branch with epsilon 1e-6, no dropout. On timm's
VisionTransformer, so that the names in a state dict are timm's and DeiT's. Nothing differs but ``blocks.i.attn``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from robench.attention import ForwardState, Geometry, build_attention
from robench.core.errors import UnknownNameError
from robench.declarations.attentions import RESIDUALS
from robench.models.blocks import BLOCKS

if TYPE_CHECKING:
    from timm.models.vision_transformer import Block

    from robench.declarations.architectures import Vit


class DeclaredVisionTransformer(VisionTransformer):
    """timm's vision transformer whose blocks hand a state on to each other."""

    takes_seeds = True

    def forward_features(self, x: Tensor, seeds: tuple[int, ...] | None = None) -> Tensor:  # type: ignore[override]  # masks are left out: no mechanism takes them
        """Return tokens (B, N, C) after the last norm, of images (B, channels, side, side)."""
        first_BNC: Tensor = self.norm_pre(self.patch_drop(self._pos_embed(self.patch_embed(x))))
        positions_NC = None if self.pos_embed is None else self.pos_embed[0]
        state, x_BNC = ForwardState(seeds=seeds, positions_NC=positions_NC), first_BNC
        for block in self.blocks:
            x_BNC = block(x_BNC, first_BNC, state)
        output_BNC: Tensor = self.norm(x_BNC)
        return output_BNC

    def forward(self, x: Tensor, seeds: tuple[int, ...] | None = None) -> Tensor:  # type: ignore[override]  # likewise
        """Return logits (B, num_classes); ``seeds``, one an example, are for mechanisms that draw random numbers."""
        logits: Tensor = self.forward_head(self.forward_features(x, seeds))
        return logits


def build_vit(architecture: Vit) -> nn.Module:
    """Return the declared vision transformer: images (B, channels, side, side) -> logits (B, num_classes).

    Raises:
        UnknownNameError: it declares an attention or a residual connection that has no implementation.
    """
    if type(architecture.residual) not in BLOCKS:
        raise UnknownNameError("residual", architecture.residual.kind, RESIDUALS)
    model = DeclaredVisionTransformer(
        img_size=architecture.image_size,
        patch_size=architecture.patch_size,
        in_chans=architecture.num_channels,
        num_classes=architecture.num_classes,
        embed_dim=architecture.dim,
        depth=architecture.depth,
        num_heads=architecture.num_heads,
        mlp_ratio=architecture.mlp_ratio,
        norm_layer=partial(nn.LayerNorm, eps=1e-6),
    )
    for layer, block in enumerate(model.blocks):
        geometry = Geometry(
            dim=architecture.dim,
            num_heads=architecture.num_heads,
            num_tokens=architecture.num_tokens,
            depth=architecture.depth,
            layer=layer,
        )
        attention = build_attention(architecture.attention, geometry)
        model.blocks[layer] = BLOCKS[type(architecture.residual)](
            architecture.residual, cast("Block", block), attention
        )
    # A second time, because the first saw the attention that has just been replaced.
    model.init_weights()
    return model
