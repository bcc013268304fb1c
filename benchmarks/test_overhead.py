"""What the harness costs: PGD-20 through ``evaluate`` over the bare passes that it cannot do without."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction
from statistics import median
from typing import TYPE_CHECKING

import pytest
import torch
from torch.nn.functional import cross_entropy

import robench
from robench.attacks.pgd import Pgd
from robench.core.shard import Measurement, Shard
from robench.core.suite import Condition
from robench.datasets.digits import DIGITS
from robench.declare import find_checkpoints
from robench.evaluation.evaluate import evaluate
from robench.models.loading import resolve

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

    from robench.core.protocols import Batch, Model

NUM_STEPS, BATCH_SIZE, NUM_ROUNDS = 20, 100, 9
PGD = Pgd(epsilon=Fraction(8, 255), step_size=Fraction(2, 255), num_steps=NUM_STEPS)
LARGEST_RATIO = 1.09


def bare_passes(victim: Model, batch: Batch) -> None:
    """20 forward and backward passes for the input alone, and one final forward."""
    inputs = batch.inputs.clone().requires_grad_(True)
    for _ in range(NUM_STEPS):
        loss = cross_entropy(victim.outputs(inputs), batch.targets, reduction="sum")
        torch.autograd.grad(loss, inputs)
    with torch.no_grad():
        victim.outputs(inputs)


def seconds(function: Callable[[], object]) -> float:
    """Of the processor: on one thread that is what a machine without other work would take."""
    started = time.process_time()
    function()
    return time.process_time() - started


@pytest.mark.parametrize("name", ["digits-vit", "digits-symvit", "digits-rpc-symvit"])
def test_pgd_20_through_evaluate_takes_little_more_than_the_bare_passes(name: str, benchmark: BenchmarkFixture) -> None:
    torch.set_num_threads(1)
    (checkpoint,) = find_checkpoints([name], [])
    dataset, victim = robench.load_dataset("digits"), robench.load_checkpoint(name)
    measurement = Measurement(
        checkpoint=checkpoint,
        condition=Condition(name="pgd", dataset=DIGITS, perturbation=PGD),
        weights_digest=resolve(checkpoint)[1],
        dataset=dataset.identity,
        seed=0,
        batch_size=BATCH_SIZE,
    )
    shard, batch = Shard(measurement=measurement, start=0, stop=BATCH_SIZE), dataset.batch(0, BATCH_SIZE)
    evaluate(shard, victim, dataset)
    # In turns, so that whatever else the machine does slows both alike.
    pairs = [
        (seconds(lambda: evaluate(shard, victim, dataset)), seconds(lambda: bare_passes(victim, batch)))
        for _ in range(NUM_ROUNDS)
    ]
    ratio = median(ours / bare for ours, bare in pairs)
    benchmark.extra_info["ratio to bare passes"] = round(ratio, 3)
    benchmark.pedantic(evaluate, args=(replace(shard), victim, dataset), rounds=1)
    print(f"\n{name}: PGD-20 through evaluate takes {ratio:.3f} of the bare passes")
    assert ratio <= LARGEST_RATIO
