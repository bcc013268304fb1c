"""The history of a training: what it holds, how it goes on after an interruption, and what it does not go on from."""

import json
from pathlib import Path
from typing import Any

import pytest

from robench.cli.progress import _epoch_text
from robench.core.errors import StoreUnwritableError, UsageError
from robench.training.base import EpochReport, ValidationScores
from robench.training.history import Epoch, History, history_path, read_history


def report(epoch: int, *, num_epochs: int = 4, loss: float = 0.0, accuracy: float | None = 0.5) -> EpochReport:
    scores = None if accuracy is None else ValidationScores(top1_accuracy=accuracy, loss_nats=1.25, num_examples=8)
    return EpochReport(
        epoch=epoch, num_epochs=num_epochs, loss_nats=loss or 1 / epoch, examples_per_second=epoch, validation=scores
    )


def history(folder: Path, *, checkpoint: str = "mine", dataset: str = "digits") -> History:
    return History(folder / "mine.history.json", checkpoint=checkpoint, dataset=dataset)


def found(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "mine.history.json").read_text())
    return read


def test_it_lies_beside_the_weights() -> None:
    assert history_path(Path("a/mine.safetensors")) == Path("a/mine.history.json")
    assert history_path(Path("a/rkde-a0.1.safetensors")) == Path("a/rkde-a0.1.history.json")


def test_it_has_losses_and_scores_of_every_epoch_and_no_times(tmp_path: Path) -> None:
    kept = history(tmp_path)
    kept.add(report(1))
    kept.add(report(2, accuracy=None))
    assert found(tmp_path) == {
        "checkpoint": "mine",
        "dataset": "digits",
        "num_epochs": 4,
        "epochs": [
            {"epoch": 1, "loss_nats": 1.0, "validation": {"top1_accuracy": 0.5, "loss_nats": 1.25, "num_examples": 8}},
            {"epoch": 2, "loss_nats": 0.5, "validation": None},
        ],
    }


def test_another_precision_than_float32_is_stated_and_continues_no_other(tmp_path: Path) -> None:
    history(tmp_path).add(report(1))
    assert read_history(tmp_path / "mine.history.json").precision == "float32"
    path = tmp_path / "mine.history.json"
    History(path, checkpoint="mine", dataset="digits", precision="bfloat16").add(report(2))
    assert (found(tmp_path)["precision"], [each["epoch"] for each in found(tmp_path)["epochs"]]) == ("bfloat16", [2])
    assert read_history(path).precision == "bfloat16"


def test_it_is_whole_after_every_epoch_with_an_epoch_a_line(tmp_path: Path) -> None:
    kept = history(tmp_path)
    for epoch in range(1, 5):
        kept.add(report(epoch))
        assert [each["epoch"] for each in found(tmp_path)["epochs"]] == list(range(1, epoch + 1))
    assert len((tmp_path / "mine.history.json").read_text().splitlines()) == 1 + 4 + 1


def test_an_interrupted_training_goes_on_in_its_file(tmp_path: Path) -> None:
    for epoch in (1, 2, 3):
        history(tmp_path).add(report(epoch))
    # It had been killed between the history of the third epoch and its state.
    again = history(tmp_path)
    again.add(report(3, loss=7.0))
    again.add(report(4))
    assert [each["loss_nats"] for each in found(tmp_path)["epochs"]] == [1.0, 0.5, 7.0, 0.25]


def test_a_training_from_nothing_begins_a_new_history(tmp_path: Path) -> None:
    for epoch in (1, 2, 3):
        history(tmp_path).add(report(epoch))
    history(tmp_path).add(report(1, loss=9.0))
    assert [each["loss_nats"] for each in found(tmp_path)["epochs"]] == [9.0]


@pytest.mark.parametrize("other", [{"checkpoint": "yours"}, {"dataset": "imagenet-1k"}])
def test_a_history_of_another_training_is_not_gone_on_from(tmp_path: Path, other: dict[str, str]) -> None:
    history(tmp_path, **other).add(report(1))
    history(tmp_path).add(report(2))
    assert [each["epoch"] for each in found(tmp_path)["epochs"]] == [2]
    assert found(tmp_path)["checkpoint"] == "mine"


def test_one_of_another_length_is_not_gone_on_from(tmp_path: Path) -> None:
    history(tmp_path).add(report(1, num_epochs=100))
    history(tmp_path).add(report(2))
    assert [each["epoch"] for each in found(tmp_path)["epochs"]] == [2]


@pytest.mark.parametrize(
    "content", ["", "[]", "null", "{", '{"epochs": 3}', '{"epochs": []}', '{"epochs": [{"loss_nats": 1}]}', "\0\xff"]
)
def test_a_file_that_is_no_history_is_written_anew(tmp_path: Path, content: str) -> None:
    (tmp_path / "mine.history.json").write_text(content, encoding="latin-1")
    history(tmp_path).add(report(2))
    assert [each["epoch"] for each in found(tmp_path)["epochs"]] == [2]


def test_a_folder_that_cannot_be_written_is_an_error_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("a file, where a folder is needed")
    with pytest.raises(StoreUnwritableError, match=r"cannot write the weights to .*folder: .*mine\.history\.json"):
        History(tmp_path / "folder" / "mine.history.json", checkpoint="mine", dataset="digits").add(report(1))


class TestReading:
    def test_what_was_kept_is_read(self, tmp_path: Path) -> None:
        kept = history(tmp_path)
        kept.add(report(1))
        kept.add(report(2, accuracy=None))
        found = read_history(tmp_path / "mine.history.json")
        assert (found.checkpoint, found.dataset, found.num_epochs) == ("mine", "digits", 4)
        scores = ValidationScores(top1_accuracy=0.5, loss_nats=1.25, num_examples=8)
        assert found.epochs == (
            Epoch(epoch=1, loss_nats=1.0, validation=scores),
            Epoch(epoch=2, loss_nats=0.5, validation=None),
        )

    def test_a_loss_that_is_no_number_is_read(self, tmp_path: Path) -> None:
        history(tmp_path).add(report(1, loss=float("inf")))
        assert read_history(tmp_path / "mine.history.json").epochs[0].loss_nats == float("inf")

    @pytest.mark.parametrize(
        "changes",
        [
            {"epochs": []},
            {"epochs": 3},
            {"epochs": [{"epoch": 1, "loss_nats": "x", "validation": None}]},
            {"epochs": [{"epoch": 1e999, "loss_nats": 1, "validation": None}]},
            {"epochs": [{"epoch": 1, "loss_nats": 1, "validation": {"top1_accuracy": None}}]},
            {"epochs": [{"epoch": 1, "loss_nats": 1, "validation": 3}]},
            {"epochs": [{"epoch": number, "loss_nats": 1, "validation": None} for number in (2, 1)]},
            {"num_epochs": None},
        ],
        ids=str,
    )
    def test_what_is_none_is_refused(self, tmp_path: Path, changes: dict[str, Any]) -> None:
        path = tmp_path / "mine.history.json"
        history(tmp_path).add(report(1))
        path.write_text(json.dumps(found(tmp_path) | changes))
        with pytest.raises(UsageError, match=r"mine\.history\.json is not a training history; name a \.history\.json"):
            read_history(path)

    def test_a_file_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"none cannot be read \(No such file or directory\)"):
            read_history(tmp_path / "none")


def test_scores_of_language_models_have_no_accuracy(tmp_path: Path) -> None:
    kept = history(tmp_path)
    scores = ValidationScores(top1_accuracy=None, loss_nats=4.5, num_examples=8192)
    kept.add(EpochReport(epoch=1, num_epochs=2, loss_nats=5.0, examples_per_second=1.0, validation=scores))
    assert found(tmp_path)["epochs"][0]["validation"] == {"top1_accuracy": None, "loss_nats": 4.5, "num_examples": 8192}
    assert read_history(tmp_path / "mine.history.json").epochs == (Epoch(epoch=1, loss_nats=5.0, validation=scores),)


@pytest.mark.parametrize(
    ("scores", "shown"),
    [
        (None, "loss 5.000 nats, 7 examples/s"),
        (
            ValidationScores(top1_accuracy=0.25, loss_nats=4.5, num_examples=8),
            "loss 5.000 nats, 25.0 % right, 7 examples/s",
        ),
        (
            ValidationScores(top1_accuracy=None, loss_nats=4.5, num_examples=8),
            "loss 5.000 nats, validation loss 4.500, 7 examples/s",
        ),
    ],
)
def test_progress_shows_what_scores_there_are(scores: ValidationScores | None, shown: str) -> None:
    done = EpochReport(epoch=1, num_epochs=2, loss_nats=5.0, examples_per_second=7.0, validation=scores)
    assert _epoch_text(done) == shown
