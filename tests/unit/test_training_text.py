"""Training of models of texts: language models on a vocabulary of their texts, and classifiers, validated on others."""

from collections import Counter
from dataclasses import replace
from math import exp, log
from pathlib import Path
from typing import Any

import pytest
import torch
from training_examples import entry_of
from trainings import same

from robench.attention.primal import Primal
from robench.core.checkpoint import Checkpoint
from robench.core.errors import DeclarationError, MissingDataError
from robench.datasets import open_dataset
from robench.datasets.sotu import SOTU_ERAS
from robench.datasets.texts import LabelledTexts, Texts, vocabulary_of
from robench.declarations.preprocessing import NoPreprocessing
from robench.models.build import build
from robench.models.language_impl import LanguageModel
from robench.models.word_transformer import Experts, Language, TextClassifier
from robench.models.word_transformer_impl import END_ID, TextClassifierModel
from robench.training import texts_impl
from robench.training.base import EpochReport, Host
from robench.training.texts import LanguageTraining, TextTraining, WordTraining
from robench.training.texts_impl import train

WORDS = ["war", "peace", "union", "people", "law", "state"]
LANGUAGE = Language(
    vocabulary_size=9, depth=1, dim=8, num_heads=2, feedforward=16, context=8, cutoffs=(4,), dropout=0.1
)
# Sums of the embedding and of the first matrix of the MLP, trained before there was validation.
EARLIER = [4.1185566345229745, 0.9301415867521428]
LEARNING = LanguageTraining(dataset="sotu", seed=0, num_epochs=2, batch_size=4, learning_rate=0.02, min_count=2)


def cycles(count: int) -> str:
    """Each word is followed by the next one, which a model of one word can learn."""
    return "".join(" ".join(WORDS[place % 6 :] + WORDS[: place % 6]) + "\n" for place in range(count))


CLASSIFIER = TextClassifier(
    vocabulary_size=9, num_classes=2, context=5, depth=1, dim=8, num_heads=2, feedforward=8, dropout=0.1
)
TRAINING = TextTraining(dataset="sotu-eras", seed=0, num_epochs=2, batch_size=8, learning_rate=0.02, min_count=2)


def labelled(split: str) -> list[tuple[str, str, int]]:
    """Texts whose class is whether they say war; of validation, the reverse, so that learning shows as errors."""
    kinds = [("people of war\n", 1), ("union of peace\n", 0), ("war war law\n", 1), ("law of people\n", 0)]
    return [(f"{split}/{place}", text, label ^ (split == "valid")) for place, (text, label) in enumerate(kinds * 8)]


LANGUAGE_ENTRY = entry_of(LANGUAGE, NoPreprocessing(inputs="texts"), LEARNING, task="language-modeling")
TEXT_ENTRY = entry_of(CLASSIFIER, NoPreprocessing(inputs="texts"), TRAINING)
ENTRIES = pytest.mark.parametrize("entry", [LANGUAGE_ENTRY, TEXT_ENTRY], ids=["language", "text"])


@pytest.fixture(autouse=True)
def _short_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [("a/1", cycles(40)), ("a/2", cycles(20) + "once\n")]

    def opened(name: str, *, split: str, **_: object) -> Texts | LabelledTexts:
        return Texts(name, texts) if name == "sotu" else LabelledTexts(name, labelled(split))

    monkeypatch.setattr(texts_impl, "open_dataset", opened)


def trained(entry: Checkpoint, heard: list[EpochReport] | None = None, **changes: Any) -> dict[str, torch.Tensor]:
    training: Any = entry.training
    changed = replace(entry, training=replace(training, **changes))
    return train(changed, on_epoch=(lambda report: None) if heard is None else heard.append)


@ENTRIES
def test_the_weights_are_of_the_stated_type_and_load(entry: Checkpoint) -> None:
    for saved_as in ("float16", "float32"):
        state = trained(entry, saved_as=saved_as)
        assert {value.dtype for name, value in state.items() if name != "vocabulary"} == {getattr(torch, saved_as)}
        assert state["vocabulary"].dtype == torch.int64
    model: Any = build(entry.architecture)
    model.load_state_dict(state)
    assert [model.ids.get(each) for each in model.vocabulary.tolist() if each] == list(range(len(model.ids)))


@ENTRIES
def test_validation_changes_no_weight(entry: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = trained(entry)
    for scores in ("_language_scores", "_classifier_scores"):
        monkeypatch.setattr(texts_impl, scores, lambda *_: None)
    assert same(trained(entry), expected)


@ENTRIES
def test_an_auxiliary_loss_is_weighed_and_refused_where_there_is_none(entry: Checkpoint) -> None:
    with pytest.raises(DeclarationError, match="no layer of the model asks training for a loss"):
        trained(entry, auxiliary_weight=0.1)
    heard: list[EpochReport] = []
    architecture: Any = entry.architecture
    mixed = replace(entry, architecture=replace(architecture, experts=Experts(num_experts=3)))
    weights = [trained(mixed, heard, num_epochs=1, auxiliary_weight=weight) for weight in (0.0, 0.5)]
    assert not torch.equal(weights[0]["blocks.0.mlp.gate.weight"], weights[1]["blocks.0.mlp.gate.weight"])
    # It is 1 where choices and probabilities are even, as at first.
    assert heard[1].loss_nats - heard[0].loss_nats == pytest.approx(0.5, abs=0.1)
    # Validation has no part of it.
    first, second = (report.validation for report in heard)
    assert first is not None
    assert second is not None
    assert abs(first.loss_nats - second.loss_nats) < 0.2


def test_the_auxiliary_loss_of_a_mechanism_is_weighed() -> None:
    primal = replace(TEXT_ENTRY, architecture=replace(CLASSIFIER, attention=Primal(num_directions=2)))
    assert not torch.equal(*(trained(primal, auxiliary_weight=weight)["head.weight"] for weight in (0.0, 0.5)))


def test_it_learns_and_reports_every_epoch() -> None:
    heard: list[EpochReport] = []
    trained(LANGUAGE_ENTRY, heard, num_epochs=30)
    assert [report.epoch for report in heard] == list(range(1, 31))
    # Chance is 1 of 9; the next word follows from the last one but at the beginnings of lines.
    assert heard[0].loss_nats > 0.7 * log(9)
    assert heard[-1].loss_nats < 0.8


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


def test_epochs_are_validated_on_the_first_words(monkeypatch: pytest.MonkeyPatch) -> None:
    valid = [("v/1", cycles(3) + "once\n"), ("v/2", cycles(30))]

    def opened(name: str, *, split: str, **_: object) -> Texts:
        return Texts(name, valid if split == "valid" else [("a/1", cycles(40))])

    monkeypatch.setattr(texts_impl, "open_dataset", opened)
    heard: list[EpochReport] = []
    state = trained(LANGUAGE_ENTRY, heard, num_epochs=30, saved_as="float32")
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


def test_no_more_words_are_validated_than_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts_impl, "MOST_VALIDATION_WORDS", 43)
    heard: list[EpochReport] = []
    trained(LANGUAGE_ENTRY, heard, num_epochs=1)
    assert heard[0].validation is not None
    assert heard[0].validation.num_examples == 40
    monkeypatch.setattr(texts_impl, "MOST_VALIDATION_WORDS", 7)
    trained(LANGUAGE_ENTRY, heard, num_epochs=1)
    assert heard[1].validation is None


def test_the_weights_are_those_of_the_release_before_validation() -> None:
    state = trained(LANGUAGE_ENTRY, saved_as="float32")
    found = [float(state[name].double().sum()) for name in ("embedding.weight", "blocks.0.mlp.0.weight")]
    assert found == pytest.approx(EARLIER, rel=1e-4)


def test_the_data_root_has_the_texts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[object, object]] = []

    def opened(name: str, *, split: str, data_root: object, **_: object) -> Texts:
        asked.append((split, data_root))
        return Texts(name, [("a/1", cycles(10))])

    monkeypatch.setattr(texts_impl, "open_dataset", opened)
    train(LANGUAGE_ENTRY, Host(data_root=tmp_path))
    assert asked == [("train", tmp_path), ("valid", tmp_path)]


def test_it_learns_and_is_validated_on_other_texts() -> None:
    heard: list[EpochReport] = []
    trained(TEXT_ENTRY, heard, num_epochs=20)
    assert [report.epoch for report in heard] == list(range(1, 21))
    assert heard[0].loss_nats > 0.5 * log(2)
    assert heard[-1].loss_nats < 0.1
    scores = heard[-1].validation
    assert scores is not None
    assert (scores.top1_accuracy, scores.num_examples) == (0.0, 32)
    assert scores.loss_nats > 2


def test_unknown_words_and_smoothing_change_the_weights() -> None:
    plain = trained(TEXT_ENTRY)
    for changes in ({"unknown_rate": 0.5}, {"label_smoothing": 0.2}, {"weight_decay": 0.5}, {"warmup_share": 0.5}):
        assert not torch.equal(trained(TEXT_ENTRY, **changes)["head.weight"], plain["head.weight"]), changes


def test_the_share_of_unknown_words_is_as_asked() -> None:
    model = build(CLASSIFIER)
    assert isinstance(model, TextClassifierModel)
    model.set_vocabulary(["\n", "<unk>", "we"])
    ids = torch.full((400, 5), 2)
    changed = texts_impl._with_unknowns(model, ids, 0.3, torch.Generator().manual_seed(0))
    assert set(changed.unique().tolist()) == {1, 2}
    # Four standard deviations of 2,000 draws.
    assert float((changed == 1).double().mean()) == pytest.approx(0.3, abs=0.041)
    assert torch.equal(texts_impl._with_unknowns(model, ids, 0.0, torch.Generator()), ids)


def test_other_entries_are_refused_by_name() -> None:
    language = Language(vocabulary_size=9, depth=1, dim=8, num_heads=2, feedforward=8, context=5)
    with pytest.raises(DeclarationError, match="'mine' is not a classifier of texts; take backbone text-classifier"):
        train(replace(TEXT_ENTRY, architecture=language))


def test_the_double_softmax_is_the_loss_of_probabilities() -> None:
    heard: list[EpochReport] = []
    plain = trained(TEXT_ENTRY)
    found = trained(TEXT_ENTRY, heard, num_epochs=20, loss="double-softmax", label_smoothing=0.0)
    assert not torch.equal(found["head.weight"], plain["head.weight"])
    # Probabilities lie in [0, 1], so that no loss is below that of (1, 0).
    assert log(1 + exp(-1)) < heard[-1].loss_nats < 0.4
    scores = heard[-1].validation
    assert scores is not None
    assert scores.loss_nats > 2


@pytest.mark.parametrize(
    ("splits", "wanted"),
    [
        (("train", "valid", "test"), "valid"),
        (("test", "dev", "train"), "dev"),
        (("train", "test", "dev", "valid"), "valid"),
        (("train", "test"), None),
    ],
)
def test_the_validation_split_is_the_first_that_the_dataset_has(
    monkeypatch: pytest.MonkeyPatch, splits: tuple[str, ...], wanted: str | None
) -> None:
    asked: list[tuple[str, object]] = []

    def opened(name: str, *, split: str, data_root: object, **_: object) -> LabelledTexts:
        asked.append((split, data_root))
        return LabelledTexts(name, labelled(split))

    monkeypatch.setattr(texts_impl, "open_dataset", opened)
    monkeypatch.setattr(texts_impl, "DATASETS", {"sotu-eras": replace(SOTU_ERAS, splits=splits)})
    heard: list[EpochReport] = []
    root = Path("/data")
    train(TEXT_ENTRY, Host(data_root=root), heard.append)
    assert asked == [(split, root) for split in ("train", wanted) if split is not None]
    assert [report.validation is None for report in heard] == [wanted is None] * 2


def test_validation_texts_not_on_disk_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(name: str, *, split: str, **_: object) -> LabelledTexts:
        if split != "train":
            raise MissingDataError("no such file")
        return LabelledTexts(name, labelled(split))

    expected = trained(TEXT_ENTRY)
    monkeypatch.setattr(texts_impl, "open_dataset", opened)
    heard: list[EpochReport] = []
    assert same(trained(TEXT_ENTRY, heard), expected)
    assert [report.validation for report in heard] == [None, None]


@pytest.mark.parametrize("declared", [TextTraining, LanguageTraining])
def test_data_below_a_root_are_not_embedded(declared: type[WordTraining]) -> None:
    fields: dict[str, Any] = {"seed": 0, "num_epochs": 1, "batch_size": 1, "learning_rate": 0.1}
    for name, is_embedded in (("sotu", True), ("sotu-eras", True), ("wikitext-103", False)):
        assert declared(dataset=name, **fields).is_embedded == is_embedded
