"""Encoder of time series of the code of Primal-Attention (PrimalAttention_TimeSeries), after Flowformer's and mvts.

A linear map of each step times sqrt(C), learned positions, and blocks whose norms follow the connections, as in Vaswani
et al. 2017; after the last one LayerNorm, GELU and dropout. Tokens of padding are zeroed, and one linear layer reads
the tokens of all steps. Weights start as torch's linear layers do, positions uniformly within 0.02.

Where this differs: dropout of softmax weights, which some of that code's mechanisms have, is left out.
"""

from functools import partial

import torch
from torch import Tensor, nn

from robench.core.errors import ContractError
from robench.models.loaded import without_padding
from robench.models.series import Series
from robench.models.transformer_impl import TransformerModel, encoder_block, mlp_of


class SeriesModel(TransformerModel):
    """Transformer over the steps of series (B, N, channels), to logits (B, num_classes)."""

    takes_masks = True

    def __init__(self, architecture: Series) -> None:
        super().__init__()
        self.architecture = architecture
        dim = architecture.dim
        self.embedding = nn.Linear(architecture.num_channels, dim)
        self.pos_embed = nn.Parameter(torch.empty(1, architecture.num_steps, dim).uniform_(-0.02, 0.02))
        self.dropout = nn.Dropout(architecture.dropout)
        make_mlp = partial(mlp_of, dim, architecture.feedforward, nn.GELU(), architecture.dropout)
        self.blocks = nn.ModuleList(
            encoder_block(architecture, layer, make_mlp, dropout=architecture.dropout, norm="post")
            for layer in range(architecture.depth)
        )
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(architecture.num_steps * dim, architecture.num_classes)

    def forward(
        self,
        inputs: Tensor,
        seeds: tuple[int, ...] | None = None,
        losses_B: list[Tensor] | None = None,
        mask_BN: Tensor | None = None,
    ) -> Tensor:
        """Return logits (B, num_classes); ``mask_BN`` is false at padding, None without padding."""
        if inputs.shape[1] != self.architecture.num_steps:
            raise ContractError(
                f"the model takes series of {self.architecture.num_steps} steps, padding included, got"
                f" {inputs.shape[1]}: its num_steps must be the longest series of its dataset"
            )
        return self.read_out(self.tokens(inputs, seeds, losses_B, mask_BN), mask_BN)

    def tokens(
        self,
        inputs: Tensor,
        seeds: tuple[int, ...] | None = None,
        losses_B: list[Tensor] | None = None,
        mask_BN: Tensor | None = None,
    ) -> Tensor:
        """Return the tokens (B, N, C) that leave the last block, of series of up to ``num_steps`` steps."""
        return self.through_blocks(inputs, seeds, losses_B, mask_BN if self.architecture.padding == "keys" else None)

    def first_tokens(self, inputs: Tensor) -> Tensor:
        """Return the tokens (B, N, C) of steps."""
        steps_BNC = self.embedding(inputs) * self.architecture.dim**0.5
        first_BNC: Tensor = self.dropout(steps_BNC + self.pos_embed[:, : inputs.shape[1]])
        return first_BNC

    def position_vectors(self) -> Tensor:
        """Return the learned vectors of positions, (N, C)."""
        return self.pos_embed[0]

    def read_out(self, x_BNC: Tensor, mask_BN: Tensor | None = None) -> Tensor:
        """Return logits (B, num_classes), from the tokens of steps that are not padding."""
        last_BNC = self.dropout(nn.functional.gelu(self.norm(x_BNC)))
        logits: Tensor = self.head((last_BNC if mask_BN is None else without_padding(last_BNC, mask_BN)).flatten(1))
        return logits
