"""Classifier of sequences of tokens of the Long-Range Arena's experiments (mlpen/Nystromformer, PrimalAttention_LRA).

Embeddings of tokens and learned positions, normal with standard deviation 0.02, blocks that begin with a LayerNorm, and
a last LayerNorm. Tokens of padding are zeroed and the mean is over all places, padding included, as in that code. The
head is an MLP with ReLU. Of a pair, with means x and y, it reads [x, y, x y, x - y].

``logits_of`` takes embedded tokens.
"""

from functools import partial

import torch
from torch import Tensor, nn

from robench.core.errors import ContractError
from robench.models.loaded import without_padding
from robench.models.tokens import Tokens
from robench.models.transformer_impl import TransformerModel, encoder_block, mlp_of

INITIAL_DEVIATION = 0.02


class TokensModel(TransformerModel):
    """Transformer over tokens (B, N), or pairs (B, 2, N), to logits (B, num_classes)."""

    def __init__(self, architecture: Tokens) -> None:
        super().__init__()
        self.architecture = architecture
        dim, hidden = architecture.dim, architecture.feedforward
        self.embedding = nn.Embedding(architecture.vocabulary_size, dim)
        self.pos_embed = nn.Parameter(torch.empty(1, architecture.num_steps, dim))
        for weight in (self.embedding.weight, self.pos_embed):
            nn.init.normal_(weight, std=INITIAL_DEVIATION)
        self.dropout = nn.Dropout(architecture.dropout)
        make_mlp = partial(mlp_of, dim, architecture.feedforward, nn.GELU(), architecture.dropout)
        self.blocks = nn.ModuleList(
            encoder_block(architecture, layer, make_mlp, dropout=architecture.dropout)
            for layer in range(architecture.depth)
        )
        self.norm = nn.LayerNorm(dim)
        width = 4 * dim if architecture.is_pair else dim
        self.head = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, architecture.num_classes))

    def forward(
        self,
        inputs: Tensor,
        seeds: tuple[int, ...] | None = None,
        losses_B: list[Tensor] | None = None,
    ) -> Tensor:
        """Return logits (B, num_classes) of tokens (B, N) or pairs (B, 2, N), where token 0 is padding.

        Raises:
            ContractError: inputs of another shape, or tokens outside the vocabulary.
        """
        self._check(inputs)
        inputs = nn.functional.pad(inputs, (0, self.architecture.num_steps - inputs.shape[-1]))
        return self.logits_of(self.embed(inputs), seeds, losses_B, inputs != 0)

    def embed(self, tokens: Tensor) -> Tensor:
        """Return the vectors (B, N, C) of tokens (B, N), or (B, 2, N, C) of pairs, without positions."""
        vectors: Tensor = self.embedding(tokens)
        return vectors

    def outputs_of_ids(self, ids: Tensor, seeds: tuple[int, ...] | None = None) -> Tensor:
        """Return logits (B, num_classes) of tokens in all places: the pass whose cost is counted and timed."""
        return self.logits_of(self.embedding(ids), seeds)

    def logits_of(
        self,
        embedded: Tensor,
        seeds: tuple[int, ...] | None = None,
        losses_B: list[Tensor] | None = None,
        mask_BN: Tensor | None = None,
    ) -> Tensor:
        """Return logits (B, num_classes) of embedded tokens (B, N, C) or pairs (B, 2, N, C); see ``forward``."""
        if not self.architecture.is_pair:
            return self.read_out(self._pooled(embedded, seeds, losses_B, mask_BN))
        towers = None if seeds is None else tuple(seed for seed in seeds for _ in range(2))
        losses: list[Tensor] | None = None if losses_B is None else []
        masks = None if mask_BN is None else mask_BN.flatten(0, 1)
        x_BC, y_BC = self._pooled(embedded.flatten(0, 1), towers, losses, masks).unflatten(0, (-1, 2)).unbind(1)
        if losses_B is not None:
            losses_B += [each.unflatten(0, (-1, 2)).mean(1) for each in losses or ()]
        return self.read_out(torch.cat([x_BC, y_BC, x_BC * y_BC, x_BC - y_BC], dim=-1))

    def tokens(
        self,
        embedded: Tensor,
        seeds: tuple[int, ...] | None = None,
        losses_B: list[Tensor] | None = None,
        mask_BN: Tensor | None = None,
    ) -> Tensor:
        """Return the tokens (B, N, C) that leave the last block, of embedded ones (B, N, C)."""
        branch_BN = mask_BN if self.architecture.padding == "branch" else None
        return self.through_blocks(embedded, seeds, losses_B, mask_BN, branch_BN)

    def first_tokens(self, inputs: Tensor) -> Tensor:
        """Return the tokens (B, N, C) that enter the first block, of embedded ones."""
        positions = self.architecture.position_scale * self.pos_embed[:, : inputs.shape[1]]
        first_BNC: Tensor = self.dropout(inputs + positions)
        return first_BNC

    def position_vectors(self) -> Tensor:
        """Return the learned vectors of positions, (N, C)."""
        return self.pos_embed[0]

    def read_out(self, x_BNC: Tensor) -> Tensor:
        """Return logits (B, num_classes) of what the head reads, (B, C) or (B, 4 C)."""
        logits: Tensor = self.head(x_BNC)
        return logits

    def _pooled(
        self, embedded: Tensor, seeds: tuple[int, ...] | None, losses_B: list[Tensor] | None, mask_BN: Tensor | None
    ) -> Tensor:
        last_BNC = self.norm(self.tokens(embedded, seeds, losses_B, mask_BN))
        return (last_BNC if mask_BN is None else without_padding(last_BNC, mask_BN)).mean(1)

    def _check(self, inputs: Tensor) -> None:
        *towers, num_steps = self.architecture.input_shape
        if list(inputs.shape[1:-1]) != towers or inputs.shape[-1] > num_steps:
            wanted = f"{'pairs of sequences' if towers else 'sequences'} of up to {num_steps} tokens"
            raise ContractError(f"the model takes {wanted}, got inputs of the shape {tuple(inputs.shape[1:])}")
        largest = int(inputs.max()) if inputs.numel() else 0
        if largest >= self.architecture.vocabulary_size:
            raise ContractError(
                f"the model's vocabulary has {self.architecture.vocabulary_size} tokens, got token {largest}"
            )
