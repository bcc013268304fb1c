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

from robench.attention.geometry import Geometry
from robench.attention.state import ForwardState
from robench.domains.code_points import decoded
from robench.models.word_transformer_impl import END_ID, WordModel, build_word_block

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robench.models.text_classifier import TextClassifier


def build_text_classifier(architecture: TextClassifier) -> nn.Module:
    """Return the declared model: texts (B, T) as code points -> logits (B, num_classes).

    Raises:
        DeclarationError: a causal classifier's attention has no causal form.
    """
    return TextClassifierModel(architecture)


class TextClassifierModel(WordModel):
    """Classifier over texts; see the module."""

    takes_seeds = True
    takes_losses = True

    def __init__(self, architecture: TextClassifier) -> None:
        super().__init__(architecture.vocabulary_size)
        self.architecture = architecture
        dim = architecture.dim
        self.embedding = nn.Embedding(architecture.vocabulary_size, dim)
        self.cls_token = nn.Parameter(0.02 * torch.randn(1, 1, dim))
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, architecture.num_tokens, dim))
        self.dropout = nn.Dropout(architecture.dropout)
        self.blocks = nn.ModuleList(_block(architecture, layer) for layer in range(architecture.depth))
        # A block with post-norm ends with one.
        self.norm = nn.LayerNorm(dim) if architecture.norm == "pre" else nn.Identity()
        self.head = nn.Linear(dim, architecture.num_classes)
        self._init_weights(self.embedding)

    def forward(
        self, points: Tensor, seeds: tuple[int, ...] | None = None, losses_B: list[Tensor] | None = None
    ) -> Tensor:
        """Return logits (B, num_classes) of texts (B, T).

        ``seeds``, one per text, are for mechanisms that draw random numbers; layers append their auxiliary training
        losses, (B,) each, to a list ``losses_B``.
        """
        return self.logits_of(self.tokens(decoded(points)), seeds, losses_B)

    def tokens(self, texts: Sequence[str]) -> Tensor:
        """Return the ids of the first words of each text, (B, context)."""
        context = self.architecture.context
        rows = [self.ids_of(text)[:context] for text in texts]
        filled = [[*row, *[END_ID] * (context - len(row))] for row in rows]
        return torch.tensor(filled, device=self.embedding.weight.device).reshape(len(texts), context)

    def logits_of(
        self, ids_BL: Tensor, seeds: tuple[int, ...] | None = None, losses_B: list[Tensor] | None = None
    ) -> Tensor:
        """Return logits (B, num_classes) of ids (B, context); see ``forward``."""
        words_BLC = self.embedding(ids_BL) * self.architecture.dim**0.5
        class_B1C = self.cls_token.expand(len(ids_BL), -1, -1)
        is_causal = self.architecture.is_causal
        tokens_BNC = torch.cat([words_BLC, class_B1C] if is_causal else [class_B1C, words_BLC], dim=1)
        first_BNC = self.dropout(tokens_BNC + self.pos_embed)
        state, x_BNC = ForwardState(seeds=seeds, positions_NC=self.pos_embed[0], losses_B=losses_B), first_BNC
        for block in self.blocks:
            x_BNC = block(x_BNC, first_BNC, state)
        logits: Tensor = self.head(self.norm(x_BNC[:, -1 if is_causal else 0]))
        return logits


def _block(architecture: TextClassifier, layer: int) -> nn.Module:
    geometry = Geometry(
        dim=architecture.dim,
        num_heads=architecture.num_heads,
        num_tokens=architecture.num_tokens,
        depth=architecture.depth,
        layer=layer,
        is_causal=architecture.is_causal,
    )
    return build_word_block(architecture, geometry)
