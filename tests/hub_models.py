"""Tiny models of transformers with random weights, and a byte-level tokenizer, saved as their library saves them."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    ViTConfig,
    ViTForImageClassification,
)

VOCABULARY_SIZE = 400
CONTEXT = 24
TEXTS = (
    "We the People of the United States,\nin Order to form a more perfect Union\n",
    "Sí: naïve café.\n\n  Two  blanks, and\ttabs \nlast line without an end",
    "One",
    "It would be difficult to calculate the value of the improvements which have been made in the last year alone.\n"
    * 3,
)


def tokenizer() -> Any:
    """Return a byte-level tokenizer that was trained on ``TEXTS``."""
    byte_level = Tokenizer(models.BPE())
    byte_level.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    byte_level.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE, special_tokens=["<|end|>"], initial_alphabet=alphabet, show_progress=False
    )
    byte_level.train_from_iterator(TEXTS, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=byte_level, bos_token="<|end|>", eos_token="<|end|>", pad_token="<|end|>"
    )


def tokenizer_of(signs: str, *, unknown: str | None = None, lowers: bool = False) -> Any:
    """Return a tokenizer whose pieces are single signs; others are ``unknown``, or left out without one."""
    known = {sign: place for place, sign in enumerate(["<|end|>", *filter(None, [unknown]), *sorted({*signs})])}
    single = Tokenizer(models.BPE(known, [], unk_token=unknown))
    single.decoder = decoders.Fuse()
    if lowers:
        single.normalizer = normalizers.Lowercase()
    ends = dict.fromkeys(("bos_token", "eos_token", "pad_token"), "<|end|>")
    return PreTrainedTokenizerFast(tokenizer_object=single, unk_token=unknown, **ends)


def gpt2() -> Any:
    """Return a causal model with learned positions."""
    sizes = {"n_positions": CONTEXT, "n_embd": 32, "n_layer": 2, "n_head": 4}
    return _seeded(GPT2LMHeadModel, GPT2Config(vocab_size=VOCABULARY_SIZE, bos_token_id=0, eos_token_id=0, **sizes))


def llama() -> Any:
    """Return a causal model with rotary positions, and two heads of queries for each of keys."""
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlamaConfig(
        vocab_size=VOCABULARY_SIZE, max_position_embeddings=CONTEXT, num_key_value_heads=2, bos_token_id=0, **sizes
    )
    return _seeded(LlamaForCausalLM, config)


def bert(num_labels: int = 3) -> Any:
    """Return a classifier of texts."""
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = BertConfig(vocab_size=VOCABULARY_SIZE, max_position_embeddings=128, num_labels=num_labels, **sizes)
    return _seeded(BertForSequenceClassification, config)


def vit() -> Any:
    """Return a classifier of images (3, 8, 8)."""
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    return _seeded(ViTForImageClassification, ViTConfig(image_size=8, patch_size=4, num_labels=10, **sizes))


def save(folder: Path, model: Any) -> Path:
    """Save a model, with the tokenizer unless it is of images, and return its folder."""
    model.save_pretrained(folder)
    if not isinstance(model, ViTForImageClassification):
        tokenizer().save_pretrained(folder)
    return folder


def _seeded(kind: Any, config: Any) -> Any:
    torch.manual_seed(0)
    # Wider than usual, so that outputs differ by more than rounding.
    config.initializer_range = 0.3
    return kind(config).eval()
