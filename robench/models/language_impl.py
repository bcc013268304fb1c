"""Word-level language models: causal transformers over windows of a text.

The form is the decoder of Vaswani et al. 2017, arXiv:1706.03762, with sinusoidal positions (section 3.5), each branch
after a LayerNorm as in DeiT and GPT-2 or before one, and the output tied to the embedding (Press & Wolf 2017,
arXiv:1608.05859), as a whole softmax or an adaptive one. The mechanisms are in their causal forms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from robench.attention.geometry import Geometry
from robench.attention.state import ForwardState
from robench.domains.code_points import CONTEXT_END, decoded
from robench.models.adaptive_softmax import AdaptiveSoftmax
from robench.models.word_transformer_impl import END_ID, WordModel, build_word_block
from robench.tasks.language_modeling_impl import NO_TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from robench.models.language import Language

MOST_WINDOWS = 32
# Beyond it a layer's widest activation leaves the caches of a CPU, and its memory is mapped anew at every layer.
MOST_BYTES_ON_CPU = 8 * 2**20


def build_language(architecture: Language) -> nn.Module:
    """Return the declared model: texts (B, T) as code points -> negative log-likelihoods (B, 1 + T).

    Raises:
        DeclarationError: the attention has no causal form.
    """
    return LanguageModel(architecture)


class LanguageModel(WordModel):
    """Language model over texts; see the module."""

    takes_seeds = True
    positions: Tensor

    def __init__(self, architecture: Language) -> None:
        super().__init__(architecture.vocabulary_size)
        self.architecture = architecture
        dim = architecture.dim
        self.embedding = nn.Embedding(architecture.vocabulary_size, dim)
        self.blocks = nn.ModuleList(_block(architecture, layer) for layer in range(architecture.depth))
        # A block with post-norm ends with one.
        self.norm = nn.LayerNorm(dim) if architecture.norm == "pre" else nn.Identity()
        self.output = AdaptiveSoftmax(architecture.vocabulary_size, dim, architecture.cutoffs)
        self.dropout = nn.Dropout(architecture.dropout)
        positions = sinusoids(architecture.context, dim)
        if architecture.positions == "backward":
            positions = positions.flip(0)
        self.register_buffer("positions", positions, persistent=False)
        self._init_weights(self.embedding)

    def forward(self, points: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        """Return the negative log-likelihoods (B, 1 + T) of texts (B, T), ``NO_TOKEN`` after the last one.

        No text has more tokens than signs, but for an end of the last line. ``seeds``, one per text, are for mechanisms
        that draw random numbers.
        """
        rows = []
        for row, text in enumerate(decoded(points)):
            seed = None if seeds is None else seeds[row]
            rows.append(self.losses(*self.tokens(text), seed))
        longest = 1 + points.shape[1]
        return torch.stack([nn.functional.pad(row, (0, longest - len(row)), value=NO_TOKEN) for row in rows])

    def tokens(self, text: str) -> tuple[Tensor, int]:
        """Return the ids of a text's tokens after an end of line, (1 + tokens,), and how many of them are scored."""
        context, _, scored = text.rpartition(CONTEXT_END)
        parts = [self.ids_of(part) for part in (context, scored)]
        ids = [END_ID, *parts[0], *parts[1]]
        return torch.tensor(ids, device=self.embedding.weight.device), len(parts[1])

    def losses(self, ids: Tensor, num_scored: int, seed: int | None) -> Tensor:
        """Return the negative log-likelihoods (num_scored,) of the last tokens."""
        windows = [*windows_of(len(ids) - 1, num_scored, self.architecture.context, self.architecture.stride)]
        # Every pass has this many rows, so that a text's outputs do not depend on its length or on other texts.
        num_rows = windows_at_once(self.architecture, ids.device)
        parts = []
        for at in range(0, len(windows), num_rows):
            chosen = windows[at : at + num_rows]
            starts = torch.tensor([start for start, _, _ in chosen], device=ids.device)
            places_WL = starts[:, None] + torch.arange(self.architecture.context, device=ids.device)
            padded_T = nn.functional.pad(ids, (0, self.architecture.context))
            inputs_WL, targets_WL = padded_T[places_WL], padded_T[places_WL + 1]
            missing = num_rows - len(chosen)
            inputs_WL = nn.functional.pad(inputs_WL, (0, 0, 0, missing))
            hidden_WLC = self.hidden(inputs_WL, None if seed is None else (seed,) * num_rows)
            # (window, place) of each scored token, in the order of the text.
            rows = torch.cat([torch.full((last - first,), row) for row, (_, first, last) in enumerate(chosen)])
            places = torch.cat([torch.arange(first, last) for _, first, last in chosen])
            parts.append(self.losses_of(hidden_WLC[rows, places], targets_WL[rows, places]))
        return torch.cat(parts)

    def hidden(
        self, inputs_WL: Tensor, seeds: tuple[int, ...] | None = None, losses_B: list[Tensor] | None = None
    ) -> Tensor:
        """Return the last layer's tokens (W, L, C) of windows of ids (W, L).

        Layers append their auxiliary training losses, (W,) each, to a list ``losses_B``.
        """
        length = inputs_WL.shape[1]
        embedded_WLC = self.embedding(inputs_WL) * self.architecture.dim**0.5
        first_WLC = self.dropout(embedded_WLC + self.positions[:length])
        state, x_WLC = ForwardState(seeds=seeds, losses_B=losses_B), first_WLC
        for block in self.blocks:
            x_WLC = block(x_WLC, first_WLC, state)
        hidden_WLC: Tensor = self.norm(x_WLC)
        return hidden_WLC

    def losses_of(self, hidden_NC: Tensor, targets_N: Tensor) -> Tensor:
        """Return the negative log-likelihoods (N,) of the next words' ids (N,), from the last layer's tokens (N, C)."""
        losses_N: Tensor = self.output(hidden_NC, targets_N, self.embedding.weight)
        return losses_N


def windows_at_once(architecture: Language, device: torch.device) -> int:
    """Return the number of windows in a pass: 32, and on a CPU fewer of a model whose activations fill its caches."""
    if device.type != "cpu":
        return MOST_WINDOWS
    width = max(architecture.feedforward, architecture.num_heads * architecture.context)
    bytes_each = architecture.context * width * torch.float32.itemsize
    num_windows = MOST_WINDOWS
    while num_windows > 1 and num_windows * bytes_each > MOST_BYTES_ON_CPU:
        num_windows //= 2
    return num_windows


def windows_of(num_inputs: int, num_scored: int, context: int, stride: int) -> Iterator[tuple[int, int, int]]:
    """Yield start, first and last + 1 scored place within the window, for inputs of which the last are scored.

    >>> [*windows_of(10, 10, 4, 2)]
    [(0, 0, 4), (2, 2, 4), (4, 2, 4), (6, 2, 4)]
    >>> [*windows_of(10, 3, 4, 1)]
    [(4, 3, 4), (5, 3, 4), (6, 3, 4)]
    """
    done = num_inputs - num_scored
    while done < num_inputs:
        stop = min(num_inputs, max(context, done + stride))
        start = max(0, stop - context)
        yield start, done - start, stop - start
        done = stop


def sinusoids(length: int, dim: int) -> Tensor:
    """Return sinusoidal positions (L, C): sines, then cosines, of frequencies 10000^(-2i/C)."""
    frequencies = 10_000.0 ** (-np.arange(0, dim, 2) / dim)
    angles = np.arange(length)[:, None] * frequencies
    return torch.tensor(np.concatenate([np.sin(angles), np.cos(angles)], axis=1)[:, :dim], dtype=torch.float32)


def _block(architecture: Language, layer: int) -> nn.Module:
    geometry = Geometry(
        dim=architecture.dim,
        num_heads=architecture.num_heads,
        num_tokens=architecture.context,
        depth=architecture.depth,
        layer=layer,
        is_causal=True,
    )
    return build_word_block(architecture, geometry)
