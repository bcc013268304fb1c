"""Fine-tuning of language models: parts taken from the file, all others as usual, and what does not fit refused."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save
from training_examples import entry_of
from trainings import same

from robench.attention.rpc import Rpc
from robench.attention.rpc_asymmetric import RpcAsymmetric
from robench.attention.softmax import Softmax
from robench.attention.symmetric import Symmetric
from robench.attention.twicing import Twicing
from robench.core.checkpoint import Checkpoint, Weights
from robench.core.errors import DeclarationError, WeightsError
from robench.datasets.texts import LabelledTexts
from robench.declarations.preprocessing import NoPreprocessing
from robench.declare import read_registry
from robench.models.build import build
from robench.models.language_impl import LanguageModel, sinusoids
from robench.models.transformer import Boost
from robench.models.word_transformer import Experts, Language, TextClassifier
from robench.models.word_transformer_impl import TextClassifierModel
from robench.training import texts_impl
from robench.training.base import EpochReport
from robench.training.optimization import saved
from robench.training.texts import TextTraining
from robench.training.texts_impl import start_from, train

WORDS = ["\n", "<unk>", "of", "war", "peace"]
SIZES: dict[str, Any] = {"vocabulary_size": 9, "depth": 2, "dim": 8, "num_heads": 2, "feedforward": 6}
LANGUAGE = Language(**SIZES, context=4, cutoffs=(3,), experts=Experts(num_experts=3))
CLASSIFIER = TextClassifier(**SIZES, context=5, num_classes=2, is_causal=True, experts=Experts(num_experts=3))


@pytest.fixture(autouse=True)
def _short_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = [("people of war\n", 1), ("union of peace\n", 0)]
    texts = [(f"a/{place}", text, label) for place, (text, label) in enumerate(kinds * 8)]
    monkeypatch.setattr(texts_impl, "open_dataset", lambda name, **_: LabelledTexts(name, texts))


def pretrained(folder: Path, architecture: Language = LANGUAGE, saved_as: str = "float32") -> tuple[Any, Weights]:
    """A language model and its file."""
    torch.manual_seed(5)
    model = build(architecture)
    assert isinstance(model, LanguageModel)
    model.set_vocabulary(WORDS)
    content = save(saved(model.state_dict(), saved_as))
    (folder / "lm.safetensors").write_bytes(content)
    return model, Weights(uri="lm.safetensors", sha256=hashlib.sha256(content).hexdigest())


def checkpoint_of(folder: Path, weights: Weights | None, **changes: Any) -> Checkpoint:
    training = TextTraining(
        dataset="sotu-eras", seed=0, num_epochs=1, batch_size=8, learning_rate=0.01, initial_weights=weights
    )
    architecture = replace(CLASSIFIER, **changes)
    return entry_of(architecture, NoPreprocessing(inputs="texts"), training, folder=folder)


def started(checkpoint: Checkpoint, weights: Weights) -> tuple[TextClassifierModel, dict[str, torch.Tensor]]:
    """A classifier with the initial weights, and its state before it had them."""
    torch.manual_seed(0)
    model = build(checkpoint.architecture)
    assert isinstance(model, TextClassifierModel)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    start_from(model, weights, checkpoint)
    return model, before


@pytest.mark.parametrize("saved_as", ["float32", "float16"])
def test_parts_come_from_the_language_model_or_begin_as_usual(tmp_path: Path, saved_as: str) -> None:
    language, weights = pretrained(tmp_path, saved_as=saved_as)
    model, before = started(checkpoint_of(tmp_path, weights), weights)
    state, found = saved(language.state_dict(), saved_as), model.state_dict()
    taken = [name for name in found if name.startswith(("embedding.", "vocabulary", "blocks.", "norm."))]
    own = ["cls_token", "pos_embed", "head.weight", "head.bias"]
    assert sorted([*taken, *own]) == sorted(found)
    for name in taken:
        assert torch.equal(found[name], state[name].to(found[name].dtype)), name
    for name in own:
        assert torch.equal(found[name], before[name]) == (name != "pos_embed")
    assert torch.equal(found["pos_embed"][0, :5], sinusoids(5, 8))
    assert torch.equal(found["pos_embed"][0, 5], before["pos_embed"][0, 5])
    assert model.ids_of("peace of strangers\n") == [4, 2, 1, 0]


def test_words_are_read_as_the_language_model_reads_them(tmp_path: Path) -> None:
    """Tokens of words after the last block, which the class token behind them cannot change."""
    language, weights = pretrained(tmp_path)
    model, _ = started(checkpoint_of(tmp_path, weights), weights)
    model.eval()
    language.eval()
    seen: list[torch.Tensor] = []
    model.blocks[-1].register_forward_hook(lambda _, __, output: seen.append(output))
    ids = torch.tensor([[3, 2, 4, 1, 0]])
    with torch.no_grad():
        model.logits_of(ids)
        wanted = language.hidden(ids[:, :4])
        torch.testing.assert_close(model.norm(seen[0][:, :4]), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Softmax(), Twicing()),
        (Softmax(), RpcAsymmetric(num_iterations=2, sparsity=0.2, layers="all")),
        (Symmetric(), Rpc(num_iterations=2, sparsity=0.2, layers="all")),
    ],
    ids=lambda each: each.kind,
)
def test_mechanisms_with_the_same_parameters_take_each_others_weights(tmp_path: Path, before: Any, after: Any) -> None:
    _, weights = pretrained(tmp_path, replace(LANGUAGE, attention=before))
    (first, _), (second, _) = (
        started(checkpoint_of(tmp_path, weights, attention=each), weights) for each in (before, after)
    )
    assert same(first.state_dict(), second.state_dict())
    ids = torch.tensor([[3, 2, 4, 1, 0]])
    with torch.no_grad():
        assert not torch.equal(first.eval().logits_of(ids), second.eval().logits_of(ids))
    assert train(checkpoint_of(tmp_path, weights, attention=after)).keys() == first.state_dict().keys()


def test_training_starts_from_them_and_is_a_function_of_the_entry(tmp_path: Path) -> None:
    language, weights = pretrained(tmp_path)
    checkpoint = checkpoint_of(tmp_path, weights)
    heard: list[EpochReport] = []
    first = train(checkpoint, on_epoch=heard.append)
    assert same(first, train(checkpoint))
    assert len(heard) == 1
    assert torch.equal(first["vocabulary"], language.vocabulary)
    scratch = train(checkpoint_of(tmp_path, None))
    assert not torch.equal(scratch["vocabulary"], language.vocabulary)
    # One epoch of two steps at 0.01 each moves no number far.
    moved = (first["embedding.weight"].float() - language.embedding.weight.detach()).abs().max()
    assert 0 < float(moved) < 0.05


@pytest.mark.parametrize(
    ("language", "classifier", "message"),
    [
        ({}, {"vocabulary_size": 10}, r"embedding.weight \(9, 8\) where \(10, 8\) is wanted"),
        ({}, {"depth": 3}, r"21 missing: blocks\.2\."),
        ({"depth": 3}, {}, r"21 unexpected: blocks\.2\."),
        ({}, {"feedforward": 7}, "of another shape: blocks.0.mlp.experts.0.0.weight"),
        ({}, {"experts": None}, "missing: blocks.0.mlp.0.weight"),
        ({}, {"experts": Experts(num_experts=4)}, "blocks.0.mlp.gate.weight"),
        ({}, {"attention": Symmetric()}, "unexpected|of another shape"),
        ({}, {"residual": Boost()}, "2 missing: blocks.0.t, blocks.1.t"),
        ({"norm": "post"}, {}, "2 missing: norm.weight, norm.bias"),
    ],
)
def test_names_and_shapes_that_do_not_fit_are_listed_and_nothing_is_copied(
    tmp_path: Path, language: dict[str, Any], classifier: dict[str, Any], message: str
) -> None:
    _, weights = pretrained(tmp_path, replace(LANGUAGE, **language))
    checkpoint = checkpoint_of(tmp_path, weights, **classifier)
    with pytest.raises(WeightsError, match=message) as caught:
        train(checkpoint)
    assert "lm.safetensors (initial weights of mine) does not fit the architecture" in str(caught.value)
    torch.manual_seed(0)
    model = build(checkpoint.architecture)
    assert isinstance(model, TextClassifierModel)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(WeightsError):
        start_from(model, weights, checkpoint)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_classifier_that_is_not_causal_is_refused(tmp_path: Path) -> None:
    _, weights = pretrained(tmp_path)
    with pytest.raises(DeclarationError, match=r"'mine' has training\.initial_weights.* set is_causal: true"):
        train(checkpoint_of(tmp_path, weights, is_causal=False))


def test_missing_and_other_files_are_reported_by_the_field_that_names_them(tmp_path: Path) -> None:
    _, weights = pretrained(tmp_path)
    gone = replace(weights, uri="gone.safetensors", how_to_get="robench train their-lm")
    with pytest.raises(
        WeightsError,
        match=r"initial weights of mine are missing: put the file at .*gone.*How to get them: robench train their-lm",
    ):
        train(checkpoint_of(tmp_path, gone))
    with pytest.raises(WeightsError, match=r"initial weights of mine .*change training\.initial_weights\.sha256"):
        train(checkpoint_of(tmp_path, replace(weights, sha256="0" * 64)))
    (tmp_path / "damaged.safetensors").write_bytes(b"no weights")
    with pytest.raises(WeightsError):
        train(checkpoint_of(tmp_path, Weights(uri="damaged.safetensors", sha256=None)))


ENTRY = """checkpoints:
  mine:
    architecture: {{backbone: text-classifier, vocabulary_size: 9, num_classes: 6, context: 5, depth: 1, dim: 8,
      num_heads: 2, feedforward: 8, is_causal: true}}
    weights: {{uri: mine.safetensors, sha256: null}}
    preprocessing: {{kind: none, inputs: texts}}
    training: {{kind: text-training, dataset: sotu-eras, seed: 0, num_epochs: 1, batch_size: 8, learning_rate: 0.1,
      {fields}}}
"""


def read(folder: Path, fields: str) -> Checkpoint:
    path = folder / "mine.yaml"
    path.write_text(ENTRY.format(fields=fields))
    return read_registry(path)["mine"]


def test_entries_name_initial_weights_as_they_name_weights(tmp_path: Path) -> None:
    found = read(tmp_path, "initial_weights: {uri: lm.pt, sha256: abcd1234, layout: deit}, loss: double-softmax")
    assert isinstance(found.training, TextTraining)
    assert found.training.initial_weights == Weights(uri="lm.pt", sha256="abcd1234", layout="deit")
    assert found.training.loss == "double-softmax"
    assert read(tmp_path, "initial_weights: null").training == read(tmp_path, "loss: cross-entropy").training
