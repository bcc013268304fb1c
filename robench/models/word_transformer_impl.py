"""Parts that transformers over words share: the vocabulary in the weights, and blocks.

The vocabulary is a buffer of the model: a 64-bit hash of each word, the end of a line first; words that it has not are
the unknown word, ``<unk>``. So a file of weights is complete, and its size known before it is read. That two of 268,000
words have the same hash has a probability of 2e-9.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache, partial
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from robench.attention.build import build_attention
from robench.models.residuals_impl import BlockParts, build_block
from robench.tasks.language_modeling_impl import UNKNOWN, tokens_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from robench.attention.geometry import Geometry
    from robench.models.word_transformer import WordTransformer

END_ID = 0


class WordModel(nn.Module):
    """Module over words with a vocabulary; see the module."""

    vocabulary: Tensor

    def __init__(self, vocabulary_size: int) -> None:
        super().__init__()
        self.register_buffer("vocabulary", torch.zeros(vocabulary_size, dtype=torch.int64))
        self._ids: Mapping[int, int] = {}

    @property
    def ids(self) -> Mapping[int, int]:
        """Id of each word by its hash."""
        if not self._ids:
            self._ids = {each: place for place, each in enumerate(self.vocabulary.tolist()) if each}
        return self._ids

    def ids_of(self, text: str) -> list[int]:
        """Return the ids of a text's tokens: its words, and an end after each line."""
        return self._ids_of_words(tokens_of(text))

    def embedded(self, words: Sequence[str]) -> Tensor:
        """Return the embeddings (n, C) of n words; of one that is not in the vocabulary that of the unknown word."""
        embedding = cast("nn.Embedding", self.embedding)
        return embedding.weight[torch.tensor(self._ids_of_words(words), device=embedding.weight.device)]

    def _ids_of_words(self, words: Sequence[str]) -> list[int]:
        unknown = self.ids.get(word_hash(UNKNOWN), END_ID)
        return [self.ids.get(word_hash(word), unknown) for word in words]

    def set_vocabulary(self, words: Sequence[str]) -> None:
        """Take the words of the vocabulary, the end of a line first and ``<unk>`` among them; they may be fewer."""
        self.vocabulary.zero_()
        self.vocabulary[: len(words)] = torch.tensor([word_hash(word) for word in words])
        self._ids = {}

    def _init_weights(self, embedding: nn.Embedding) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        nn.init.normal_(embedding.weight, std=embedding.embedding_dim**-0.5)


@lru_cache(maxsize=1 << 20)
def word_hash(word: str) -> int:
    """Return the first 64 bits of a word's SHA-256 as a signed number; of the unknown word too, and never 0."""
    digest = hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "little", signed=True) or 1


def build_word_block(architecture: WordTransformer, geometry: Geometry) -> nn.Module:
    """Return the block of a layer, in its causal form if the geometry is causal.

    Raises:
        DeclarationError: a causal block is wanted of an attention or connection without a causal form.
    """
    dim, experts = architecture.dim, architecture.experts
    parts = BlockParts(
        norm1=nn.LayerNorm(dim),
        attention=build_attention(architecture.attention, geometry),
        norm2=nn.LayerNorm(dim),
        mlp=_mlp(architecture) if experts is None else experts.implemented()(experts, dim, partial(_mlp, architecture)),
        mlp_takes_state=experts is not None,
        # Of values, and not of whole branches.
        drop_path1=nn.Dropout(architecture.dropout),
        drop_path2=nn.Dropout(architecture.dropout),
        is_post_norm=architecture.norm == "post",
    )
    return build_block(architecture.residual, parts, is_causal=geometry.is_causal)


def _mlp(architecture: WordTransformer) -> nn.Module:
    return nn.Sequential(
        nn.Linear(architecture.dim, architecture.feedforward),
        nn.GELU() if architecture.activation == "gelu" else nn.ReLU(),
        nn.Linear(architecture.feedforward, architecture.dim),
    )
