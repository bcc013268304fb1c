"""Base class of transformers: tokens of an input through blocks with the declared attention, and outputs read off them.

A backbone defines its embedding and its head. All between the two is here: blocks from the declaration, and the state
of a pass, which they hand on to each other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from torch import Tensor, nn

from robench.attention.build import build_attention
from robench.attention.geometry import Geometry
from robench.attention.state import ForwardState
from robench.models.residuals_impl import BlockParts, build_block

if TYPE_CHECKING:
    from collections.abc import Callable

    from robench.models.residuals_impl import PlainBlock
    from robench.models.transformer import Transformer


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
    def embed(self, inputs: Tensor) -> Tensor:
        """Return the tokens (B, N, C) that enter the first block."""

    @abstractmethod
    def read_out(self, x_BNC: Tensor) -> Tensor:
        """Return the outputs of the model, from the tokens that leave the last block."""

    def position_vectors(self) -> Tensor | None:
        """Return the learned vectors of the tokens' positions, (N, C); None if there are none."""
        return None

    def through_blocks(
        self, inputs: Tensor, seeds: tuple[int, ...] | None = None, losses_B: list[Tensor] | None = None
    ) -> Tensor:
        """Return the tokens (B, N, C) that leave the last block; arguments as of ``forward``."""
        first_BNC = self.embed(inputs)
        state, x_BNC = ForwardState(seeds=seeds, positions_NC=self.position_vectors(), losses_B=losses_B), first_BNC
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
    )
    return build_attention(architecture.attention, geometry)


def encoder_block(
    architecture: Transformer,
    layer: int,
    make_mlp: Callable[[], nn.Module],
    *,
    dropout: float = 0.0,
    is_post_norm: bool = False,
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
        is_post_norm=is_post_norm,
        mlp_takes_state=mlp_takes_state,
    )
    return build_block(architecture.residual, parts, is_causal=architecture.reads_causally)


def mlp_of(dim: int, hidden_dim: int, activation: nn.Module) -> nn.Sequential:
    """Return an MLP with one hidden layer, (..., C) -> (..., C)."""
    return nn.Sequential(nn.Linear(dim, hidden_dim), activation, nn.Linear(hidden_dim, dim))


def initialise_linear(model: nn.Module) -> None:
    """Draw the weights of a model's linear layers from a truncated normal distribution, and set biases to zero."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
