"""Language models of words, or of word pieces: causal transformers over windows of a text.

The form is the decoder of Vaswani et al. 2017, arXiv:1706.03762, with sinusoidal positions (section 3.5), each branch
after a LayerNorm as in DeiT and GPT-2 or before one, and the output tied to the embedding (Press & Wolf 2017,
arXiv:1608.05859), as a whole softmax or an adaptive one. The mechanisms are in their causal forms.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from robench.core.errors import ContractError
from robench.domains.code_points import CONTEXT_END, decoded
from robench.domains.sequences import padded
from robench.models.word_transformer import Language
from robench.models.word_transformer_impl import WordModel
from robench.tasks.language_modeling_impl import END_OF_LINE, NO_TOKEN, tokens_of

MOST_WINDOWS = 32
# Beyond it a layer's widest activation leaves the caches of a CPU, and its memory is mapped anew at every layer.
MOST_BYTES_ON_CPU = 8 * 2**20


class LanguageModel(WordModel):
    """Language model from texts (B, T) as code points to negative log-likelihoods (B, 1 + T); see the module."""

    architecture: Language
    # ``forward`` takes none; ``hidden`` does, for training.
    takes_losses = False
    takes_targets = True
    positions: Tensor

    def __init__(self, architecture: Language) -> None:
        super().__init__(architecture)
        if self.reads_pieces:
            self.takes_targets = False
        self.scores_pieces = self.reads_pieces
        self._add_blocks()
        self.output = AdaptiveSoftmax(architecture.vocabulary_size, architecture.dim, architecture.cutoffs)
        positions = sinusoids(architecture.context, architecture.dim)
        if architecture.positions == "backward":
            positions = positions.flip(0)
        self.register_buffer("positions", positions, persistent=False)
        self._init_weights()

    def forward(  # type: ignore[override]  # as above
        self, points: Tensor, seeds: Sequence[int] | None = None, targets: Tensor | None = None
    ) -> Tensor:
        """Return the negative log-likelihoods (B, 1 + T) of texts (B, T), ``NO_TOKEN`` after the last one.

        No text has more tokens than signs, but for an end of the last line. ``seeds``, one per text, are for mechanisms
        that draw random numbers. With ``targets``, texts (B, T') of as many words a line, the likelihoods are those of
        their words, each after the words before it in ``points``.

        Raises:
            ContractError: a text of ``targets`` has another number of tokens.
        """
        rows = []
        wanted = None if targets is None else decoded(targets)
        for row, text in enumerate(decoded(points)):
            seed = None if seeds is None else seeds[row]
            ids, num_scored = self.tokens(text)
            target_ids, num_wanted = (ids, num_scored) if wanted is None else self.tokens(wanted[row])
            if (len(target_ids), num_wanted) != (len(ids), num_scored):
                raise ContractError(
                    f"text {row} has {len(ids) - 1} tokens, {num_scored} of them scored, and its targets "
                    f"{len(target_ids) - 1} and {num_wanted}; give as many words a line"
                )
            losses = self.losses(ids, num_scored, seed, target_ids)
            rows.append(self.word_losses(losses, text) if self.reads_pieces else losses)
        return padded(rows, NO_TOKEN, 1 + points.shape[1])

    def tokens(self, text: str) -> tuple[Tensor, int]:
        """Return the ids of a text's tokens after an end of line, (1 + tokens,), and how many of them are scored."""
        context, _, scored = text.rpartition(CONTEXT_END)
        parts = [self.ids_of(part) for part in (context, scored)]
        ids = [*self.ids_of_word(END_OF_LINE), *parts[0], *parts[1]]
        return torch.tensor(ids, device=self.embedding.weight.device), len(parts[1])

    def losses(self, ids: Tensor, num_scored: int, seed: int | None, target_ids: Tensor | None = None) -> Tensor:
        """Return the negative log-likelihoods (num_scored,) of the last tokens, those of ``target_ids`` if given."""
        windows = [*windows_of(len(ids) - 1, num_scored, self.architecture.context, self.architecture.stride)]
        # Every pass has this many rows, so that a text's outputs do not depend on its length or on other texts.
        num_rows = windows_at_once(self.architecture, ids.device)
        given = ids, ids if target_ids is None else target_ids
        inputs_T, targets_T = (nn.functional.pad(each, (0, self.architecture.context)) for each in given)
        parts = []
        for at in range(0, len(windows), num_rows):
            chosen = windows[at : at + num_rows]
            starts = torch.tensor([start for start, _, _ in chosen], device=ids.device)
            places_WL = starts[:, None] + torch.arange(self.architecture.context, device=ids.device)
            inputs_WL, targets_WL = inputs_T[places_WL], targets_T[places_WL + 1]
            missing = num_rows - len(chosen)
            inputs_WL = nn.functional.pad(inputs_WL, (0, 0, 0, missing))
            hidden_WLC = self.hidden(inputs_WL, None if seed is None else (seed,) * num_rows)
            # (window, place) of each scored token, in the order of the text.
            rows = torch.cat([torch.full((last - first,), row) for row, (_, first, last) in enumerate(chosen)])
            places = torch.cat([torch.arange(first, last) for _, first, last in chosen])
            parts.append(self.losses_of(hidden_WLC[rows, places], targets_WL[rows, places]))
        return torch.cat(parts)

    def word_losses(self, losses: Tensor, text: str) -> Tensor:
        """Return the losses of a text's words and line ends, from those of its scored pieces."""
        words = tokens_of(text.rpartition(CONTEXT_END)[2])
        counts = torch.tensor([len(self.ids_of_word(word)) for word in words], device=losses.device)
        places = torch.arange(len(words), device=losses.device).repeat_interleave(counts)
        return losses.new_zeros(len(words)).index_add(0, places, losses)

    def outputs_of_ids(self, ids_WL: Tensor, seeds: tuple[int, ...] | None = None) -> Tensor:
        """Return the negative log-likelihoods (W, L) of the same words: the pass whose cost is counted and timed."""
        hidden_NC = self.hidden(ids_WL, seeds).flatten(0, 1)
        return self.losses_of(hidden_NC, ids_WL.flatten()).reshape(ids_WL.shape)

    def hidden(
        self, inputs_WL: Tensor, seeds: tuple[int, ...] | None = None, losses_B: list[Tensor] | None = None
    ) -> Tensor:
        """Return the last layer's tokens (W, L, C) of windows of ids (W, L).

        Layers append their auxiliary training losses, (W,) each, to a list ``losses_B``.
        """
        return self.read_out(self.through_blocks(inputs_WL, seeds, losses_B))

    def first_tokens(self, inputs: Tensor) -> Tensor:
        """Return the tokens (W, L, C) of windows of ids (W, L)."""
        embedded_WLC = self.embedding(inputs) * self.architecture.dim**0.5
        first_WLC: Tensor = self.dropout(embedded_WLC + self.positions[: inputs.shape[1]])
        return first_WLC

    def read_out(self, x_BNC: Tensor) -> Tensor:
        """Return the last layer's tokens, (W, L, C)."""
        hidden_WLC: Tensor = self.norm(x_BNC)
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
    """Yield start, first and last + 1 scored place within the window, for inputs whose last are scored.

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


class AdaptiveSoftmax(nn.Module):
    """Adaptive softmax: likelihoods of words in clusters by frequency, so that rare words cost little.

    Source: Grave et al. 2017, arXiv:1609.04309, as Transformer-XL has it (Dai et al. 2019, arXiv:1901.02860) with
    ``div_val`` 1 and the output tied to the embedding. The head has the words below the first cutoff and one entry a
    cluster; a word of cluster i has the probability of the cluster's entry times its own among the cluster's words.
    Cluster i is entry cutoffs[0] + i of the head, as in torch; Transformer-XL's code reads them from the end.

    Only the target's likelihood is computed: the logits of a cluster are those of tokens whose target it has. Without
    cutoffs it is the softmax over all words.
    """

    def __init__(self, vocabulary_size: int, dim: int, cutoffs: Sequence[int] = ()) -> None:
        super().__init__()
        self.ends = (*cutoffs, vocabulary_size)
        self.bias = nn.Parameter(torch.zeros(vocabulary_size))
        self.cluster_weight = nn.Parameter(torch.zeros(len(cutoffs), dim)) if cutoffs else None
        self.cluster_bias = nn.Parameter(torch.zeros(len(cutoffs))) if cutoffs else None

    def forward(self, hidden_NC: Tensor, targets_N: Tensor, embedding_VC: Tensor) -> Tensor:
        """Return the negative log-likelihoods (N,) of the targets (N,), int64 in [0, V)."""
        short = self.ends[0]
        weight, bias = embedding_VC[:short], self.bias[:short]
        if self.cluster_weight is None or self.cluster_bias is None:
            return cross_entropy(linear(hidden_NC, weight, bias), targets_N, reduction="none")
        weight, bias = torch.cat([weight, self.cluster_weight]), torch.cat([bias, self.cluster_bias])
        cluster_N = torch.bucketize(targets_N, torch.tensor(self.ends[:-1], device=targets_N.device), right=True)
        of_head_N = torch.where(cluster_N == 0, targets_N, short - 1 + cluster_N)
        losses_N = cross_entropy(linear(hidden_NC, weight, bias), of_head_N, reduction="none")
        for cluster, (start, stop) in enumerate(pairwise(self.ends), start=1):
            (places,) = (cluster_N == cluster).nonzero(as_tuple=True)
            if len(places):
                logits = linear(hidden_NC[places], embedding_VC[start:stop], self.bias[start:stop])
                own = cross_entropy(logits, targets_N[places] - start, reduction="none")
                losses_N = losses_N.index_add(0, places, own)
        return losses_N
