"""Classifiers of texts: transformers over words with a class token, as in Devlin et al. 2019, arXiv:1810.04805.

Learned positions, each branch after a LayerNorm as in DeiT and GPT-2 or before one, and a linear layer on the class
token: the first token, or the last one of a causal classifier. Every text has the same number of tokens: its first
words, and ends of lines after the last one. So a text's logits depend on no other text, and mechanisms whose parameters
belong to places need no masks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from robench.domains.code_points import decoded
from robench.models.word_transformer_impl import END_ID, WordModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robench.models.word_transformer import TextClassifier


class TextClassifierModel(WordModel):
    """Classifier from texts (B, T) as code points to logits (B, num_classes); see the module."""

    architecture: TextClassifier

    def __init__(self, architecture: TextClassifier) -> None:
        super().__init__(architecture)
        dim = architecture.dim
        self.cls_token = nn.Parameter(0.02 * torch.randn(1, 1, dim))
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, architecture.num_tokens, dim))
        self._add_blocks()
        self.head = nn.Linear(dim, architecture.num_classes)
        self._init_weights()

    def forward(
        self, inputs: Tensor, seeds: tuple[int, ...] | None = None, losses_B: list[Tensor] | None = None
    ) -> Tensor:
        """Return logits (B, num_classes) of texts (B, T)."""
        return self.logits_of(self.tokens(decoded(inputs)), seeds, losses_B)

    def tokens(self, texts: Sequence[str]) -> Tensor:
        """Return the ids of the first words of each text, (B, context)."""
        context = self.architecture.context
        rows = [self.ids_of(text)[:context] for text in texts]
        filled = [[*row, *[END_ID] * (context - len(row))] for row in rows]
        return torch.tensor(filled, device=self.embedding.weight.device).reshape(len(texts), context)

    def logits_of(
        self, ids_BL: Tensor, seeds: tuple[int, ...] | None = None, losses_B: list[Tensor] | None = None
    ) -> Tensor:
        """Return logits (B, num_classes) of ids (B, context)."""
        return super().forward(ids_BL, seeds, losses_B)

    def embed(self, inputs: Tensor) -> Tensor:
        """Return the tokens (B, N, C) of ids (B, context), the class token included."""
        words_BLC = self.embedding(inputs) * self.architecture.dim**0.5
        class_B1C = self.cls_token.expand(len(inputs), -1, -1)
        parts = [words_BLC, class_B1C] if self.architecture.is_causal else [class_B1C, words_BLC]
        first_BNC: Tensor = self.dropout(torch.cat(parts, dim=1) + self.pos_embed)
        return first_BNC

    def position_vectors(self) -> Tensor:
        """Return the learned vectors of positions, (N, C)."""
        return self.pos_embed[0]

    def read_out(self, x_BNC: Tensor) -> Tensor:
        """Return logits (B, num_classes)."""
        logits: Tensor = self.head(self.norm(x_BNC[:, -1 if self.architecture.is_causal else 0]))
        return logits
