"""Segmenters: an encoder of patches, a decoder of its tokens to logits of pixels, and the windows of an image.

Source: Strudel et al. 2021, arXiv:2105.05633, in the form of the authors' code (rstrudel/segmenter), whose names of
parameters this has (``encoder.``, ``decoder.``):

* An image is read in square windows at a ``stride``, the last of a row or column shifted to end at the border; logits
  are averaged where windows overlap. An image that is smaller than a window is padded on the right and below by zeros,
  after the normalisation, and the logits of padding are cut off. (The authors' evaluation enlarges such images.)
* The encoder is a vision transformer (``vit``) without head, LayerNorm's epsilon 1e-5; the decoder reads the tokens of
  patches after its last norm, and neither class nor distillation token.
* ``linear``: one linear map of each token to the logits of its patch.
* ``mask-transformer``: a linear map of the tokens, one learned vector for each class behind them, blocks with softmax
  attention, and a LayerNorm. Patches and classes, each mapped by a matrix and scaled to length 1, are multiplied; the
  products with all classes pass through a LayerNorm. Its MLPs are four times as wide as a token. In the code of
  RPC-Attention (rachtsy/segm) its attention is the encoder's (``decoder_attention: encoder``); dropout of attention
  weights is left out there.
* Logits of patches are enlarged to the window bilinearly, the corners of their grid half a patch inside the window's.

Gradients flow through all windows of an image.

Axes: B batch, C width of a token, D channels, K classes, N tokens, P patches, G side of the grid of patches.
"""

from __future__ import annotations

from dataclasses import replace
from math import isqrt
from typing import TYPE_CHECKING, cast

import torch
from timm.models.vision_transformer import Block
from torch import Tensor, nn

from robench.attention.build import build_attention
from robench.attention.geometry import Geometry, TokenLayout
from robench.attention.state import ForwardState
from robench.core.errors import ContractError, DeclarationError, WeightsError
from robench.core.seeds import LazySeeds, Stream, stream_seed
from robench.models.build import without_fused_attention
from robench.models.foreign import Timm
from robench.models.timm_backbone_impl import build_timm
from robench.models.transformer import PlainResidual
from robench.models.transformer_impl import PlainBlock, TransformerModel, build_block, initialise_linear, parts_of
from robench.models.vit_impl import DeclaredVisionTransformer, build_vit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from robench.models.segmenter import Segmenter, TimmSegmenter

NORM_EPSILON = 1e-5


class SegmenterModel(nn.Module):
    """Segmenter of images (B, D, H, W) of any size to logits (B, K, H, W).

    An image of one window passes with the others of its batch. The windows of larger images pass image by image, in
    passes of exactly ``windows_per_pass``. A mechanism that draws random numbers has a seed for each window, made from
    the seed of the image; auxiliary losses are the mean over the windows of an image.

    Attributes:
        encoder: vision transformer without head; ``decoder``: from tokens of patches (B, P, C) to logits (B, P, K).
        takes_seeds, takes_losses: as of ``TransformerModel``, True for encoders of robench's own.
    """

    def __init__(self, encoder: nn.Module, decoder: nn.Module, architecture: Segmenter | TimmSegmenter) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.window = architecture.image_size
        self.stride = architecture.stride or architecture.image_size
        self.windows_per_pass = architecture.windows_per_pass
        self.grid = int(encoder.patch_embed.grid_size[0])  # type: ignore[union-attr, index]  # a tuple in both kinds
        self.takes_seeds = self.takes_losses = isinstance(encoder, TransformerModel)

    def forward(
        self, inputs: Tensor, seeds: Sequence[int] | None = None, losses_B: list[Tensor] | None = None
    ) -> Tensor:
        """Return logits (B, K, H, W) of images (B, D, H, W)."""
        height, width = inputs.shape[-2:]
        missing = max(0, self.window - width), max(0, self.window - height)
        padded = nn.functional.pad(inputs, (0, missing[0], 0, missing[1])) if any(missing) else inputs
        corners = [
            (top, left)
            for top in starts(padded.shape[-2], self.window, self.stride)
            for left in starts(padded.shape[-1], self.window, self.stride)
        ]
        if len(corners) == 1:
            return self.logits_of(padded, seeds, losses_B)[..., :height, :width]
        own_losses: list[list[Tensor]] = []
        images = []
        for row, image in enumerate(padded):
            of_image: list[Tensor] | None = None if losses_B is None else []
            images.append(self._merged(image, corners, None if seeds is None else seeds[row], of_image))
            own_losses.append(of_image or [])
        if losses_B is not None:
            losses_B += [torch.stack(of_layer) for of_layer in zip(*own_losses, strict=True)]
        return torch.stack(images)[..., :height, :width]

    def _merged(
        self, image: Tensor, corners: Sequence[tuple[int, int]], seed: int | None, losses: list[Tensor] | None
    ) -> Tensor:
        """Return the logits (K, H, W) of an image (D, H, W), averaged over the windows with these upper left corners.

        The mean of each layer's auxiliary losses is appended to ``losses``.
        """
        side, size = self.window, self.windows_per_pass
        total: Tensor | None = None
        hits = image.new_zeros(image.shape[-2:])
        found: list[list[Tensor]] = []
        for start in range(0, len(corners), size):
            part = corners[start : start + size]
            windows = [image[:, top : top + side, left : left + side] for top, left in part]
            windows += [windows[-1]] * (size - len(part))
            own: list[Tensor] | None = None if losses is None else []
            seeds = None if seed is None else window_seeds(seed, start, size)
            logits = self.logits_of(torch.stack(windows), seeds, own)
            found.append([of_layer[: len(part)] for of_layer in own or []])
            if total is None:
                total = logits.new_zeros(logits.shape[1], *image.shape[-2:])
            for (top, left), of_window in zip(part, logits, strict=False):
                total[:, top : top + side, left : left + side] += of_window
                hits[top : top + side, left : left + side] += 1
        if losses is not None:
            losses += [torch.cat(of_layer).mean() for of_layer in zip(*found, strict=True)]
        return cast("Tensor", total) / hits

    def logits_of(
        self, windows: Tensor, seeds: Sequence[int] | None = None, losses_B: list[Tensor] | None = None
    ) -> Tensor:
        """Return logits (B, K, side, side) of windows (B, D, side, side)."""
        patches_BPC = self._tokens(windows, seeds, losses_B)[:, self.encoder.num_prefix_tokens :]
        if patches_BPC.ndim != 3 or patches_BPC.shape[1] != self.grid**2:
            raise ContractError(
                f"the encoder returned tokens {tuple(patches_BPC.shape)}, expected one for each of the"
                f" {self.grid} x {self.grid} patches of a window: take a plain vision transformer of timm"
            )
        logits_BPK = self.decoder(patches_BPC)
        logits_BKGG = logits_BPK.transpose(1, 2).unflatten(2, (self.grid, self.grid))
        return nn.functional.interpolate(logits_BKGG, size=windows.shape[-2:], mode="bilinear", align_corners=False)

    def _tokens(self, windows: Tensor, seeds: Sequence[int] | None, losses_B: list[Tensor] | None) -> Tensor:
        """Return all tokens (B, N, C) after the encoder's last norm."""
        if isinstance(self.encoder, DeclaredVisionTransformer):
            tokens_BNC: Tensor = self.encoder.norm(self.encoder.through_blocks(windows, seeds, losses_B))  # type: ignore[arg-type]  # seeds may be lazy
            return tokens_BNC
        features: Tensor = self.encoder.forward_features(windows)  # type: ignore[operator]  # a method of timm's models
        # Of models that pool before their last norm, such as BEiT.
        last_norm = getattr(self.encoder, "fc_norm", None)
        return features if last_norm is None else last_norm(features)


def starts(length: int, window: int, stride: int) -> list[int]:
    """Return the first pixels of windows along a side of ``length`` pixels; the last window ends at the border.

    >>> starts(700, 512, 512), starts(512, 512, 512), starts(11, 4, 3)
    ([0, 188], [0], [0, 3, 6, 7])
    """
    return [*range(0, length - window, stride), length - window]


def window_seeds(seed: int, first: int, count: int) -> LazySeeds:
    """Return the seeds of ``count`` windows of an image, from its window ``first`` on, computed when they are read."""
    return LazySeeds(
        lambda: [stream_seed(seed, Stream(purpose="window", draw=first + place)) for place in range(count)], count
    )


class LinearDecoder(nn.Module):
    """Linear map of the tokens of patches to logits."""

    def __init__(self, dim: int, num_classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(dim, num_classes)
        initialise_linear(self)

    def forward(self, x_BPC: Tensor) -> Tensor:
        """Return logits (B, P, K)."""
        logits_BPK: Tensor = self.head(x_BPC)
        return logits_BPK


class MaskTransformer(nn.Module):
    """Blocks with softmax attention over patches and classes, and scalar products of their vectors of length 1.

    ``dropout`` is the probability with which training zeroes attention weights, and values of each branch and of the
    hidden layer of its MLP. ``attentions`` replace the softmax attention of the blocks, without dropout of weights.
    """

    def __init__(
        self,
        dim: int,
        num_classes: int,
        *,
        depth: int,
        num_heads: int,
        dropout: float,
        attentions: Sequence[nn.Module] = (),
    ) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.proj_dec = nn.Linear(dim, dim)
        self.cls_emb = nn.Parameter(torch.empty(1, num_classes, dim))
        self.blocks = nn.ModuleList(
            Block(dim, num_heads, qkv_bias=True, proj_drop=dropout, attn_drop=dropout, norm_layer=nn.LayerNorm)
            for _ in range(depth)
        )
        self.decoder_norm = nn.LayerNorm(dim)
        self.proj_patch = nn.Parameter(dim**-0.5 * torch.randn(dim, dim))
        self.proj_classes = nn.Parameter(dim**-0.5 * torch.randn(dim, dim))
        self.mask_norm = nn.LayerNorm(num_classes)
        for layer, attention in enumerate(attentions):
            parts = parts_of(cast("Block", self.blocks[layer]), attention)
            self.blocks[layer] = build_block(PlainResidual(), replace(parts, drop_path1=nn.Dropout(dropout)))
        initialise_linear(self)
        nn.init.trunc_normal_(self.cls_emb, std=0.02)
        without_fused_attention(self)

    def forward(self, x_BPC: Tensor) -> Tensor:
        """Return logits (B, P, K)."""
        classes_BKC = self.cls_emb.expand(len(x_BPC), -1, -1)
        x_BNC = torch.cat([self.proj_dec(x_BPC), classes_BKC], dim=1)
        first_BNC, state = x_BNC, ForwardState()
        for block in self.blocks:
            x_BNC = block(x_BNC, first_BNC, state) if isinstance(block, PlainBlock) else block(x_BNC)
        x_BNC = self.decoder_norm(x_BNC)
        patches_BPC = nn.functional.normalize(x_BNC[:, : -self.num_classes] @ self.proj_patch, dim=-1)
        classes_BKC = nn.functional.normalize(x_BNC[:, -self.num_classes :] @ self.proj_classes, dim=-1)
        logits_BPK: Tensor = self.mask_norm(patches_BPC @ classes_BKC.transpose(1, 2))
        return logits_BPK


def build_segmenter(architecture: Segmenter, drop_path_rate: float = 0.0) -> SegmenterModel:
    """Return the declared segmenter; ``drop_path_rate`` is the encoder's, as of ``build_vit``."""
    encoder = build_vit(architecture, drop_path_rate)
    encoder.reset_classifier(0)  # type: ignore[operator]  # a method of timm's models
    norms = [encoder.norm, *(norm for block in encoder.blocks for norm in (block.norm1, block.norm2))]  # type: ignore[union-attr]  # robench's blocks
    for norm in norms:
        norm.eps = NORM_EPSILON
    decoder = decoder_of(architecture, architecture.dim, _attentions_of_decoder(architecture))
    return SegmenterModel(encoder, decoder, architecture)


def _attentions_of_decoder(architecture: Segmenter) -> list[nn.Module]:
    depth = architecture.decoder_depth if architecture.decoder_attention == "encoder" else 0
    geometries = [
        Geometry(
            dim=architecture.dim,
            num_heads=architecture.heads_of(architecture.dim),
            num_tokens=architecture.num_patches + architecture.num_classes,
            depth=depth,
            layer=layer,
            layout=TokenLayout(grid=architecture.layout.grid),
        )
        for layer in range(depth)
    ]
    return [build_attention(architecture.attention, geometry) for geometry in geometries]


def build_timm_segmenter(architecture: TimmSegmenter, drop_path_rate: float = 0.0) -> SegmenterModel:
    """Return the declared segmenter over an encoder of timm.

    Raises:
        DeclarationError: timm's model has no square grid of patches that covers the window, or cannot be built.
    """
    side = architecture.image_size
    arguments = {**architecture.arguments, "img_size": side, "num_classes": 0}
    encoder = build_timm(Timm(name=architecture.name, arguments=arguments), drop_path_rate)
    embedding = getattr(encoder, "patch_embed", None)
    sizes = (getattr(embedding, "grid_size", None), getattr(embedding, "patch_size", None))
    places = [grid * patch for grid, patch in zip(*sizes, strict=False)] if all(sizes) else []  # type: ignore[arg-type]  # tuples
    if places != [side, side] or not hasattr(encoder, "num_prefix_tokens"):
        raise DeclarationError(
            f"timm model {architecture.name!r} gives no grid of patches that covers a window of {side} x {side} pixels"
            f" (grid {sizes[0]}, patches {sizes[1]}): take a plain vision transformer, such as vit_tiny_patch16_224,"
            " and a multiple of its patches as image_size"
        )
    dim = int(encoder.embed_dim)  # type: ignore[arg-type]  # a number
    if dim % architecture.heads_of(dim):
        raise DeclarationError(
            f"decoder_heads must divide the width of timm model {architecture.name!r}, {dim}, got"
            f" {architecture.heads_of(dim)}"
        )
    return SegmenterModel(encoder, decoder_of(architecture, dim), architecture)


def decoder_of(
    architecture: Segmenter | TimmSegmenter, dim: int, attentions: Sequence[nn.Module] = ()
) -> LinearDecoder | MaskTransformer:
    """Return the declared decoder of tokens of width ``dim``, with initial weights from torch's global generator."""
    if architecture.decoder == "linear":
        return LinearDecoder(dim, architecture.num_classes)
    return MaskTransformer(
        dim,
        architecture.num_classes,
        depth=architecture.decoder_depth,
        num_heads=architecture.heads_of(dim),
        dropout=architecture.decoder_dropout,
        attentions=attentions,
    )


def encoder_state_from(state: Mapping[str, Tensor], model: SegmenterModel) -> dict[str, Tensor]:
    """Return a segmenter's state whose encoder has the weights of a classifier, and whose decoder stays as it is.

    Heads of classes are left out, and learned positions interpolated bilinearly from the classifier's grid of patches
    to that of a window; those of class and distillation tokens stay as they are. ``state`` is a classifier's state
    dict, in the names of the encoder.

    Raises:
        DeclarationError: parameters of the attention depend on the number of tokens, which differs.
        WeightsError: the classifier's positions form no square grid.
    """
    wanted = model.encoder.state_dict()
    found = {name: value for name, value in state.items() if not name.startswith(("head.", "head_dist."))}
    if (positions := found.get("pos_embed")) is not None and "pos_embed" in wanted:
        found["pos_embed"] = _interpolated(positions, wanted["pos_embed"].shape[1], model.grid)
    changed = [
        (name, tuple(value.shape), tuple(wanted[name].shape))
        for name, value in found.items()
        if ".attn." in name and name in wanted and value.shape != wanted[name].shape
    ]
    if changed:
        name, before, after = changed[0]
        raise DeclarationError(
            f"{name} has the shape {before} in the classifier and {after} in the segmenter: it depends on the number of"
            " tokens, and neither paper nor code of this attention says how to interpolate it. Train the segmenter from"
            " initial weights, or give it windows of the classifier's size"
        )
    of_decoder = {f"decoder.{name}": value for name, value in model.decoder.state_dict().items()}
    return {f"encoder.{name}": value for name, value in found.items()} | of_decoder


def _interpolated(positions_1NC: Tensor, num_tokens: int, grid: int) -> Tensor:
    """Return positions (1, num_tokens, C), those of ``grid`` x ``grid`` patches interpolated, the first ones kept."""
    num_special = num_tokens - grid**2
    before = isqrt(max(0, positions_1NC.shape[1] - num_special))
    if not before or before**2 != positions_1NC.shape[1] - num_special:
        raise WeightsError(
            f"pos_embed has {positions_1NC.shape[1]} positions, expected {num_special} and a square grid of patches:"
            " the segmenter's tokens beside patches must be those of the classifier (distilled, pooling)"
        )
    if before == grid:
        return positions_1NC
    special, patches_1PC = positions_1NC[:, :num_special], positions_1NC[:, num_special:]
    patches_1CGG = patches_1PC.transpose(1, 2).unflatten(2, (before, before))
    resized = nn.functional.interpolate(patches_1CGG, size=(grid, grid), mode="bilinear", align_corners=False)
    return torch.cat([special, resized.flatten(2).transpose(1, 2)], dim=1)
