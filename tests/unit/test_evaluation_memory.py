"""The outputs of one pass are freed before the next, since those of a whole shard may not fit into memory."""

import gc
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from examples import CHECKPOINT, MEASUREMENT
from robench.core.columns import Values
from robench.core.outcomes import Outcome
from robench.core.protocols import Batch
from robench.core.shard import DatasetIdentity, Shard
from robench.core.suite import Condition
from robench.datasets.digits import DIGITS
from robench.evaluation.evaluate import evaluate
from robench.perturbations import Clean
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


class Examples:
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
    examples, reader = Examples(num_examples), Reader()
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
