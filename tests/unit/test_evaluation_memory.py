"""Passes of a shard: outputs are freed before the next one, reading goes ahead, and a device gives a CPU's records."""

import gc
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from classified_examples import Examples, ReadingAhead
from counting_device import DEVICE, waits_counted
from torch import Tensor, nn

from examples import CHECKPOINT, MEASUREMENT
from robench.attacks.fgsm import Fgsm
from robench.attacks.noise import UniformNoise
from robench.attacks.pgd import Pgd
from robench.core.columns import Values
from robench.core.outcomes import Outcome
from robench.core.protocols import Batch
from robench.core.records import Record
from robench.core.shard import DatasetIdentity, Shard
from robench.core.suite import Condition
from robench.datasets.digits import DIGITS
from robench.declarations.preprocessing import ImagePreprocessing
from robench.evaluation.evaluate import evaluate
from robench.evaluation.evaluator import ReadAhead
from robench.models.loaded import LoadedModel
from robench.perturbations.clean import Clean
from robench.tasks import TASKS, Task
from robench.tasks.base import Scoring

NUM_TOKENS, NUM_WORDS, BATCH_SIZE = 4, 50, 2


class Tokens:
    """Rules of a task with many outputs an example, of which one number is kept."""

    def check_outputs(self, outputs: Tensor, num_rows: int, model: str) -> None:
        assert outputs.shape == (num_rows, NUM_TOKENS, NUM_WORDS)

    def columns(self, outputs: Sequence[Tensor], targets: Tensor, scoring: Scoring) -> Mapping[str, Values]:
        assert {len(each) for each in (*outputs, targets)} == {BATCH_SIZE}
        return {"l1": Values(np.stack([each.double().numpy().mean((1, 2)) for each in outputs]).mean(0))}


RULES = Tokens()


class Reader:
    """A model that counts how many of its outputs are alive, at most."""

    takes_seeds = False
    device = torch.device("cpu")
    normalisation = torch.zeros(1), torch.ones(1)

    def __init__(self) -> None:
        self.alive: list[weakref.ref[Tensor]] = []
        self.most = 0

    def outputs(self, inputs: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        gc.collect()
        outputs = inputs.mean((1, 2, 3))[:, None, None].expand(-1, NUM_TOKENS, NUM_WORDS).clone()
        self.alive = [each for each in self.alive if each() is not None]
        self.alive.append(weakref.ref(outputs))
        self.most = max(self.most, len(self.alive))
        return outputs


class Indices:
    """Examples of one value each: that of their index over the number of examples."""

    def __init__(self, num_examples: int) -> None:
        self.identity = DatasetIdentity(name="digits", fingerprint="f", num_examples=num_examples)

    def __len__(self) -> int:
        return self.identity.num_examples

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.full((1, 2, 2), index / len(self)), 0

    def batch(self, start: int, stop: int) -> Batch:
        inputs = torch.stack([self[index][0] for index in range(start, stop)])
        ids = tuple(f"{index:04d}" for index in range(start, stop))
        return Batch(ids=ids, inputs=inputs, targets=torch.zeros(len(inputs), dtype=torch.int64))


@pytest.fixture
def _tokens(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # What is there already is none of the outputs: each pass collects all the others.
    gc.freeze()
    task = Task(name="tokens", title="", outcome=Outcome, implementation="test_evaluation_memory:RULES")
    builtin: Any = TASKS.builtin
    monkeypatch.setitem(builtin, "tokens", task)
    yield
    gc.unfreeze()


def run(num_examples: int, num_predictions: int = 1, perturbation: Any = None) -> tuple[Reader, list[Any]]:
    examples, reader = Indices(num_examples), Reader()
    condition = Condition(
        name="c", dataset=DIGITS, perturbation=perturbation or Clean(), num_predictions=num_predictions
    )
    measurement = replace(
        MEASUREMENT,
        checkpoint=replace(CHECKPOINT, task="tokens"),
        condition=condition,
        dataset=examples.identity,
        batch_size=BATCH_SIZE,
    )
    model, dataset = SimpleNamespace(reader=reader), examples
    record = evaluate(Shard(measurement=measurement, start=0, stop=num_examples), model.reader, dataset)  # type: ignore[arg-type]
    return reader, [outcome.l1 for outcome in record.outcomes]


@pytest.mark.usefixtures("_tokens")
@pytest.mark.parametrize("num_examples", [4, 40, 101])
def test_as_many_outputs_are_alive_of_many_examples_as_of_few(num_examples: int) -> None:
    reader, values = run(num_examples)
    assert reader.most == 1
    assert values == pytest.approx([index / num_examples for index in range(num_examples)])


@pytest.mark.usefixtures("_tokens")
def test_all_predictions_of_an_example_are_together() -> None:
    reader, values = run(10, num_predictions=3)
    assert reader.most == 3
    assert values == pytest.approx([index / 10 for index in range(10)])


SHAPE = 3, 2, 2


def test_the_batches_of_a_shard_and_then_what_follows_are_read_ahead() -> None:
    dataset, other = ReadingAhead(60, SHAPE, num_classes=3), ReadingAhead(40, SHAPE, num_classes=3)
    reading = ReadAhead(dataset, dataset.shard(Clean(), 10, 35), lambda: (other, 5, 15))
    for start, stop in ((10, 20), (20, 30), (30, 35)):
        reading.batch(start, stop)
    # The last batch of a shard is shorter.
    assert dataset.calls == [(10, 20), "ahead", (20, 30), (20, 30), "ahead", (30, 35), (30, 35)]
    assert other.calls == ["ahead", (5, 15)]


def test_nothing_is_read_past_the_end_where_nothing_follows() -> None:
    dataset = ReadingAhead(60, SHAPE, num_classes=3)
    ReadAhead(dataset, dataset.shard(Clean(), 0, 10), lambda: None).batch(0, 10)
    assert dataset.calls == [(0, 10)]


def test_a_dataset_that_cannot_read_ahead_is_passed_through() -> None:
    dataset = Examples(20, SHAPE, num_classes=3)
    reading = ReadAhead(dataset, dataset.shard(Clean(), 0, 20), lambda: (dataset, 0, 10))
    assert len(reading) == 20
    assert reading.identity == dataset.identity
    assert torch.equal(reading[3][0], dataset[3][0])
    for start, stop in ((0, 10), (10, 20)):
        found, wanted = reading.batch(start, stop), dataset.batch(start, stop)
        assert found.ids == wanted.ids
        assert torch.equal(found.inputs, wanted.inputs)
        assert torch.equal(found.targets, wanted.targets)


NUM_EXAMPLES, NUM_ROWS = 16, 8
EPSILON = Fraction(8, 255)
EXAMPLES = Examples(NUM_EXAMPLES, (3, 4, 4), num_classes=10)
PREPROCESSING = ImagePreprocessing(mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))


def model_on(device: torch.device) -> LoadedModel:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = nn.Sequential(nn.Flatten(), nn.Linear(48, 16), nn.Tanh(), nn.Linear(16, 10))
    return LoadedModel(module, PREPROCESSING, device)


def record_on(device: torch.device, perturbation: Any) -> tuple[Record, int]:
    shard = EXAMPLES.shard(perturbation, batch_size=NUM_ROWS)
    with waits_counted() as waited:
        model = model_on(device)
        waited.counts.clear()
        return evaluate(shard, model, EXAMPLES), waited.total


@pytest.mark.parametrize(
    ("perturbation", "a_batch"),
    [
        (Clean(), 8),
        (UniformNoise(epsilon=EPSILON), 10),
        (Fgsm(epsilon=EPSILON), 11),
        # The same as of one step: none of PGD's own waits.
        (Pgd(epsilon=EPSILON, step_size=Fraction(2, 255), num_steps=10), 11),
    ],
)
def test_a_batch_waits_for_its_checks_and_its_columns_alone(perturbation: Any, a_batch: int) -> None:
    record, num_waits = record_on(DEVICE, perturbation)
    on_cpu, none = record_on(torch.device("cpu"), perturbation)
    assert none == 0
    # A shard of many passes ends with a comparison of the model's answer with that at the start.
    at_the_end = 4 if sum(perturbation.most_passes or (0,)) >= 10 else 0
    assert num_waits <= a_batch * NUM_EXAMPLES // NUM_ROWS + at_the_end
    assert record.outcomes == on_cpu.outcomes
    assert record.shard == on_cpu.shard
    assert record.provenance.device == DEVICE.type
