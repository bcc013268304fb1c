"""Vision transformers with declared attention in every layer.

Source: Dosovitskiy et al. 2021, arXiv:2010.11929, in the form of DeiT (Touvron et al. 2021, arXiv:2012.12877): class
token, learned positions, biases in ``qkv``, LayerNorm before each branch with epsilon 1e-6, no dropout. On timm's
VisionTransformer, so that the names in a state dict are timm's and DeiT's. Nothing differs but ``blocks.i.attn``.

DeiT's distilled form (section 4 there) has a second token, ``dist_token``, after the class token, and a head for it,
``head_dist``; the logits are the mean of the two heads'. The authors train the second head on the class that a teacher
predicts (RegNetY-16GF, hard labels, each head's loss weighing half), the mean serving the test alone. Here a model
gives the mean in training too, and so learns from labels without a teacher, unless ``set_distilled_training(True)``
(timm's) makes it return both heads' logits as a pair.

``embedding: convolutions`` is the stem of Xiao et al. 2021, arXiv:2106.14881: 3x3 convolutions of stride 2, whose width
doubles up to that of a token. GELU takes the place of batch norm and ReLU, so that no row depends on another.
``pooling: mean`` leaves the class token out and averages the tokens after the last norm.
"""

from functools import partial
from itertools import pairwise
from typing import cast

import torch
from timm.layers.patch_embed import PatchEmbed
from timm.models.deit import VisionTransformerDistilled
from timm.models.vision_transformer import Block, VisionTransformer
from torch import Tensor, nn

from robench.models.transformer_impl import TransformerModel, attention_of, build_block, parts_of
from robench.models.vit import QuantizedVit, Vit


class DeclaredVisionTransformer(TransformerModel, VisionTransformer):  # type: ignore[misc]  # no mechanism takes timm's masks
    """Vision transformer of timm with declared blocks, from images (B, channels, side, side) to logits."""

    blocks: nn.Sequential

    def first_tokens(self, inputs: Tensor) -> Tensor:
        """Return the tokens (B, N, C) of images."""
        first_BNC: Tensor = self.norm_pre(self.patch_drop(self._pos_embed(self.patch_embed(inputs))))
        return first_BNC

    def position_vectors(self) -> Tensor | None:
        """Return the learned vectors of positions, (N, C)."""
        return None if self.pos_embed is None else self.pos_embed[0]

    def read_out(self, x_BNC: Tensor) -> Tensor:
        """Return logits (B, num_classes)."""
        logits: Tensor = self.forward_head(self.norm(x_BNC))
        return logits

    def forward_features(self, x: Tensor) -> Tensor:  # type: ignore[override]  # likewise
        """Return tokens (B, N, C) after the last norm, of images."""
        tokens_BNC: Tensor = self.norm(self.through_blocks(x))
        return tokens_BNC


class DeclaredDistilledTransformer(DeclaredVisionTransformer, VisionTransformerDistilled):  # type: ignore[misc]  # likewise
    """Vision transformer with DeiT's distillation token and its head, as in timm."""


class ConvolutionalEmbedding(nn.Module):
    """Patch embedding by 3x3 convolutions of stride 2 with GELU between them, in the place of timm's ``PatchEmbed``."""

    def __init__(self, img_size: int, patch_size: int, in_chans: int, embed_dim: int, **options: object) -> None:
        del options  # of timm's PatchEmbed
        super().__init__()
        self.grid_size = (img_size // patch_size, img_size // patch_size)
        self.num_patches = self.grid_size[0] * self.grid_size[1]
        steps = patch_size.bit_length() - 1
        widths = [in_chans, *(embed_dim >> (steps - 1 - step) for step in range(steps))]
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Conv2d(before, after, kernel_size=3, stride=2, padding=1), nn.GELU()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, images: Tensor) -> Tensor:
        """Return tokens (B, N, C) of images (B, channels, side, side)."""
        tokens_BCGG: Tensor = self.layers(images)
        return tokens_BCGG.flatten(2).transpose(1, 2)


def build_vit(architecture: Vit, drop_path_rate: float = 0.0) -> nn.Module:
    """Return the declared vision transformer: images (B, channels, side, side) -> logits (B, num_classes).

    ``drop_path_rate`` is for training: that of the last block, rising linearly from 0 in the first, as in DeiT.
    """
    kind = DeclaredDistilledTransformer if architecture.distilled else DeclaredVisionTransformer
    has_class_token = architecture.pooling == "class-token"
    model = kind(
        class_token=has_class_token,
        global_pool="token" if has_class_token else "avg",
        fc_norm=False,
        embed_layer=PatchEmbed if architecture.embedding == "patches" else ConvolutionalEmbedding,
        img_size=architecture.image_size,
        patch_size=architecture.patch_size,
        in_chans=architecture.num_channels,
        num_classes=architecture.num_classes,
        embed_dim=architecture.dim,
        depth=architecture.depth,
        num_heads=architecture.num_heads,
        mlp_ratio=architecture.mlp_ratio,
        drop_path_rate=drop_path_rate,
        norm_layer=partial(nn.LayerNorm, eps=1e-6),
    )
    for layer, block in enumerate(model.blocks):
        parts = parts_of(cast("Block", block), attention_of(architecture, layer))
        model.blocks[layer] = build_block(architecture.residual, parts)
    # A second time, because the first applied to the attention that has just been replaced.
    model.init_weights()
    return model


def build_quantized_vit(architecture: QuantizedVit, drop_path_rate: float = 0.0) -> nn.Module:
    """Return the declared vision transformer with rounding in front of it; arguments and errors as of ``build_vit``."""
    model = build_vit(architecture, drop_path_rate)
    model.register_forward_pre_hook(partial(_rounded, architecture.step))
    return model


def _rounded(step: float, module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    images, *others = inputs
    return (torch.round(images / step) * step, *others)
