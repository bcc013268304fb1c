"""``robench train --jobs``: many trainings in a stated order, each with its weights, history and digest."""

from hashlib import sha256
from pathlib import Path

import pytest
from conftest import Robench
from queue_examples import DIVERGING, FIELDS, write_registry

from robench.cli.train_command import _trainings
from robench.core.errors import UsageError, WeightsError
from robench.declare import read_registry
from robench.training.history import read_history


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    return write_registry(tmp_path / "mine.yaml", {"first": FIELDS, "broken": DIVERGING, "second": FIELDS})


@pytest.mark.slow
def test_a_queue_trains_what_has_no_weights_and_one_that_fails_stops_no_other(
    robench: Robench, registry: Path, tmp_path: Path
) -> None:
    options = ("--registry", registry, "--state", tmp_path / "state")
    ended = robench("train", "broken", "first@1", "--jobs", 1, "--keep-epochs", tmp_path / "epochs", *options)
    assert ended.code == 1
    assert "failed: training broken: the loss of epoch" in ended.stderr
    assert "2 of 2 trainings ended" in ended.stderr
    assert ended.stdout.startswith("first@1: ")
    entry = read_registry(registry)["first@1"]
    weights = registry.parent / entry.weights.uri
    assert sha256(weights.read_bytes()).hexdigest() == entry.weights.sha256
    kept = sorted((tmp_path / "epochs").glob("first@1-*"))
    assert [path.name for path in kept] == [f"first@1-epoch-00{epoch}.safetensors" for epoch in range(4)]
    assert kept[-1].read_bytes() == weights.read_bytes()
    assert list(entry.expected) == ["top1_accuracy"]
    assert len(read_history(weights.with_suffix(".history.json")).epochs) == 3
    # Nothing is left of a training that ended, and of one that failed its last whole epoch.
    assert [path.name for path in (tmp_path / "state").iterdir() if "first" in path.name] == []
    # Missing weights are made again, here in this process without a queue: the same bytes.
    registered = registry.read_text()
    weights.unlink()
    assert robench("train", "first@1", "--registry", registry).code == 0
    assert sha256(weights.read_bytes()).hexdigest() == entry.weights.sha256
    assert registry.read_text() == registered
    again = robench("train", "first@1", "--jobs", 1, *options)
    assert (again.code, again.stdout) == (0, "")
    assert "1 of 1 models are left out, since the registry has the digest of their weights: first@1." in again.stderr


def test_weights_that_come_out_otherwise_than_registered_are_not_written(robench: Robench, registry: Path) -> None:
    text, weights = registry.read_text(), registry.parent / "weights" / "second.safetensors"
    head, tail = text.split("  second:")
    registry.write_text(f"{head}  second:{tail.replace('sha256: null', 'sha256: ' + 32 * 'ab')}")
    ended = robench("train", "second", "--registry", registry)
    assert ended.code == WeightsError.exit_code
    assert f"wanted the {32 * 'ab'} of the registry" in ended.stderr
    assert not weights.exists()


def test_an_entry_without_expected_scores_gets_the_measured_ones(robench: Robench, registry: Path) -> None:
    before = registry.read_text()
    assert robench("train", "second", "--registry", registry).code == 0
    entry = read_registry(registry)["second"]
    wanted = before.split("  second:")[1].replace("sha256: null", f"sha256: {entry.weights.sha256}")
    score = entry.expected["top1_accuracy"]
    assert registry.read_text().split("  second:")[1] == wanted.replace("{}", f"{{top1_accuracy: {score!r}}}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("first@1", "--seeds", "2", "--jobs", "1"), "'first@1' is one seed of 'first' already"),
        (("first@x",), "unknown model 'first@x'"),
        (
            ("first", "--jobs", "2", "--output", "x.safetensors"),
            "--output is the file of one model, but --jobs was given",
        ),
        (("first", "--jobs", "0"), "0 is not in the range"),
    ],
)
def test_impossible_queues_are_refused(
    robench: Robench, registry: Path, arguments: tuple[str, ...], message: str
) -> None:
    ended = robench("train", *arguments, "--registry", registry)
    assert ended.code == UsageError.exit_code
    assert message in ended.stderr


def test_seeds_follow_each_other_and_not_the_entries(registry: Path) -> None:
    entries = {name: (registry, each) for name, each in read_registry(registry).items()}
    names = [each.name for _, each in _trainings(["second", "first"], (0, 1), entries)]
    assert names == ["second", "first", "second@1", "first@1"]
