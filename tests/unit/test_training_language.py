"""Training of language models: a function of the entry, on a vocabulary of the training texts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import log
from typing import TYPE_CHECKING, Any

import pytest
import torch

from robench.core.checkpoint import Checkpoint, Weights
from robench.core.errors import DeclarationError
from robench.datasets import open_dataset
from robench.datasets.texts import Texts
from robench.datasets.vocabulary import vocabulary_of
from robench.declarations.preprocessing import NoPreprocessing
from robench.models.build import build
from robench.models.language import Language
from robench.models.language_impl import LanguageModel
from robench.training import language_impl, text_splits
from robench.training.base import EpochReport
from robench.training.language import LanguageTraining
from robench.training.language_impl import train

if TYPE_CHECKING:
    from pathlib import Path

WORDS = ["war", "peace", "union", "people", "law", "state"]
LANGUAGE = Language(
    vocabulary_size=9, depth=1, dim=8, num_heads=2, feedforward=16, context=8, cutoffs=(4,), dropout=0.1
)
TRAINING = LanguageTraining(dataset="sotu", seed=0, num_epochs=2, batch_size=4, learning_rate=0.02, min_count=2)


def cycles(count: int) -> str:
    """Each word is followed by the next one, which a model of one word can learn."""
    return "".join(" ".join(WORDS[place % 6 :] + WORDS[: place % 6]) + "\n" for place in range(count))


@pytest.fixture(autouse=True)
def _short_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [("a/1", cycles(40)), ("a/2", cycles(20) + "once\n")]
    monkeypatch.setattr(text_splits, "open_dataset", lambda name, **_: Texts(name, texts))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(
        name="mine",
        architecture=LANGUAGE,
        weights=Weights(uri="mine.safetensors", sha256=None),
        preprocessing=NoPreprocessing(inputs="texts"),
        task="language-modeling",
        training_data="none",
        source="a test",
        licence="none",
        folder=tmp_path,
        training=TRAINING,
    )


def trained(checkpoint: Checkpoint, heard: list[EpochReport] | None = None, **changes: Any) -> dict[str, torch.Tensor]:
    changed = replace(checkpoint, training=replace(TRAINING, **changes))
    return train(changed, on_epoch=(lambda report: None) if heard is None else heard.append)


def test_the_same_entry_gives_the_same_bytes_and_another_seed_does_not(checkpoint: Checkpoint) -> None:
    first, second, other = trained(checkpoint), trained(checkpoint), trained(checkpoint, seed=1)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["embedding.weight"], other["embedding.weight"])
    assert torch.equal(first["vocabulary"], other["vocabulary"])


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


def test_the_callers_generator_and_threads_are_left_alone(checkpoint: Checkpoint) -> None:
    threads = torch.get_num_threads()
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    trained(checkpoint, num_epochs=1)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.get_num_threads() == threads


def test_other_entries_are_refused_by_name(checkpoint: Checkpoint) -> None:
    with pytest.raises(DeclarationError, match="checkpoint 'mine' has no fields of language-training; add them"):
        train(replace(checkpoint, training=None))


def test_every_token_is_in_one_window_of_an_epoch() -> None:
    generator = torch.Generator().manual_seed(0)
    starts = torch.cat(list(language_impl._batches(1000, 8, 16, generator)))
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
