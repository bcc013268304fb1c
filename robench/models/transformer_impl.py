"""Transformers: tokens of an input through blocks with the declared attention, and outputs read off them.

A backbone defines its embedding and its head. All between the two is here: blocks from the declaration, and the state
of a pass, which they hand on to each other.

A backbone passes a block's parts, so that names in the state dict and initial weights are the backbone's; the attention
and its residual connection are declared. Parameters of a connection belong to the block, such as ``blocks.i.t``. All
are initialised such that the block equals the plain one, bit for bit; the MLP's connection is always plain. Drop path
omits the branch f(Y), or the MLP's, of an example, but no other term of a connection, such as t Y0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from robench.attention.build import build_attention
from robench.attention.geometry import Geometry
from robench.attention.state import ForwardState, by_length

if TYPE_CHECKING:
    from collections.abc import Callable

    from timm.models.vision_transformer import Block

    from robench.models.transformer import Boost, FeatScale, NormPlace, ResidualBase, Transformer


class TransformerModel(nn.Module, ABC):
    """Backbone of blocks over tokens; a subclass has ``blocks``, embeds inputs, and reads outputs off the last tokens.

    Axes: B batch, N tokens, C width of a token.

    Attributes:
        takes_seeds: whether a pass takes one seed per example, for mechanisms that draw random numbers.
        takes_losses: whether a pass takes a list, to which layers append their auxiliary training losses, (B,) each.
    """

    takes_seeds = True
    takes_losses = True
    blocks: nn.ModuleList | nn.Sequential

    @abstractmethod
    def first_tokens(self, inputs: Tensor) -> Tensor:
        """Return the tokens (B, N, C) that enter the first block."""

    @abstractmethod
    def read_out(self, x_BNC: Tensor) -> Tensor:
        """Return the outputs of the model, from the tokens that leave the last block."""

    def position_vectors(self) -> Tensor | None:
        """Return the learned vectors of the tokens' positions, (N, C); None if there are none."""
        return None

    def through_blocks(
        self,
        inputs: Tensor,
        seeds: tuple[int, ...] | None = None,
        losses_B: list[Tensor] | None = None,
        mask_BN: Tensor | None = None,
        branch_BN: Tensor | None = None,
    ) -> Tensor:
        """Return the tokens (B, N, C) that leave the last block; ``mask_BN`` and ``branch_BN`` as in ``ForwardState``.

        A mechanism that does not take masks mixes the examples of each length on their own, without their padding. The
        tokens of padding have no meaning.
        """
        first_BNC = x_BNC = self.first_tokens(inputs)
        positions_NC = self.position_vectors()
        if positions_NC is not None:
            positions_NC = positions_NC[: first_BNC.shape[1]]
        state = ForwardState(
            seeds=seeds, positions_NC=positions_NC, losses_B=losses_B, mask_BN=mask_BN, branch_BN=branch_BN
        )
        if mask_BN is not None and branch_BN is None and not all(block.takes_masks for block in self.blocks):
            state.split_by_length()
        for block in self.blocks:
            x_BNC = block(x_BNC, first_BNC, state)
        return x_BNC

    def forward(
        self, inputs: Tensor, seeds: tuple[int, ...] | None = None, losses_B: list[Tensor] | None = None
    ) -> Tensor:
        """Return the outputs for a batch of inputs; see ``takes_seeds`` and ``takes_losses``."""
        return self.read_out(self.through_blocks(inputs, seeds, losses_B))


def attention_of(architecture: Transformer, layer: int, *, separate_queries: bool = False) -> nn.Module:
    """Return the attention of a layer, with initial weights from torch's global generator."""
    geometry = Geometry(
        dim=architecture.dim,
        num_heads=architecture.num_heads,
        num_tokens=architecture.num_tokens,
        depth=architecture.depth,
        layer=layer,
        separate_queries=separate_queries,
        is_causal=architecture.reads_causally,
        layout=architecture.layout,
    )
    return build_attention(architecture.attention, geometry)


def encoder_block(
    architecture: Transformer,
    layer: int,
    make_mlp: Callable[[], nn.Module],
    *,
    dropout: float = 0.0,
    norm: NormPlace = "pre",
    mlp_takes_state: bool = False,
) -> PlainBlock:
    """Return the block of a layer with LayerNorms around attention and MLP, as in Vaswani et al. 2017 and GPT-2.

    ``make_mlp`` returns a new MLP, (..., C) -> (..., C); ``dropout`` is the probability with which training zeroes
    values of each branch. The other arguments are those of ``BlockParts``.
    """
    parts = BlockParts(
        norm1=nn.LayerNorm(architecture.dim),
        attention=attention_of(architecture, layer),
        norm2=nn.LayerNorm(architecture.dim),
        mlp=make_mlp(),
        drop_path1=nn.Dropout(dropout),
        drop_path2=nn.Dropout(dropout),
        norm=norm,
        mlp_takes_state=mlp_takes_state,
    )
    return build_block(architecture.residual, parts, is_causal=architecture.reads_causally)


def mlp_of(dim: int, hidden_dim: int, activation: nn.Module, dropout: float | None = None) -> nn.Sequential:
    """Return an MLP with one hidden layer, (..., C) -> (..., C), and dropout after its activation unless it is None."""
    dropped = [] if dropout is None else [nn.Dropout(dropout)]
    return nn.Sequential(nn.Linear(dim, hidden_dim), activation, *dropped, nn.Linear(hidden_dim, dim))


def initialise_linear(model: nn.Module) -> None:
    """Draw the weights of a model's linear layers from a truncated normal distribution, and set biases to zero."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockParts:
    """Parts of a block.

    Attributes:
        drop_path1, drop_path2: modules that drop a whole branch of an example in training, or the identity.
        gamma1, gamma2: scale of each channel of the two branches, (C,); None for branches as they are.
        norm: place of the norms. ``pre``: they open the branches; ``post``: they follow the connections, as in Vaswani
            et al. 2017; ``residual``: they come before the connections, whose branches and inputs read them.
        mlp_takes_state: whether the MLP takes the state of the pass beside its tokens.
    """

    norm1: nn.Module
    attention: nn.Module
    norm2: nn.Module
    mlp: nn.Module
    drop_path1: nn.Module
    drop_path2: nn.Module
    gamma1: nn.Parameter | None = None
    gamma2: nn.Parameter | None = None
    norm: NormPlace = "pre"
    mlp_takes_state: bool = False


def parts_of(block: Block, attention: nn.Module) -> BlockParts:
    """Return the parts of timm's block, with another attention."""
    return BlockParts(
        norm1=block.norm1,
        attention=attention,
        norm2=block.norm2,
        mlp=block.mlp,
        drop_path1=block.drop_path1,
        drop_path2=block.drop_path2,
    )


def build_block(declaration: ResidualBase, parts: BlockParts, *, is_causal: bool = False) -> PlainBlock:
    """Return a block with the declared residual connection, in its causal form if that is wanted."""
    block: PlainBlock = declaration.implemented_for(is_causal=is_causal)(declaration, parts)
    return block


class PlainBlock(nn.Module):
    """Plain residual connection: Y + f(Y), with f the attention, scaled by ``gamma1`` if the backbone has it."""

    mixes_tokens = False

    def __init__(self, declaration: ResidualBase, parts: BlockParts) -> None:
        super().__init__()
        self.norm1 = parts.norm1
        self.attn = parts.attention
        self.drop_path1 = parts.drop_path1
        self.norm2 = parts.norm2
        self.mlp = parts.mlp
        self.drop_path2 = parts.drop_path2
        self.gamma1 = parts.gamma1
        self.gamma2 = parts.gamma2
        self.norm = parts.norm
        self.mlp_takes_state = parts.mlp_takes_state

    @property
    def takes_masks(self) -> bool:
        """Return whether the block itself leaves out the padding of a state's ``mask_BN``."""
        return bool(getattr(self.attn, "takes_masks", False)) and not self.mixes_tokens

    def forward(self, x_BNC: Tensor, first_BNC: Tensor, state: ForwardState) -> Tensor:
        """Return (B, N, C); ``first_BNC`` are the tokens that entered the first block."""
        given_BNC = x_BNC if self.norm == "post" else self.norm1(x_BNC)
        if self.takes_masks or getattr(self.attn, "mixes_by_length", False):
            attended_BNC = self.attn(given_BNC, state)
        else:
            attended_BNC = by_length(lambda own, its_state: self.attn(*own, its_state), (given_BNC,), state)
        if state.branch_BN is not None and not self.takes_masks:
            attended_BNC = attended_BNC * state.branch_BN.unsqueeze(-1)
        kept_BNC = given_BNC if self.norm == "residual" else x_BNC
        connected = (kept_BNC, self.drop_path1(_scaled(attended_BNC, self.gamma1)), first_BNC)
        if self.mixes_tokens:
            mixed_BNC = by_length(lambda own, _: self.connected(*own), connected, state)
        else:
            mixed_BNC = self.connected(*connected)
        if self.norm == "post":
            mixed_BNC = self.norm1(mixed_BNC)
        given_BNC = mixed_BNC if self.norm == "post" else self.norm2(mixed_BNC)
        processed_BNC = self.mlp(given_BNC, state) if self.mlp_takes_state else self.mlp(given_BNC)
        kept_BNC = given_BNC if self.norm == "residual" else mixed_BNC
        output_BNC: Tensor = kept_BNC + self.drop_path2(_scaled(processed_BNC, self.gamma2))
        return self.norm2(output_BNC) if self.norm == "post" else output_BNC

    def connected(self, x_BNC: Tensor, branch_BNC: Tensor, first_BNC: Tensor) -> Tensor:
        """Return the input of the MLP's half of the block."""
        return x_BNC + branch_BNC


class BoostBlock(PlainBlock):
    """Boosted residual connection: Y' = f(Y) + t Y0 + (1 - t) Y, with a learned scalar t, zero at start.

    Source: "Revisiting Transformers with Insights from Image Filtering and Boosting", arXiv:2506.10371, equation 31;
    no code is published. Y0 are the tokens that enter the first block, positions added. Where the paper is silent: it
    writes t without a layer's index but t_l in definition 4.1, so each block has its own (in the first, where
    Y = Y0, it changes nothing); and it leaves the MLP out, so f is the attention, and the MLP's connection is plain.
    """

    def __init__(self, declaration: Boost, parts: BlockParts) -> None:
        super().__init__(declaration, parts)
        self.t = nn.Parameter(torch.zeros(()))

    def connected(self, x_BNC: Tensor, branch_BNC: Tensor, first_BNC: Tensor) -> Tensor:
        """Return f(Y) + t Y0 + (1 - t) Y."""
        return branch_BNC + self.t * first_BNC + (1 - self.t) * x_BNC


class FeatScaleBlock(PlainBlock):
    """FeatScale: separate scaling of the branch's mean over tokens and its remainder, by learned per-channel factors.

    Source: Wang et al. 2022 (Anti-Oversmoothing in Deep Vision Transformers), arXiv:2203.05962: mean
    and rest of the attention's output, after its projection, get the factors 1 + lamb1 and 1 + lamb2 (``paper``).
    The authors' code (ViT-Anti-Oversmoothing, featscale.py) adds the scaled parts twice, once to the branch and once
    more in the residual connection, so that its factors are 1 + 2 lamb1 and 1 + 2 lamb2 (``released``).
    """

    mixes_tokens = True

    def __init__(self, declaration: FeatScale, parts: BlockParts) -> None:
        super().__init__(declaration, parts)
        shape = parts.norm1.get_parameter("weight").shape
        self.lamb1 = nn.Parameter(torch.zeros(shape))
        self.lamb2 = nn.Parameter(torch.zeros(shape))
        self.times_added = 1 if declaration.formula == "paper" else 2

    def connected(self, x_BNC: Tensor, branch_BNC: Tensor, first_BNC: Tensor) -> Tensor:
        """Return Y + f(Y) + n (lamb1 mean + lamb2 (f(Y) - mean)), n the times that the scaled parts are added."""
        mean_B1C = branch_BNC.mean(dim=1, keepdim=True)
        scaled_BNC = self.lamb1 * mean_B1C + self.lamb2 * (branch_BNC - mean_B1C)
        return x_BNC + (branch_BNC + self.times_added * scaled_BNC)


def _scaled(branch_BNC: Tensor, gamma_C: Tensor | None) -> Tensor:
    return branch_BNC if gamma_C is None else gamma_C * branch_BNC
