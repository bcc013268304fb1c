"""Models of word pieces: WordPiece as BERT's, losses by words, the NAACL tutorial's blocks, and training."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import BertWordPieceTokenizer
from training_examples import entry_of

from robench.core.checkpoint import Checkpoint, Weights
from robench.core.errors import DeclarationError, WeightsError
from robench.core.files import write_whole
from robench.datasets.texts import LabelledTexts, Texts
from robench.declarations.preprocessing import NoPreprocessing
from robench.declare import read_registry, shipped_registry
from robench.domains.code_points import encoded_batch
from robench.models.build import build
from robench.models.loaded import LoadedModel
from robench.models.word_pieces import pieces_of, read_pieces
from robench.models.word_transformer import Language, TextClassifier
from robench.tasks.language_modeling_impl import NO_TOKEN, tokens_of
from robench.training import texts_impl
from robench.training.texts import LanguageTraining, TextTraining
from robench.training.texts_impl import train

PIECES = [
    *("[PAD]", "[UNK]", "[SEP]", "[CLS]", "[MASK]", "the", "union", "un", "##ion", "##moved", "##mo", "##ved"),
    *("people", "'", "s", ".", ",", "$", "-", "##s", "\u4e2d", "caf", "##\u00e9", "Un", "state", "war", "peace"),
]
TRICKY = (
    "the union's people, unmoved.",
    "Unmoved the-state $ caf\u00e9 \u4e2dthe xyz " + "un" * 60,
    "u\u0000nmoved \ufffdwar \u200bpeace\u00a0state",
)
LANGUAGE = Language(
    vocabulary="word-pieces", vocabulary_size=len(PIECES), depth=2, dim=12, num_heads=2, feedforward=10, context=8,
    stride=4, norm="residual", activation="relu",
)  # fmt: skip
CLASSIFIER = TextClassifier(
    vocabulary="word-pieces", vocabulary_size=len(PIECES), num_classes=2, depth=2, dim=12, num_heads=2, feedforward=10,
    context=8, norm="residual", activation="relu", is_causal=True,
)  # fmt: skip


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    return tmp_path / "vocab.txt"


def model_of(architecture: Any) -> Any:
    torch.manual_seed(0)
    model: Any = build(architecture).eval()
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    model.set_vocabulary(PIECES)
    return model


@pytest.mark.parametrize("text", TRICKY)
def test_pieces_are_those_of_the_library_tokenizers(text: str, vocabulary: Path) -> None:
    library = BertWordPieceTokenizer(str(vocabulary), lowercase=False)
    wanted = library.encode(text, add_special_tokens=False).tokens
    assert [piece for word in text.split() for piece in pieces_of(word, PIECES.__contains__)] == wanted
    assert model_of(LANGUAGE).ids_of(text) == [PIECES.index(piece) for piece in [*wanted, "[SEP]"]]
    assert model_of(LANGUAGE).ids_of("<unk>\nwar") == [PIECES.index(one) for one in ("[UNK]", "[SEP]", "war", "[SEP]")]


def test_losses_of_words_are_sums_over_their_pieces() -> None:
    model, text = model_of(LANGUAGE), "the union's people\x1ethe unmoved union, people.\nwar\n"
    row = model(encoded_batch([text]))[0]
    ids, num_scored = model.tokens(text)
    assert ids.tolist()[:2] == [PIECES.index("[SEP]"), PIECES.index("the")]
    pieces = model.losses(ids, num_scored, None).tolist()
    counts = {"the": 1, "unmoved": 2, "union,": 2, "people.": 2, "\n": 1, "war": 1}
    words = tokens_of(text.partition("\x1e")[2])
    found = row[row != NO_TOKEN].tolist()
    assert len(found) == len(words) == 7
    for word, loss in zip(words, found, strict=True):
        assert loss == pytest.approx(sum(pieces[: counts[word]]), rel=1e-5)
        pieces = pieces[counts[word] :]
    assert pieces == []
    loaded = LoadedModel(model, NoPreprocessing(inputs="texts"))
    assert (loaded.scores_pieces, loaded.takes_targets) == (True, False)
    assert loaded.token_gradients(encoded_batch([text]), [0], torch.sum) is None


def test_words_with_an_unknown_piece_are_counted_as_lost() -> None:
    texts = ["the union\x1ewar xyz <unk>\nxyz's café\n", "peace\n"]
    assert model_of(LANGUAGE).text_reading(encoded_batch(texts))["num_lost"].tolist() == [2, 0]
    assert not LoadedModel(build(words(LANGUAGE)), NoPreprocessing(inputs="texts")).has_tokenizer


def test_blocks_are_those_of_the_tutorial() -> None:
    """Against torch's own attention: a norm before each connection, which adds the branch to the norm's output."""
    model = model_of(CLASSIFIER)
    ids = model.tokens(["the unmoved union"])
    hidden = model.first_tokens(ids)
    for block in model.blocks:
        hidden = block.norm1(hidden)
        attention = torch.nn.MultiheadAttention(12, 2, batch_first=True)
        names = {"in_proj_weight": "qkv.weight", "in_proj_bias": "qkv.bias"}
        names |= {f"out_proj.{each}": f"proj.{each}" for each in ("weight", "bias")}
        own = block.attn.state_dict()
        attention.load_state_dict({name: own.get(ours, torch.zeros(36)) for name, ours in names.items()})
        mask = torch.full((9, 9), -math.inf).triu(1)
        hidden = hidden + attention(hidden, hidden, hidden, attn_mask=mask, need_weights=False)[0]
        hidden = block.norm2(hidden)
        hidden = hidden + block.mlp(hidden)
    torch.testing.assert_close(model.logits_of(ids), model.head(hidden[:, -1]), rtol=1e-4, atol=1e-5)
    assert ids[0, 4:].tolist() == [PIECES.index("[SEP]"), *[PIECES.index("[PAD]")] * 3]


def test_language_model_and_classifier_learn(vocabulary: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    texts = [(f"a/{place}", "the union, the people. war peace unmoved\n" * 4) for place in range(4)]
    labelled = [(f"a/{place}", ("war unmoved", "peace union")[place % 2], place % 2) for place in range(24)]
    monkeypatch.setattr(texts_impl, "open_dataset", lambda name, **_: Texts(name, texts))
    given = Weights(uri=vocabulary.name, sha256=None)
    recipe = LanguageTraining(
        dataset="sotu", seed=0, num_epochs=6, batch_size=4, learning_rate=0.03, saved_as="float32", vocabulary=given
    )
    found: list[float] = []
    state = train(checkpoint(LANGUAGE, recipe, tmp_path), None, lambda report: found.append(report.loss_nats))
    assert found[-1] < 0.7 * found[0]
    trained = build(LANGUAGE)
    trained.load_state_dict(state)
    assert trained.ids_of("unmoved") == [PIECES.index(each) for each in ("un", "##moved", "[SEP]")]  # type: ignore[operator]  # of the module

    from safetensors.torch import save

    write_whole(tmp_path / "lm.safetensors", save(state))
    monkeypatch.setattr(texts_impl, "open_dataset", lambda name, **_: LabelledTexts(name, labelled))
    tuning = TextTraining(
        dataset="sotu", seed=0, num_epochs=6, batch_size=4, learning_rate=0.02, saved_as="float32",
        initial_weights=Weights(uri="lm.safetensors", sha256=None),
    )  # fmt: skip
    tuned = build(CLASSIFIER).eval()
    tuned.load_state_dict(train(checkpoint(CLASSIFIER, tuning, tmp_path)))
    assert tuned(encoded_batch(["war unmoved", "peace union"])).argmax(1).tolist() == [0, 1]
    for architecture, message in ((LANGUAGE, "has no training.vocabulary"), (words(LANGUAGE), "and reads words")):
        wrong = replace(recipe, vocabulary=None if architecture is LANGUAGE else given)
        with pytest.raises(DeclarationError, match=message):
            train(checkpoint(architecture, wrong, tmp_path))
    for settings, message in (({"min_count": 2}, "min_count must be left out"), ({}, "vocabulary must be left out")):
        with pytest.raises(ValueError, match=message):
            replace(recipe if settings else tuning, vocabulary=given, **settings)


@pytest.mark.parametrize("change", [lambda lines: lines[1:], lambda lines: lines[::-1], lambda lines: [*lines, "x"]])
def test_other_files_than_a_vocabulary_of_this_size_are_refused(vocabulary: Path, change: Any) -> None:
    assert read_pieces(vocabulary, len(PIECES)) == PIECES
    vocabulary.write_text("\n".join(change(PIECES)))
    with pytest.raises(WeightsError, match=r"the first of them .*: expected vocabulary_size 27, with \[PAD\]"):
        read_pieces(vocabulary, len(PIECES))
    with pytest.raises(WeightsError, match=r"cannot read the word pieces in .*absent"):
        read_pieces(vocabulary.with_name("absent"), 27)


def test_entries_of_the_tutorial_have_its_parameters_and_a_class_token() -> None:
    entries = read_registry(shipped_registry())
    layer = 4 * (410**2 + 410) + 2 * 410 * 2100 + 2100 + 410 + 4 * 410
    of_tutorial = (28_996 + 256) * 410 + 16 * layer
    with torch.device("meta"):
        for name, others in (("sst5-naacl", 5 * 411 + 410), ("sst5-rpc-naacl", 5 * 411 + 410)):
            model = build(entries[name].architecture)
            assert sum(parameter.numel() for parameter in model.parameters()) == of_tutorial + others


def words(architecture: Language) -> Language:
    return replace(architecture, vocabulary="words")


def checkpoint(architecture: Any, training: Any, folder: Path) -> Checkpoint:
    task = "language-modeling" if isinstance(architecture, Language) else "classification"
    return entry_of(architecture, NoPreprocessing(inputs="texts"), training, task=task, folder=folder)
