"""Recipes of the WikiText entries, shrunk: a number of steps, resumed within an epoch, and what a host may choose."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from math import cos, pi
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save

from robench.core.checkpoint import Checkpoint
from robench.core.errors import DeclarationError, UsageError
from robench.datasets.published_texts import WIKITEXT_103
from robench.datasets.texts import LabelledTexts
from robench.datasets.wikitext_impl import WikiText
from robench.declare import read_registry, shipped_registry
from robench.runs.training_queue import Job, weights_of
from robench.training import epochs, steps, texts_impl
from robench.training.base import EpochReport, Host, StepReport
from robench.training.steps import check_length, fraction_at
from robench.training.texts import LanguageTraining, TextTraining
from robench.training.texts_impl import train

ENTRIES = read_registry(shipped_registry())
LANGUAGE = {name: entry for name, entry in ENTRIES.items() if name.startswith("wikitext-")}
TINY: dict[str, Any] = {"depth": 1, "dim": 16, "feedforward": 16, "context": 8, "vocabulary_size": 60}
WORDS = ("the", "lobster", "is", "large", ",", "of", "<unk>", "was", "blue", "and", "poet", "wrote", "it", ".")


def article(place: int) -> str:
    lines = ("".join(f" {WORDS[(place + 3 * line + word) % len(WORDS)]}" for word in range(11)) for line in range(6))
    return f" = Article {place} = \n \n" + "".join(f"{line} \n" for line in lines) + " \n"


# 656 tokens: 80 windows of 8 words, and 81 wherever the first begins earlier than at the last place.
TEXT = " \n" + "".join(map(article, range(8))) + " of" * 22 + " \n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a data root with small files of the published form, the same for training and validation."""
    count = sum(len(line.split()) + 1 for line in TEXT.removesuffix("\n").split("\n"))
    declared = replace(WIKITEXT_103, num_tokens=(count,) * 3)
    (tmp_path / declared.folder).mkdir()
    for split in ("train", "valid"):
        (tmp_path / declared.path_of(split)).write_text(TEXT)
    monkeypatch.setattr(
        texts_impl, "open_dataset", lambda name, *, data_root, split, **_: WikiText(declared, data_root, split)
    )
    return tmp_path


def shrunk(name: str, **changes: Any) -> Checkpoint:
    """Return a shipped entry with small sizes, of 25 steps in three epochs."""
    entry = ENTRIES[name]
    sizes = TINY | ({"cutoffs": (8, 16, 30)} if entry.architecture.cutoffs else {})
    dropout = changes.pop("dropout", entry.architecture.dropout)
    fields: dict[str, Any] = {"num_epochs": 3, "num_steps": 25, "batch_size": 8, "learning_rate": 0.02}
    fields |= {"warmup_steps": 5, "saved_as": "float32"} | changes
    architecture = replace(entry.architecture, **sizes, dropout=dropout)
    return replace(entry, architecture=architecture, training=replace(entry.training, **fields))


def trained(checkpoint: Checkpoint, host: Host, heard: list[EpochReport] | None = None) -> bytes:
    return save(train(checkpoint, host, (lambda report: None) if heard is None else heard.append))


def interrupt_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupt training before a step, counted from 1 from here on."""
    made, original = Counter[str](), steps.set_learning_rate

    def counted(*arguments: Any) -> None:
        made["steps"] += 1
        if made["steps"] == step:
            raise KeyboardInterrupt
        original(*arguments)

    monkeypatch.setattr(steps, "set_learning_rate", counted)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("wikitext-mom-small", {"spectral_penalty": (0.1, 0.2, 0.3)}),
        ("wikitext-switch-medium", {}),
    ],
)
def test_resumed_within_an_epoch_it_ends_alike(
    name: str, changes: dict[str, Any], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint, host = shrunk(name, **changes), Host(data_root=root, state_path=root / "state")
    uninterrupted: list[EpochReport] = []
    whole = trained(checkpoint, Host(data_root=root), uninterrupted)
    monkeypatch.setattr(steps, "STEPS_BETWEEN_STATES", 4)
    interrupt_at(18, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        trained(checkpoint, host)
    state = torch.load(root / "state", weights_only=True)
    # 17 steps were made, 10 of them in the first epoch and 4 more before the last state.
    assert (state["num_epochs_done"], state["parts"]["epoch"]["place"]) == (1, 4)
    heard: list[EpochReport] = []
    done: list[StepReport] = []
    assert trained(checkpoint, replace(host, on_step=done.append), heard) == whole
    assert (done[0].is_resumed, done[0].epoch) == (True, 2)
    assert done[1].num_done == done[0].num_done * 5 / 4
    assert not any(report.is_resumed for report in done[1:])
    assert [(one.epoch, one.loss_nats) for one in heard] == [(one.epoch, one.loss_nats) for one in uninterrupted[1:]]


def test_it_makes_as_many_steps_as_stated_and_learns(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    original = steps.set_learning_rate
    monkeypatch.setattr(steps, "set_learning_rate", lambda of, rate: (rates.append(rate), original(of, rate)))
    heard: list[EpochReport] = []
    trained(shrunk("wikitext-softmax-small"), Host(data_root=root), heard)
    # 10 an epoch, wherever its first window begins.
    assert rates == pytest.approx([0.02 * (s / 5 if s < 5 else (1 + cos(pi * s / 25)) / 2) for s in range(25)])
    assert [report.num_epochs for report in heard] == [3, 3, 3]
    assert heard[-1].loss_nats < heard[0].loss_nats - 0.5
    assert heard[-1].validation is not None
    assert heard[-1].validation.loss_nats < 3


def test_a_length_that_does_not_end_in_the_last_epoch_is_refused(root: Path) -> None:
    with pytest.raises(DeclarationError, match=r"num_steps 31 end in epoch 4, .* 10 steps .* write num_epochs: 4"):
        trained(shrunk("wikitext-softmax-small", num_steps=31), Host(data_root=root))
    with pytest.raises(DeclarationError, match=r"num_steps 20 end in epoch 2"):
        trained(shrunk("wikitext-softmax-small", num_steps=20), Host(data_root=root))


@pytest.mark.parametrize("name", [name for name in LANGUAGE if "-a" not in name])
def test_the_stated_steps_end_in_the_last_epoch_of_the_published_files(name: str) -> None:
    training, context = LANGUAGE[name].training, LANGUAGE[name].architecture.context
    assert isinstance(training, LanguageTraining)
    # The first window begins at the latest at place context - 1, and each needs the word after it.
    num_windows = (WIKITEXT_103.num_tokens_of("train") - 1 - context - (context - 1) - 1) // context + 1
    check_length(training, -(-num_windows // training.batch_size))
    whole_epochs = "wikitext-linear-small", "wikitext-linear-twicing-small", "wikitext-naacl"
    assert (training.num_steps is None) == (name in whole_epochs)


@pytest.mark.parametrize(
    ("name", "changes"),
    [("wikitext-symmetric-small", {}), ("wikitext-smoe-medium", {"auxiliary_weight": 0.1, "clip_grad": 1.0})],
)
def test_gradients_of_micro_batches_add_up(
    name: str, changes: dict[str, Any], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[list[torch.Tensor]] = []

    def clipped(parameters: Iterable[torch.nn.Parameter], most: float) -> None:
        found.append([value.grad.clone() for value in parameters if value.grad is not None])

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", clipped)
    checkpoint = shrunk(name, dropout=0.0, num_steps=1, num_epochs=1, **changes)
    heard: list[EpochReport] = []
    for size in (None, 1, 3):
        train(checkpoint, Host(data_root=root, micro_batch_size=size), heard.append)
    for gradients in found[1:]:
        assert len(gradients) == len(found[0]) > 10
        assert all(torch.allclose(*pair, atol=1e-6) for pair in zip(gradients, found[0], strict=True))
    assert [report.loss_nats for report in heard[1:]] == pytest.approx([heard[0].loss_nats] * 2, rel=1e-6)


def test_mixed_precision_is_near_and_kept_apart(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = shrunk("wikitext-softmax-small", num_steps=None, num_epochs=2, dropout=0.0)
    host = Host(data_root=root, precision="bfloat16", state_path=root / "state")
    heard: list[EpochReport] = []
    exact = train(checkpoint, Host(data_root=root), heard.append)
    mixed = train(checkpoint, host, heard.append)
    assert not torch.equal(exact["embedding.weight"], mixed["embedding.weight"])
    assert mixed["embedding.weight"].dtype == torch.float32
    assert heard[3].loss_nats == pytest.approx(heard[1].loss_nats, rel=0.02)
    with pytest.raises(UsageError, match="other data or another precision; remove it to start again, or give the same"):
        train(checkpoint, Host(data_root=root, state_path=root / "state"))
    (root / "state").unlink()
    weights_of(Job(checkpoint=checkpoint, host=host, history=root / "x.history.json"))
    assert json.loads((root / "x.history.json").read_text())["precision"] == "bfloat16"


def test_trainings_on_embedded_texts_resume_between_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their draws follow each other, and the host's choices are not for them."""
    texts = LabelledTexts("sotu-eras", [(str(place), "of war\n", place % 2) for place in range(20)])
    monkeypatch.setattr(texts_impl, "open_dataset", lambda name, **_: texts)
    monkeypatch.setattr(steps, "STEPS_BETWEEN_STATES", 1)
    entry = ENTRIES["sotu-eras-softmax"]
    architecture = replace(entry.architecture, vocabulary_size=9, context=4, dropout=0.2)
    training = replace(entry.training, num_epochs=3, batch_size=4, unknown_rate=0.3, min_count=1)
    checkpoint = replace(entry, architecture=architecture, training=training)
    whole = trained(checkpoint, Host(data_root=None, micro_batch_size=1, precision="bfloat16", device="meta"))
    host = Host(data_root=None, state_path=tmp_path / "state")
    interrupt_at(8, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        trained(checkpoint, host)
    assert torch.load(tmp_path / "state", weights_only=True)["num_epochs_done"] == 1
    assert trained(checkpoint, host) == whole


def test_a_classifier_starts_from_the_trained_language_model(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    language = replace(shrunk("wikitext-smoe-medium"), folder=root)
    path = root / language.weights.uri
    path.parent.mkdir()
    path.write_bytes(trained(language, Host(data_root=root)))
    texts = LabelledTexts("sst2", [(str(place), "the poet was blue\n", place % 2) for place in range(12)])
    monkeypatch.setattr(texts_impl, "open_dataset", lambda name, **_: texts)
    for name in ("sst2-smoe-medium", "sst2-rpc-smoe-medium"):
        entry = ENTRIES[name]
        assert isinstance(entry.training, TextTraining)
        checkpoint = replace(entry, folder=root, architecture=replace(entry.architecture, **TINY))
        host = Host(data_root=root, state_path=root / f"{name}.training")
        state = train(replace(checkpoint, training=replace(entry.training, num_epochs=1)), host)
        assert float((state["embedding.weight"].float() - load_file(path)["embedding.weight"]).abs().max()) < 0.01
        assert torch.load(root / f"{name}.training", weights_only=True)["parts"]["draws"] == {}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        # Transformer-XL's train.py: lr t / W below W steps, and then the cosine from step 0 on.
        (
            {"num_steps": 500_000, "num_epochs": 120, "warmup_steps": 2000, "schedule": "cosine"},
            {0: 0, 1: 1 / 2000, 1999: 0.9995, 2000: 0.9999605, 250_000: 0.5, 499_999: 9.8696e-12},
        ),
        (
            {"num_steps": 80_000, "num_epochs": 20, "warmup_steps": 4000, "schedule": "constant"},
            {0: 0, 1000: 0.25, 3999: 3999 / 4000, 4000: 1, 79_999: 1},
        ),
        # Today's default: the cosine begins after the warm-up; the first step has a small rate.
        ({"num_epochs": 100, "warmup_share": 0.5}, {0: 2e-4, 105_025: 0.5002, 210_050: 1, 315_075: 0.5}),
        ({"num_epochs": 100, "warmup_share": 0.0}, {0: 1, 210_050: 0.5}),
        ({"num_epochs": 100, "warmup_steps": 210_050}, {0: 2e-4, 210_050: 1, 315_075: 0.5}),
    ],
)
def test_the_learning_rate_at_a_step_is_that_of_the_formula(fields: dict[str, Any], expected: dict[int, float]) -> None:
    training = LanguageTraining(dataset="wikitext-103", seed=0, batch_size=96, learning_rate=1.0, **fields)
    found = {step: fraction_at(training, *divmod(step, 4201), 4201) for step in expected}
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-15)


def test_a_state_is_stored_after_some_time_too(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored: list[int] = []
    monkeypatch.setattr(steps, "SECONDS_BETWEEN_STATES", -1.0)
    monkeypatch.setattr(epochs, "write_state", lambda path, state: stored.append(state.parts["epoch"]["place"]))
    trained(shrunk("wikitext-linear-small", num_steps=12, num_epochs=2), Host(data_root=root, state_path=root / "s"))
    assert stored == [*range(1, 11), 0, 1, 2, 0]
