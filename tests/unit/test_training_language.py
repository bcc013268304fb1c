"""Training of language models: a function of the entry, on a vocabulary of the training texts."""

from collections import Counter
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import pytest
import torch
from training_examples import entry_of
from trainings import same

from robench.core.checkpoint import Checkpoint
from robench.core.errors import DeclarationError
from robench.datasets import open_dataset
from robench.datasets.texts import Texts, vocabulary_of
from robench.declarations.preprocessing import NoPreprocessing
from robench.models.build import build
from robench.models.language_impl import LanguageModel
from robench.models.word_transformer import Experts, Language
from robench.models.word_transformer_impl import END_ID
from robench.training import texts_impl
from robench.training.base import EpochReport, Host
from robench.training.texts import LanguageTraining
from robench.training.texts_impl import train

WORDS = ["war", "peace", "union", "people", "law", "state"]
LANGUAGE = Language(
    vocabulary_size=9, depth=1, dim=8, num_heads=2, feedforward=16, context=8, cutoffs=(4,), dropout=0.1
)
# Sums of the embedding and of the first matrix of the MLP, trained before there was validation.
EARLIER = [4.1185566345229745, 0.9301415867521428]
TRAINING = LanguageTraining(dataset="sotu", seed=0, num_epochs=2, batch_size=4, learning_rate=0.02, min_count=2)


def cycles(count: int) -> str:
    """Each word is followed by the next one, which a model of one word can learn."""
    return "".join(" ".join(WORDS[place % 6 :] + WORDS[: place % 6]) + "\n" for place in range(count))


@pytest.fixture(autouse=True)
def _short_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [("a/1", cycles(40)), ("a/2", cycles(20) + "once\n")]
    monkeypatch.setattr(texts_impl, "open_dataset", lambda name, **_: Texts(name, texts))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return entry_of(LANGUAGE, NoPreprocessing(inputs="texts"), TRAINING, task="language-modeling", folder=tmp_path)


def trained(checkpoint: Checkpoint, heard: list[EpochReport] | None = None, **changes: Any) -> dict[str, torch.Tensor]:
    changed = replace(checkpoint, training=replace(TRAINING, **changes))
    return train(changed, on_epoch=(lambda report: None) if heard is None else heard.append)


def test_it_learns_and_reports_every_epoch(checkpoint: Checkpoint) -> None:
    heard: list[EpochReport] = []
    trained(checkpoint, heard, num_epochs=30)
    assert [report.epoch for report in heard] == list(range(1, 31))
    # Chance is 1 of 9; the next word follows from the last one but at the beginnings of lines.
    assert heard[0].loss_nats > 0.7 * log(9)
    assert heard[-1].loss_nats < 0.8


def test_the_weights_are_of_the_stated_type_and_load(checkpoint: Checkpoint) -> None:
    state = trained(checkpoint)
    assert {value.dtype for name, value in state.items() if name != "vocabulary"} == {torch.float16}
    assert state["vocabulary"].dtype == torch.int64
    model = build(LANGUAGE)
    assert isinstance(model, LanguageModel)
    model.load_state_dict(state)
    assert [model.ids.get(each) for each in model.vocabulary.tolist() if each] == list(range(8))


def test_every_token_is_in_one_window_of_an_epoch() -> None:
    generator = torch.Generator().manual_seed(0)
    starts = torch.cat(list(texts_impl._batches(1000, 8, 16, generator)))
    covered = (starts[:, None] + torch.arange(1, 9)).flatten()
    assert len(covered.unique()) == len(covered)
    assert int(covered.max()) < 1000
    assert len(covered) >= 1000 - 3 * 8
    assert not torch.equal(starts, starts.sort().values)


@pytest.mark.parametrize(("size", "min_count"), [(50, 3), (10**6, 3), (8192, 1)])
def test_the_vocabulary_has_the_most_frequent_words_first(size: int, min_count: int) -> None:
    texts = open_dataset("sotu", data_root=None, preprocessing=None, split="valid").texts[:5]
    found = vocabulary_of(texts, size, min_count)
    counts = Counter(" ".join(texts).split())
    assert found[:2] == ["\n", "<unk>"]
    assert len(found) == min(size, 2 + sum(count >= min_count for count in counts.values()))
    numbers = [counts[word] for word in found[2:]]
    assert numbers == sorted(numbers, reverse=True)
    assert numbers[-1] >= min_count
    left = set(counts) - set(found)
    assert all(counts[word] <= numbers[-1] for word in left) or numbers[-1] == min_count


def test_epochs_are_validated_on_the_first_words(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    valid = [("v/1", cycles(3) + "once\n"), ("v/2", cycles(30))]

    def opened(name: str, *, split: str, **_: object) -> Texts:
        return Texts(name, valid if split == "valid" else [("a/1", cycles(40))])

    monkeypatch.setattr(texts_impl, "open_dataset", opened)
    heard: list[EpochReport] = []
    state = trained(checkpoint, heard, num_epochs=30, saved_as="float32")
    model = build(LANGUAGE).eval()
    assert isinstance(model, LanguageModel)
    model.load_state_dict(state)
    ids = [END_ID, *(each for _, text in valid for each in model.ids_of(text))]
    # 8 words each, without overlap, from the first on; the last ones are not enough for a window.
    starts = range(0, len(ids) - 8, 8)
    with torch.no_grad():
        losses = [
            model.losses_of(model.hidden(torch.tensor([ids[at : at + 8]]))[0], torch.tensor(ids[at + 1 : at + 9]))
            for at in starts
        ]
    found = heard[-1].validation
    assert found is not None
    assert found.top1_accuracy is None
    assert found.num_examples == 8 * len(starts) == 232
    assert found.loss_nats == pytest.approx(float(torch.cat(losses).mean()), rel=1e-5)
    assert [report.validation is None for report in heard] == [False] * 30


def test_no_more_words_are_validated_than_stated(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts_impl, "MOST_VALIDATION_WORDS", 43)
    heard: list[EpochReport] = []
    trained(checkpoint, heard, num_epochs=1)
    assert heard[0].validation is not None
    assert heard[0].validation.num_examples == 40
    monkeypatch.setattr(texts_impl, "MOST_VALIDATION_WORDS", 7)
    trained(checkpoint, heard, num_epochs=1)
    assert heard[1].validation is None


def test_validation_changes_no_weight(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = trained(checkpoint)
    monkeypatch.setattr(texts_impl, "_language_scores", lambda *_: None)
    assert same(trained(checkpoint), expected)


def test_the_weights_are_those_of_the_release_before_validation(checkpoint: Checkpoint) -> None:
    state = trained(checkpoint, saved_as="float32")
    found = [float(state[name].double().sum()) for name in ("embedding.weight", "blocks.0.mlp.0.weight")]
    assert found == pytest.approx(EARLIER, rel=1e-4)


def test_an_auxiliary_loss_is_weighed_and_refused_where_there_is_none(checkpoint: Checkpoint) -> None:
    with pytest.raises(DeclarationError, match="no layer of the model asks training for a loss"):
        trained(checkpoint, auxiliary_weight=0.1)
    heard: list[EpochReport] = []
    mixed = replace(checkpoint, architecture=replace(LANGUAGE, experts=Experts(num_experts=3)))
    weights = [trained(mixed, heard, num_epochs=1, auxiliary_weight=weight) for weight in (0.0, 0.5)]
    assert not torch.equal(weights[0]["blocks.0.mlp.gate.weight"], weights[1]["blocks.0.mlp.gate.weight"])
    # It is 1 where choices and probabilities are even, as at first.
    assert heard[1].loss_nats - heard[0].loss_nats == pytest.approx(0.5, abs=0.1)
    # Validation has no part of it.
    first, second = (report.validation for report in heard)
    assert first is not None
    assert second is not None
    assert abs(first.loss_nats - second.loss_nats) < 0.2


def test_the_data_root_has_the_texts(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[object, object]] = []

    def opened(name: str, *, split: str, data_root: object, **_: object) -> Texts:
        asked.append((split, data_root))
        return Texts(name, [("a/1", cycles(10))])

    monkeypatch.setattr(texts_impl, "open_dataset", opened)
    train(checkpoint, Host(data_root=tmp_path))
    assert asked == [("train", tmp_path), ("valid", tmp_path)]
