"""Models of the library transformers: language models measured by words, classifiers of texts and of images.

Language models read the pieces of their tokenizer. The loss of a piece belongs to the word of its first character that
is not white space; pieces of line feeds belong to the end of their line, and other white space to what follows it. So
the losses of a text's words and line ends add up to the negative log-likelihood of its pieces.

Texts longer than the context are read in windows: each piece is predicted once, from at least one piece before it,
the first one from the beginning-of-sequence token. With ``stride`` equal to ``context`` this is
``loglikelihood_rolling`` of lm-evaluation-harness 0.4 (Gao et al. 2024, doi:10.5281/zenodo.12608602).

Each text has passes of its own without padding, so that no output depends on other texts or on the side of padding.

An exchanged attention is the ``mix`` of its mechanism over the queries, keys and values of the model's own projections.
"""

import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from robench.attention.base import AttentionBase
from robench.attention.build import build_attention
from robench.attention.geometry import Geometry
from robench.attention.projected import ProjectedAttention
from robench.attention.state import ForwardState
from robench.core.errors import ContractError, DeclarationError, UsageError, WeightsError, described
from robench.core.providers import install_command
from robench.domains.code_points import CONTEXT_END, decoded, lines_of
from robench.domains.sequences import padded
from robench.domains.texts import TEXTS
from robench.models.hub import CAUSAL, Transformers
from robench.models.language_impl import windows_of
from robench.models.lost_words import LostWords
from robench.tasks import TASKS
from robench.tasks.language_modeling_impl import NO_TOKEN

_CLASSES = {
    CAUSAL: "AutoModelForCausalLM",
    "text-classification": "AutoModelForSequenceClassification",
    "image-classification": "AutoModelForImageClassification",
}
_EXCHANGED = "robench"
# Fields that a program may state beside a model and its tokenizer.
_IN_MEMORY = {"context", "stride", "truncates"}
# Logits of a pass of a language model.
_MOST_LOGITS = 1 << 26
# Any of them holds the pieces of a tokenizer.
_TOKENIZERS = ("tokenizer.json", "vocab.json", "vocab.txt", "*.model")
_WORD_OR_LINE_END = re.compile(r"\S+|\n")


def build_of_folder(architecture: Transformers, folder: Path, random_weights: bool = False) -> nn.Module:
    """Return the model of a folder, with its weights or with initial ones from torch's generator.

    Raises:
        WeightsError: transformers is not installed, the folder lacks a file, or files do not fit each other.
        DeclarationError: the attention cannot be exchanged for the declared mechanism.
    """
    library = _library()
    if architecture.task != "image-classification" and not any(any(folder.glob(each)) for each in _TOKENIZERS):
        raise WeightsError(
            f"the model in {folder} has no tokenizer: expected tokenizer.json beside it, as"
            " tokenizer.save_pretrained(folder) of the model's own tokenizer writes it"
        )
    options = {"local_files_only": True, "trust_remote_code": False}
    kernel = architecture.kernel if architecture.attention is None else _EXCHANGED
    settings = {"dtype": torch.float32, "attn_implementation": kernel}
    missing: list[str] = []
    try:
        with _quiet():
            if architecture.attention is not None:
                library.AttentionInterface.register(_EXCHANGED, _attend)
            family = getattr(library, _CLASSES[architecture.task])
            if random_weights:
                config = library.AutoConfig.from_pretrained(folder, **options)
                model = family.from_config(config, trust_remote_code=False, **settings)
            else:
                model, loading = family.from_pretrained(
                    folder, use_safetensors=True, output_loading_info=True, **settings, **options
                )
                missing = sorted(loading["missing_keys"] | {each[0] for each in loading["mismatched_keys"]})
            tokenizer = None
            if architecture.task != "image-classification":
                tokenizer = library.AutoTokenizer.from_pretrained(folder, **options)
    # Broad because the library raises errors of any class on files that it cannot use.
    except Exception as error:
        raise WeightsError(
            f"transformers cannot load {folder} as {architecture.task} ({described(error)[:300]}): expected the files"
            " of save_pretrained of such a model, with its tokenizer"
        ) from error
    if missing:
        raise WeightsError(
            f"the weights in {folder} lack {len(missing)} tensors of a {architecture.task} model, such as {missing[0]}:"
            " correct the architecture's task, or take the weights of such a model"
        )
    for tensor in (*model.parameters(), *model.buffers()):
        # Mapped from the file, they begin at any byte, and products of matrices round differently there.
        tensor.data = tensor.data.clone()
    return adapted(model, tokenizer, architecture)


def adapted(model: Any, tokenizer: Any, architecture: Transformers) -> nn.Module:
    """Return a module as robench's tasks need it; the attention of ``model`` is exchanged if the architecture says so.

    Any: a model and a tokenizer of transformers.
    """
    if architecture.attention is not None:
        exchange_attention(model, architecture.attention)
    if architecture.task == CAUSAL:
        return PiecesModel(model, tokenizer, architecture.context, architecture.stride)
    if architecture.task == "text-classification":
        return PiecesClassifier(model, tokenizer, architecture.context, truncates=architecture.truncates)
    classifier: nn.Module = model
    return classifier


def with_tokenizer(
    model: object, domain: str | None, task: str, parsed: Callable[[Mapping[str, object], str], Any]
) -> object:
    """Return a model of transformers with its tokenizer as a module; anything else as it is.

    ``(model, tokenizer)`` may have a third part, a mapping with ``context``, ``stride`` or ``truncates`` of
    ``Transformers``, which ``parsed`` makes of a mapping and its name in messages. ``domain`` and ``task`` are those of
    what it is measured on.

    Raises:
        UsageError: the suite is not of texts, or the third part is something else.
        DeclarationError: a field has an invalid value.
    """
    if not isinstance(model, tuple) or len(model) not in {2, 3} or "transformers" not in sys.modules:
        return model
    library: Any = sys.modules["transformers"]
    if not isinstance(model[0], library.PreTrainedModel) or not isinstance(model[1], library.PreTrainedTokenizerBase):
        return model
    if domain != TEXTS.name:
        raise UsageError(f"a model with a tokenizer reads texts, and the suite is of {domain}: leave the tokenizer out")
    module, tokenizer, *others = model
    settings = others[0] if others else {}
    if not isinstance(settings, Mapping) or settings.keys() - _IN_MEMORY:
        found = sorted(map(str, settings)) if isinstance(settings, Mapping) else type(settings).__name__
        raise UsageError(
            f"the third part of (model, tokenizer, settings) must be a mapping with {', '.join(sorted(_IN_MEMORY))},"
            f" got {found}: leave it out, or declare the model in a registry file"
        )
    of_task = CAUSAL if TASKS[task].targets_are_inputs else "text-classification"
    stated = {"kind": Transformers.kind, "task": of_task, **settings}
    return adapted(module, tokenizer, parsed(stated, "settings of (model, tokenizer, settings)"))


class _Pieces(nn.Module):
    """Base of models that read pieces of words: the model, its tokenizer and the number of pieces at once."""

    scores_pieces = False

    def __init__(self, model: Any, tokenizer: Any, context: int | None) -> None:
        super().__init__()
        self.model = model
        self.tokenizer = tokenizer
        name = type(tokenizer).__name__
        if not getattr(tokenizer, "is_fast", False):
            raise WeightsError(f"tokenizer {name} gives no places of its pieces: expected one with tokenizer.json")
        if len(tokenizer) <= len(set(tokenizer.all_special_ids)):
            raise WeightsError(f"tokenizer {name} has no pieces but its special ones: take the tokenizer of the model")
        num_embedded = model.get_input_embeddings().num_embeddings
        if len(tokenizer) > num_embedded:
            found = f"has {len(tokenizer):,} pieces, and the model embeds {num_embedded:,}"
            raise WeightsError(f"tokenizer {name} {found}: take the tokenizer of the model")
        self._words = LostWords(tokenizer, is_exact=self.scores_pieces)
        config = model.config
        stated = [getattr(config, each, None) for each in ("max_position_embeddings", "n_positions", "seq_length")]
        self.most = next((each for each in stated if isinstance(each, int)), None)
        self.context = context or self.most or 1024
        if self.most is not None and self.context > self.most:
            raise DeclarationError(f"context must be at most the model's {self.most} positions, got {self.context}")

    def text_reading(self, points: Tensor) -> dict[str, Tensor]:
        """Return counts (B,) of texts (B, T); see ``LoadedModel.reading``."""
        rows = [self._reading(text) for text in decoded(points)]
        return {name: torch.tensor([row[name] for row in rows]) for name in rows[0]}

    def _reading(self, text: str) -> dict[str, int]:
        context, _, scored = text.rpartition(CONTEXT_END) if self.scores_pieces else ("", "", text)
        ids, spans = self._encoded(context + scored)
        lost = self._words.num_lost(context + scored, ids, spans, len(context))
        num_cut = 0 if self.scores_pieces else max(len(ids) - self.context, 0)
        return {"num_pieces": sum(stop > start for start, stop in spans), "num_lost": lost, "num_cut": num_cut}

    def _encoded(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        options = {"add_special_tokens": not self.scores_pieces, "return_offsets_mapping": True, "verbose": False}
        found = self.tokenizer(text, **options)
        return found["input_ids"], found["offset_mapping"]


class PiecesModel(_Pieces):
    """Language model from texts, code points (B, T), to losses of words and line ends (B, 1 + T); see the module."""

    scores_pieces = True

    def __init__(self, model: Any, tokenizer: Any, context: int | None = None, stride: int | None = None) -> None:
        super().__init__(model, tokenizer, context)
        self.stride = stride or self.context
        first = [tokenizer.bos_token_id, tokenizer.eos_token_id, getattr(model.config, "bos_token_id", None)]
        known = [each for each in first if isinstance(each, int)]
        if not known:
            name = type(tokenizer).__name__
            raise WeightsError(f"tokenizer {name} has neither a bos_token nor an eos_token, which precedes every text")
        self.first = known[0]

    def forward(self, points: Tensor) -> Tensor:
        """Return the negative log-likelihoods (B, 1 + T) of texts (B, T), ``NO_TOKEN`` after the last one."""
        rows = [self.losses(text) for text in decoded(points)]
        return padded(rows, NO_TOKEN, 1 + points.shape[1])

    def losses(self, text: str) -> Tensor:
        """Return the negative log-likelihoods of the words and line ends of a text after its context."""
        context, _, scored = text.rpartition(CONTEXT_END)
        ids, spans = self._encoded(context + scored)
        place = len(context)
        num_scored = sum(stop > place for _, stop in spans)
        of_scored = [(start - place, stop - place) for start, stop in spans[len(spans) - num_scored :]]
        places, num_tokens = tokens_of_pieces(scored, of_scored)
        losses = torch.zeros(num_tokens, device=self.model.device)
        if not num_scored:
            return losses
        pieces = self.piece_losses(torch.tensor([self.first, *ids], device=self.model.device), num_scored)
        return losses.index_add(0, torch.tensor(places, device=losses.device), pieces)

    def piece_losses(self, ids: Tensor, num_scored: int) -> Tensor:
        """Return the negative log-likelihoods (num_scored,) of the last pieces of ids (1 + pieces,)."""
        windows = [*windows_of(len(ids) - 1, num_scored, self.context, self.stride)]
        length = min(len(ids) - 1, self.context)
        at_once = max(1, _MOST_LOGITS // (length * self.model.config.get_text_config().vocab_size))
        parts = []
        for at in range(0, len(windows), at_once):
            chosen = windows[at : at + at_once]
            inputs_WL = torch.stack([ids[start : start + length] for start, _, _ in chosen])
            logits_WLV = self.model(input_ids=inputs_WL, use_cache=False).logits
            for row, (start, first, last) in enumerate(chosen):
                targets = ids[start + 1 + first : start + 1 + last]
                parts.append(
                    nn.functional.cross_entropy(logits_WLV[row, first:last].float(), targets, reduction="none")
                )
        return torch.cat(parts)


class PiecesClassifier(_Pieces):
    """Classifier from texts, code points (B, T), to logits (B, classes), each text in a pass of its own.

    Of longer texts it reads ``context`` tokens, cut as the tokenizer does. ``truncates`` says that this is meant.
    """

    def __init__(self, model: Any, tokenizer: Any, context: int | None = None, *, truncates: bool = False) -> None:
        super().__init__(model, tokenizer, context)
        if context is None:
            # Where positions are shifted, as in RoBERTa, a model reads fewer tokens than it has positions.
            self.context = min(self.context, tokenizer.model_max_length)
        self.truncates = truncates

    def forward(self, points: Tensor) -> Tensor:
        """Return logits (B, classes)."""
        return torch.cat([self._logits(text) for text in decoded(points)])

    def _logits(self, text: str) -> Tensor:
        options = {"truncation": True, "max_length": self.context, "verbose": False}
        found = self.tokenizer(text, return_tensors="pt", **options).to(self.model.device)
        logits: Tensor = self.model(**found).logits
        return logits


def tokens_of_pieces(text: str, spans: Sequence[tuple[int, int]]) -> tuple[list[int], int]:
    r"""Return the place among a text's words and line ends of each piece, and the number of words and line ends.

    ``spans`` are the first character of each piece and the one after its last.

    >>> tokens_of_pieces("We the\nPeople\n", [(0, 2), (2, 6), (6, 7), (7, 10), (10, 13), (13, 14)])
    ([0, 1, 2, 3, 3, 4], 5)
    """
    num_tokens = sum(len(line) + 1 for line in lines_of(text))
    at = [max(num_tokens - 1, 0)] * (len(text) + 1)
    place = begin = 0
    for found in _WORD_OR_LINE_END.finditer(text):
        # White space belongs to what follows it.
        at[begin : found.end()] = [min(place, max(num_tokens - 1, 0))] * (found.end() - begin)
        place, begin = place + 1, found.end()
    return [at[_character(text, max(start, 0), stop)] for start, stop in spans], num_tokens


def _character(text: str, start: int, stop: int) -> int:
    """Return the place of the character that a piece belongs to."""
    piece = text[start:stop]
    if stripped := piece.strip():
        return start + piece.index(stripped[0])
    return start + max(piece.find("\n"), 0)


def exchange_attention(model: Any, declared: AttentionBase) -> None:
    """Let a model of transformers compute its attention by a mechanism, from its own projections.

    Raises:
        DeclarationError: the mechanism needs parameters, tokens or masks that the model does not have.
    """
    layers = [each for each in model.modules() if _is_attention(each)]
    config = model.config.get_text_config()
    title = f"the attention of {type(model).__name__} cannot be exchanged for {declared.kind}"
    if model.config._attn_implementation != _EXCHANGED:
        model.set_attn_implementation(_EXCHANGED)
    if not layers:
        raise DeclarationError(f"{title}: it has no layers that call an attention function of transformers")
    if getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True):
        raise DeclarationError(f"{title}: its attention is within a sliding window")
    num_tokens, state = getattr(config, "max_position_embeddings", None) or 1024, ForwardState()
    for number, layer in enumerate(layers):
        heads = config.num_attention_heads
        dim = heads * (getattr(layer, "head_dim", None) or config.hidden_size // heads)
        scaling = getattr(layer, "scaling", None)
        if scaling is not None and abs(float(scaling) - (heads / dim) ** 0.5) > 1e-9:
            raise DeclarationError(f"{title}: layer {number} scales scores by {scaling:g}, not by the heads' width")
        if declared.parameters_in(num_tokens=num_tokens, num_heads=heads, dim=dim):
            raise DeclarationError(f"{title}: it has parameters of its own, which the model's weights do not have")
        geometry = Geometry(
            dim=dim, num_heads=heads, num_tokens=num_tokens, depth=len(layers), layer=number,
            is_causal=bool(layer.is_causal),
        )  # fmt: skip
        mechanism = build_attention(declared, geometry)
        if not isinstance(mechanism, ProjectedAttention) or mechanism.num_projections > 3:
            raise DeclarationError(f"{title}: it is not a function of queries, keys and values alone")
        layer.robench_mix = (mechanism.mix, mechanism.num_projections)
        heads_BHND = torch.zeros(1, heads, 2, geometry.head_dim)
        try:
            mechanism.mix((heads_BHND,) * mechanism.num_projections, state)
        except ContractError as error:
            raise DeclarationError(f"{title}: {error}") from error
    model.register_forward_pre_hook(_begin)


def _is_attention(module: nn.Module) -> bool:
    return hasattr(module, "is_causal") and type(module).__name__.endswith("Attention")


def _begin(model: nn.Module, given: object) -> None:
    state: Any = ForwardState()
    for module in model.modules():
        if hasattr(module, "robench_mix"):
            module.robench_state = state


def _attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **unused: Any
) -> tuple[Tensor, None]:
    """Return a mechanism's output (B, N, H, D) for heads (B, H, N, D): an attention function of transformers.

    Passes have no padding, so that the mask says no more than whether the layer is causal.
    """
    mix, num_projections = module.robench_mix
    if key.shape[1] < query.shape[1]:
        groups = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    heads = (query, key, value)[-num_projections:]
    return mix(heads, module.robench_state).transpose(1, 2).contiguous(), None


def _library() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise WeightsError(
            f"models of kind transformers need the library, which is not installed: {install_command('transformers')}"
        ) from error
    return transformers


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the library's progress bars and warnings from the terminal."""
    own: Any = import_module("transformers.utils.logging")
    logger, bar = logging.getLogger("transformers"), own.is_progress_bar_enabled()
    level = logger.level
    logger.setLevel(logging.ERROR)
    own.disable_progress_bar()
    try:
        yield
    finally:
        logger.setLevel(level)
        if bar:
            own.enable_progress_bar()
