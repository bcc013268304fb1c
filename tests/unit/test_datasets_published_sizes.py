"""Splits and sizes of texts are those that their authors publish."""

import pytest

from robench.datasets import DATASETS


@pytest.mark.parametrize(
    ("name", "split", "size", "num_classes"),
    [
        ("sst2", "dev", 872, 2),
        ("sst2/train", "train", 67_349, 2),
        ("sst2/test", "test", 1_821, 2),
        ("sst5", "test", 2_210, 5),
        ("sst5/dev", "dev", 1_101, 5),
        ("sst5/train", "train", 8_544, 5),
        ("imdb", "test", 25_000, 2),
        ("imdb/train", "train", 25_000, 2),
    ],
)
def test_splits_of_sentences_and_reviews(name: str, split: str, size: int, num_classes: int) -> None:
    declared = DATASETS[name]
    assert (declared.evaluation_split, declared.num_examples, declared.num_classes) == (split, size, num_classes)


@pytest.mark.parametrize(
    ("name", "train", "vocabulary_size"), [("wikitext-103", 103_227_021, 267_735), ("wikitext-2", 2_088_628, 33_278)]
)
def test_sizes_of_wikitext_are_those_of_merity_et_al(name: str, train: int, vocabulary_size: int) -> None:
    declared = DATASETS[name]
    assert [declared.num_tokens_of(each) for each in ("train", "valid", "test")] == [train, 217_646, 245_569]
    assert declared.vocabulary_size == vocabulary_size
