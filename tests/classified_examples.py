"""Examples in memory as a dataset, and shards of them, for tests of the evaluation."""

from dataclasses import replace
from typing import Any

import torch

from examples import MEASUREMENT
from robench.core.protocols import Batch
from robench.core.shard import DatasetIdentity, Shard
from robench.core.suite import Condition
from robench.datasets.digits import DIGITS


class Examples:
    """Random images (C, H, W) on the CPU, of classes that follow one another."""

    def __init__(self, num_examples: int, shape: tuple[int, int, int], num_classes: int) -> None:
        self.identity = DatasetIdentity(name="digits", fingerprint="f", num_examples=num_examples)
        self.inputs = torch.rand(num_examples, *shape, generator=torch.Generator().manual_seed(0))
        self.targets = torch.arange(num_examples) % num_classes

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.inputs[index], int(self.targets[index])

    def batch(self, start: int, stop: int) -> Batch:
        ids = tuple(f"example/{i}" for i in range(start, stop))
        return Batch(ids=ids, inputs=self.inputs[start:stop], targets=self.targets[start:stop])

    def shard(self, perturbation: Any, start: int = 0, stop: int | None = None, batch_size: int = 10) -> Shard:
        """Return a shard of a condition with that perturbation, by default of all examples."""
        condition = Condition(name="c", dataset=DIGITS, perturbation=perturbation)
        measurement = replace(MEASUREMENT, condition=condition, dataset=self.identity, batch_size=batch_size)
        return Shard(measurement=measurement, start=start, stop=len(self) if stop is None else stop)


class ReadingAhead(Examples):
    """Examples that list what is read: bounds of batches, after ``ahead`` for those that are read ahead."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.calls: list[tuple[int, int] | str] = []

    def batch(self, start: int, stop: int) -> Batch:
        self.calls.append((start, stop))
        return super().batch(start, stop)

    def read_ahead(self, start: int, stop: int) -> None:
        self.calls += ["ahead", (start, stop)]
