"""Training of classifiers of texts: a function of the entry, validated on texts that it does not learn from."""

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
from robench.datasets.sotu import SOTU_ERAS
from robench.datasets.texts import LabelledTexts
from robench.declarations.preprocessing import NoPreprocessing
from robench.models.build import build
from robench.models.word_transformer import Experts, Language, TextClassifier
from robench.models.word_transformer_impl import TextClassifierModel
from robench.training import texts_impl
from robench.training.base import EpochReport, Host
from robench.training.texts import LanguageTraining, TextTraining, WordTraining
from robench.training.texts_impl import train

CLASSIFIER = TextClassifier(
    vocabulary_size=9, num_classes=2, context=5, depth=1, dim=8, num_heads=2, feedforward=8, dropout=0.1
)
TRAINING = TextTraining(dataset="sotu-eras", seed=0, num_epochs=2, batch_size=8, learning_rate=0.02, min_count=2)


def labelled(split: str) -> list[tuple[str, str, int]]:
    """Texts whose class is whether they say war; of validation, the reverse, so that learning shows as errors."""
    kinds = [("people of war\n", 1), ("union of peace\n", 0), ("war war law\n", 1), ("law of people\n", 0)]
    return [(f"{split}/{place}", text, label ^ (split == "valid")) for place, (text, label) in enumerate(kinds * 8)]


@pytest.fixture(autouse=True)
def _short_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(name: str, *, split: str, **_: object) -> LabelledTexts:
        return LabelledTexts(name, labelled(split))

    monkeypatch.setattr(texts_impl, "open_dataset", opened)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return entry_of(CLASSIFIER, NoPreprocessing(inputs="texts"), TRAINING, folder=tmp_path)


def trained(checkpoint: Checkpoint, heard: list[EpochReport] | None = None, **changes: Any) -> dict[str, torch.Tensor]:
    changed = replace(checkpoint, training=replace(TRAINING, **changes))
    return train(changed, on_epoch=(lambda report: None) if heard is None else heard.append)


def test_it_learns_and_is_validated_on_other_texts(checkpoint: Checkpoint) -> None:
    heard: list[EpochReport] = []
    trained(checkpoint, heard, num_epochs=20)
    assert [report.epoch for report in heard] == list(range(1, 21))
    assert heard[0].loss_nats > 0.5 * log(2)
    assert heard[-1].loss_nats < 0.1
    scores = heard[-1].validation
    assert scores is not None
    assert (scores.top1_accuracy, scores.num_examples) == (0.0, 32)
    assert scores.loss_nats > 2


def test_validation_changes_no_weight(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = trained(checkpoint)
    monkeypatch.setattr(texts_impl, "_classifier_scores", lambda *_: None)
    assert same(trained(checkpoint), expected)


def test_unknown_words_and_smoothing_change_the_weights(checkpoint: Checkpoint) -> None:
    plain = trained(checkpoint)
    for changes in ({"unknown_rate": 0.5}, {"label_smoothing": 0.2}, {"weight_decay": 0.5}, {"warmup_share": 0.5}):
        assert not torch.equal(trained(checkpoint, **changes)["head.weight"], plain["head.weight"]), changes


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


def test_the_weights_are_of_the_stated_type_and_load(checkpoint: Checkpoint) -> None:
    state = trained(checkpoint)
    assert {value.dtype for name, value in state.items() if name != "vocabulary"} == {torch.float16}
    model = build(CLASSIFIER)
    model.load_state_dict(state)
    assert {value.dtype for value in trained(checkpoint, saved_as="float32").values()} == {torch.float32, torch.int64}


def test_an_auxiliary_loss_is_weighed_and_refused_where_there_is_none(checkpoint: Checkpoint) -> None:
    with pytest.raises(DeclarationError, match="no layer of the model asks training for a loss"):
        trained(checkpoint, auxiliary_weight=0.1)
    primal = replace(checkpoint, architecture=replace(CLASSIFIER, attention=Primal(num_directions=2)))
    weights = [trained(primal, auxiliary_weight=weight)["head.weight"] for weight in (0.0, 0.5)]
    assert not torch.equal(*weights)


def test_other_entries_are_refused_by_name(checkpoint: Checkpoint) -> None:
    language = Language(vocabulary_size=9, depth=1, dim=8, num_heads=2, feedforward=8, context=5)
    with pytest.raises(DeclarationError, match="'mine' is not a classifier of texts; take backbone text-classifier"):
        train(replace(checkpoint, architecture=language))


def test_the_double_softmax_is_the_loss_of_probabilities(checkpoint: Checkpoint) -> None:
    heard: list[EpochReport] = []
    plain = trained(checkpoint)
    found = trained(checkpoint, heard, num_epochs=20, loss="double-softmax", label_smoothing=0.0)
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
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, splits: tuple[str, ...], wanted: str | None
) -> None:
    asked: list[tuple[str, object]] = []

    def opened(name: str, *, split: str, data_root: object, **_: object) -> LabelledTexts:
        asked.append((split, data_root))
        return LabelledTexts(name, labelled(split))

    monkeypatch.setattr(texts_impl, "open_dataset", opened)
    monkeypatch.setattr(texts_impl, "DATASETS", {"sotu-eras": replace(SOTU_ERAS, splits=splits)})
    heard: list[EpochReport] = []
    root = Path("/data")
    train(checkpoint, Host(data_root=root), heard.append)
    assert asked == [(split, root) for split in ("train", wanted) if split is not None]
    assert [report.validation is None for report in heard] == [wanted is None] * 2


def test_validation_texts_not_on_disk_are_left_out(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(name: str, *, split: str, **_: object) -> LabelledTexts:
        if split != "train":
            raise MissingDataError("no such file")
        return LabelledTexts(name, labelled(split))

    expected = trained(checkpoint)
    monkeypatch.setattr(texts_impl, "open_dataset", opened)
    heard: list[EpochReport] = []
    assert same(trained(checkpoint, heard), expected)
    assert [report.validation for report in heard] == [None, None]


@pytest.mark.parametrize("declared", [TextTraining, LanguageTraining])
def test_data_below_a_root_are_not_embedded(declared: type[WordTraining]) -> None:
    fields: dict[str, Any] = {"seed": 0, "num_epochs": 1, "batch_size": 1, "learning_rate": 0.1}
    for name, is_embedded in (("sotu", True), ("sotu-eras", True), ("wikitext-103", False)):
        assert declared(dataset=name, **fields).is_embedded == is_embedded


def test_the_balance_of_experts_is_part_of_the_loss(checkpoint: Checkpoint) -> None:
    mixed = replace(checkpoint, architecture=replace(CLASSIFIER, experts=Experts(num_experts=3)))
    heard: list[EpochReport] = []
    weights = [trained(mixed, heard, auxiliary_weight=weight) for weight in (0.0, 0.5)]
    assert not torch.equal(weights[0]["blocks.0.mlp.gate.weight"], weights[1]["blocks.0.mlp.gate.weight"])
    # It is 1 where choices and probabilities are even, as at first.
    assert heard[2].loss_nats - heard[0].loss_nats == pytest.approx(0.5, abs=0.1)
