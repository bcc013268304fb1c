"""Training of series: resumption, the selections of weights, and the epochs that are scored."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from training_examples import entry_of
from trainings import interrupt_after, same

from robench.core.checkpoint import Checkpoint
from robench.declarations.preprocessing import NoPreprocessing
from robench.models.series import Series
from robench.training import sequences_impl
from robench.training.base import EpochReport, Host
from robench.training.sequences import SequenceTraining
from robench.training.sequences_impl import train

SMALL = Series(num_steps=29, num_channels=12, num_classes=9, dim=8, num_heads=2, feedforward=8, dropout=0.1, depth=1)
RECIPE = SequenceTraining(dataset="japanese-vowels", seed=3, num_epochs=5, batch_size=64)


@pytest.fixture(scope="module")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with series of noise of the sizes of JapaneseVowels, whose classes differ in their means."""
    root: Path = tmp_path_factory.mktemp("data")
    folder = root / "JapaneseVowels"
    folder.mkdir()
    generator = np.random.default_rng(0)
    for split, count in (("TRAIN", 270), ("TEST", 370)):
        lines = ["@classLabel true 1 2 3 4 5 6 7 8 9", "@data"]
        for number in range(count):
            values = generator.normal(number % 9 / 8, 1.0, (12, generator.integers(7, 29))).round(3)
            lines.append(":".join([*(",".join(map(str, channel)) for channel in values), str(number % 9 + 1)]))
        (folder / f"JapaneseVowels_{split}.ts").write_text("\n".join(lines))
    return root


def checkpoint_of(**changes: Any) -> Checkpoint:
    return entry_of(SMALL, NoPreprocessing(inputs="series"), replace(RECIPE, **changes))


def trained(host: Host, **changes: Any) -> tuple[dict[str, Tensor], list[EpochReport]]:
    reports: list[EpochReport] = []
    return train(checkpoint_of(**changes), host, reports.append), reports


def test_every_second_epoch_and_the_last_are_scored_and_the_best_of_them_is_published(data_root: Path) -> None:
    host = Host(data_root=data_root)
    # A rate at which accuracy falls again, so that the best epoch is not the last one.
    best, reports = trained(host, selection="best-on-test", learning_rate=0.3)
    scored = {each.epoch: each.validation.top1_accuracy for each in reports if each.validation is not None}
    assert list(scored) == [2, 4, 5]
    chosen = max(scored, key=lambda epoch: (scored[epoch] or 0.0, -epoch))
    assert chosen != 5
    assert same(best, trained(host, num_epochs=chosen, learning_rate=0.3)[0])
    assert not same(best, trained(host, learning_rate=0.3)[0])


def test_the_loss_of_an_epoch_is_the_mean_over_its_examples(data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[float, int]] = []

    class Watched(sequences_impl.SequenceLearner):
        def epoch(self, epoch: int) -> tuple[float, int]:
            with torch.no_grad():
                wanted = float(torch.nn.functional.cross_entropy(self._outputs(self._inputs), self._targets))
            loss, count = super().epoch(epoch)
            seen.append((wanted, count))
            return loss, count

    monkeypatch.setattr(sequences_impl, "SequenceLearner", Watched)
    # Weights hardly change; batches of 64 leave 14 of 270 examples for the last step.
    checkpoint = checkpoint_of(num_epochs=1, learning_rate=1e-9)
    reports: list[EpochReport] = []
    architecture = replace(SMALL, dropout=0.0)
    train(replace(checkpoint, architecture=architecture), Host(data_root=data_root), reports.append)
    assert [count for _, count in seen] == [270]
    assert reports[0].loss_nats == pytest.approx(seen[0][0], abs=1e-5)


def test_an_interrupted_training_resumes_to_the_same_weights_and_scores(data_root: Path, tmp_path: Path) -> None:
    whole, reports = trained(Host(data_root=data_root), selection="best-on-test", evaluate_every=1)
    host = Host(data_root=data_root, state_path=tmp_path / "state")
    for epoch in (1, 3):
        with pytest.raises(KeyboardInterrupt):
            train(checkpoint_of(selection="best-on-test", evaluate_every=1), host, interrupt_after(epoch))
    resumed, rest = trained(host, selection="best-on-test", evaluate_every=1)
    assert same(resumed, whole)
    assert [each.validation for each in rest] == [each.validation for each in reports[3:]]


def test_denormals_are_zero_in_training_and_change_no_weight(data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denormal() -> float:
        return float(torch.full((), 1e-40) * 1.0)

    seen: list[float] = []
    # Attention is nearly one-hot, so that 100,000 gradients of linear layers are denormal.
    checkpoint = replace(
        checkpoint_of(learning_rate=0.3, num_epochs=2), architecture=replace(SMALL, dim=128, num_heads=1)
    )
    flushed = train(checkpoint, Host(data_root=data_root), lambda report: seen.append(denormal()))
    assert seen == [0.0, 0.0] != [denormal()] * 2
    monkeypatch.setattr(sequences_impl, "flushing_denormals", nullcontext)
    kept = train(checkpoint, Host(data_root=data_root), lambda report: seen.append(denormal()))
    assert 0.0 not in seen[2:]
    assert same(kept, flushed)


def test_best_on_split_scores_a_part_that_is_not_learned_from(data_root: Path) -> None:
    host = Host(data_root=data_root)
    _, reports = trained(host, selection="best-on-split", held_out=0.2, evaluate_every=5)
    assert [each.validation and each.validation.num_examples for each in reports] == [None] * 4 + [54]
    _, whole = trained(host, evaluate_every=5)
    assert reports[0].loss_nats != whole[0].loss_nats


@pytest.mark.parametrize(
    ("selection", "settings", "words"),
    [
        ("last", "best-on-test", "selected on test: the settings are those of the grid with"),
        (
            "best-on-test",
            "best-on-test",
            "the weights are those of the epoch and the settings are those of the grid with",
        ),
        ("best-on-test", "given", "selected on test: the weights are those of the epoch with"),
    ],
)
def test_the_caveat_says_what_was_selected_on_test(selection: str, settings: str, words: str) -> None:
    assert words in replace(RECIPE, selection=selection, settings=settings).caveat


def test_what_was_not_selected_on_test_has_no_caveat() -> None:
    assert replace(RECIPE, selection="best-on-split").caveat == ""
