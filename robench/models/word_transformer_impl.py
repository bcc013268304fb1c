"""Transformers over words: their base class with the vocabulary, mixtures of experts, and classifiers of texts.

The vocabulary is a buffer of the model: a 64-bit hash of each word, the end of a line first; words that it has not are
the unknown word, ``<unk>``. So a file of weights is complete, and its size known before it is read. That two of 268,000
words have the same hash has a probability of 2e-9. A vocabulary of word pieces is kept in the same way.

Classifiers have a class token, as in Devlin et al. 2019, arXiv:1810.04805, learned positions, each branch after a
LayerNorm as in DeiT and GPT-2 or before one, and a linear layer on the class token: the first token, or the last one of
a causal classifier. Every text has the same number of tokens: its first words, and ends of lines after the last one. So
a text's logits depend on no other text, and mechanisms whose parameters belong to places need no masks.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial

import torch
from torch import Tensor, nn

from robench.attention.state import ForwardState
from robench.domains.code_points import CONTEXT_END, UNKNOWN, decoded
from robench.models.transformer_impl import TransformerModel, encoder_block, initialise_linear, mlp_of
from robench.models.word_pieces import UNKNOWN_PIECE, pieces_of
from robench.models.word_transformer import Experts, TextClassifier, WordTransformer
from robench.tasks.language_modeling_impl import tokens_of

# Of word pieces, that of padding.
END_ID = 0


class WordModel(TransformerModel):
    """Transformer over words with a vocabulary; see the module."""

    architecture: WordTransformer
    vocabulary: Tensor

    def __init__(self, architecture: WordTransformer) -> None:
        super().__init__()
        self.architecture = architecture
        self.register_buffer("vocabulary", torch.zeros(architecture.vocabulary_size, dtype=torch.int64))
        self._ids: Mapping[int, int] = {}
        self._pieces: dict[str, list[int]] = {}
        self.embedding = nn.Embedding(architecture.vocabulary_size, architecture.dim)
        self.dropout = nn.Dropout(architecture.dropout)

    def _add_blocks(self) -> None:
        """Add the blocks and the norm after the last one, which a block with post-norm ends with."""
        architecture = self.architecture
        self.blocks = nn.ModuleList(_block(architecture, layer) for layer in range(architecture.depth))
        self.norm = nn.LayerNorm(architecture.dim) if architecture.norm == "pre" else nn.Identity()

    @property
    def reads_pieces(self) -> bool:
        """Return whether tokens are pieces of words."""
        return self.architecture.vocabulary == "word-pieces"

    @property
    def ids(self) -> Mapping[int, int]:
        """Id of each word by its hash."""
        if not self._ids:
            self._ids = {each: place for place, each in enumerate(self.vocabulary.tolist()) if each}
        return self._ids

    def ids_of(self, text: str) -> list[int]:
        """Return the ids of a text's tokens: its words or their pieces, and an end after each line."""
        return self._ids_of_words(tokens_of(text))

    def ids_of_word(self, word: str) -> list[int]:
        """Return the id of a word or of the end of a line, or the ids of its pieces."""
        if not self.reads_pieces:
            return [self.ids.get(word_hash(word), self.unknown_id)]
        if word not in self._pieces:
            pieces = pieces_of(word, lambda piece: word_hash(piece) in self.ids)
            self._pieces[word] = [self.ids.get(word_hash(piece), self.unknown_id) for piece in pieces]
        return self._pieces[word]

    @property
    def text_reading(self) -> Callable[[Tensor], dict[str, Tensor]] | None:
        """Return the function behind ``LoadedModel.reading``; None for models of words, whose vocabulary is closed."""
        return self._reading if self.reads_pieces else None

    def _reading(self, points: Tensor) -> dict[str, Tensor]:
        texts = [tokens_of(text.rpartition(CONTEXT_END)[2]) for text in decoded(points)]
        pieces = [[self.ids_of_word(word) for word in text] for text in texts]
        lost = [
            sum(word != UNKNOWN and self.unknown_id in ids for word, ids in zip(text, found, strict=True))
            for text, found in zip(texts, pieces, strict=True)
        ]
        counts = {"num_pieces": [sum(map(len, found)) for found in pieces], "num_lost": lost}
        return {name: torch.tensor(each) for name, each in counts.items()}

    @property
    def unknown_id(self) -> int:
        """Return the id of the unknown word."""
        return self.ids.get(word_hash(UNKNOWN_PIECE if self.reads_pieces else UNKNOWN), END_ID)

    def embedded(self, words: Sequence[str]) -> Tensor:
        """Return the embeddings (n, C) of n words; of one that is not in the vocabulary that of the unknown word."""
        weight = self.embedding.weight
        return weight[torch.tensor(self._ids_of_words(words), device=weight.device)]

    def _ids_of_words(self, words: Sequence[str]) -> list[int]:
        if self.reads_pieces:
            return [each for word in words for each in self.ids_of_word(word)]
        unknown = self.unknown_id
        return [self.ids.get(word_hash(word), unknown) for word in words]

    def set_vocabulary(self, words: Sequence[str]) -> None:
        """Take the words of the vocabulary, the end of a line first and ``<unk>`` among them; they may be fewer.

        Of word pieces they are the lines of a file of BERT's (``word_pieces.read_pieces``).
        """
        self.vocabulary.zero_()
        self.vocabulary[: len(words)] = torch.tensor([word_hash(word) for word in words])
        self._ids, self._pieces = {}, {}

    def _init_weights(self) -> None:
        initialise_linear(self)
        nn.init.normal_(self.embedding.weight, std=self.embedding.embedding_dim**-0.5)


@lru_cache(maxsize=1 << 20)
def word_hash(word: str) -> int:
    """Return the first 64 bits of a word's SHA-256 as a signed number; of the unknown word too, and never 0."""
    digest = hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "little", signed=True) or 1


def _block(architecture: WordTransformer, layer: int) -> nn.Module:
    experts = architecture.experts
    make_mlp = partial(_mlp, architecture)
    return encoder_block(
        architecture,
        layer,
        make_mlp if experts is None else partial(experts.implemented(), experts, architecture.dim, make_mlp),
        dropout=architecture.dropout,
        norm=architecture.norm,
        mlp_takes_state=experts is not None,
    )


def _mlp(architecture: WordTransformer) -> nn.Module:
    activation = nn.GELU() if architecture.activation == "gelu" else nn.ReLU()
    return mlp_of(architecture.dim, architecture.feedforward, activation)


class ExpertMlp(nn.Module):
    """Sparse mixture over tokens (B, N, C) -> (B, N, C); each token goes to K of E experts.

    Sources: Shazeer et al. 2017, arXiv:1701.06538, section 2, without noise in the gate, and Fedus et al. 2021,
    arXiv:2101.03961, section 2. With gate logits h(x) = W x, T(x) are the indices of the largest ones,

        y = sum_{i in T(x)} w_i(x) E_i(x),  w(x) = softmax(h_T(x))  (``chosen``),  w_i(x) = softmax(h(x))_i  (``all``)

    Of equal logits the expert with the lower index comes first. There is no capacity: every token reaches its experts,
    so that no text's outputs depend on another's. Authors' implementations drop tokens of a full expert, by their order
    in the batch.

    The load-balancing loss is that of Fedus et al., equations 4 to 6, over the tokens of one example:

        L = E sum_i f_i P_i,  f_i: proportion of the tokens' choices that are expert i,  P_i: mean of softmax(h(x))_i

    With ``num_chosen`` 1 this is their f_i; it is 1 if choices and probabilities are even. They take it over a batch;
    here each example has its own, so that no example's loss depends on its neighbours.
    """

    def __init__(self, declaration: Experts, dim: int, make_expert: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.num_chosen = declaration.num_chosen
        self.weights = declaration.weights
        self.gate = nn.Linear(dim, declaration.num_experts, bias=False)
        self.experts = nn.ModuleList(make_expert() for _ in range(declaration.num_experts))

    def forward(self, x_BNC: Tensor, state: ForwardState | None = None) -> Tensor:
        """Return (B, N, C); the load-balancing loss is added to the losses of the state if requested there."""
        logits_BNE = self.gate(x_BNC)
        best_BNE, order_BNE = logits_BNE.sort(dim=-1, descending=True, stable=True)
        chosen_BNK = order_BNE[..., : self.num_chosen]
        if state is not None and state.losses_B is not None:
            state.losses_B.append(balance_loss(logits_BNE, chosen_BNK))
        if self.weights == "chosen":
            weights_BNK = best_BNE[..., : self.num_chosen].softmax(dim=-1)
        else:
            weights_BNK = logits_BNE.softmax(dim=-1).gather(-1, chosen_BNK)
        rows = (x_BNC, chosen_BNK, weights_BNK)
        if self.training:
            B, N, C = x_BNC.shape
            mixed_TC = self._mixed(*(part.reshape(B * N, -1) for part in rows))
            return mixed_TC.reshape(B, N, C)
        # Example by example: sizes of matrices, and so the rounding of sums, do not depend on other examples.
        return torch.stack([self._mixed(*row) for row in zip(*rows, strict=True)])

    def _mixed(self, x_TC: Tensor, chosen_TK: Tensor, weights_TK: Tensor) -> Tensor:
        """Return the weighted outputs (T, C) of the experts of each token; each computes its tokens alone."""
        num_experts, num_chosen = len(self.experts), self.num_chosen
        by_expert = chosen_TK.flatten().argsort(stable=True)
        counts = torch.bincount(chosen_TK.flatten(), minlength=num_experts).tolist()
        parts = x_TC[by_expert // num_chosen].split(counts)
        outputs = torch.cat([expert(part) for expert, part in zip(self.experts, parts, strict=True)])
        outputs_TKC = outputs[by_expert.argsort()].reshape(len(x_TC), num_chosen, -1)
        mixed_TC: Tensor = (weights_TK[..., None] * outputs_TKC).sum(dim=1)
        return mixed_TC


def balance_loss(logits_BNE: Tensor, chosen_BNK: Tensor) -> Tensor:
    """Return the load-balancing loss (B,) of examples with these gate logits and chosen experts; see ``ExpertMlp``."""
    num_experts = logits_BNE.shape[-1]
    is_chosen_BNKE = nn.functional.one_hot(chosen_BNK, num_experts)
    loads_BE = is_chosen_BNKE.to(logits_BNE.dtype).mean(dim=(1, 2))
    return num_experts * (loads_BE * logits_BNE.softmax(dim=-1).mean(dim=1)).sum(dim=-1)


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

    def outputs_of_ids(self, ids_BL: Tensor, seeds: tuple[int, ...] | None = None) -> Tensor:
        """Return logits (B, num_classes) of ids (B, context): the pass whose cost is counted and timed."""
        return self.logits_of(ids_BL, seeds)

    def first_tokens(self, inputs: Tensor) -> Tensor:
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
