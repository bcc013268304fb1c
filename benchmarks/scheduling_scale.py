"""Scale of the scheduler: a million shards planned, and the overhead of handing out one.

    python benchmarks/scheduling_scale.py plan
    python benchmarks/scheduling_scale.py dispatch /tmp/results

Prints wall-clock and CPU seconds; on a machine with other work only the latter mean much.
"""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from robench.attacks.pgd import Pgd
from robench.core.columns import Outcomes
from robench.core.records import Provenance, Record
from robench.core.shard import DatasetIdentity, Measurement, into_shards
from robench.core.suite import Condition
from robench.datasets.digits import DIGITS
from robench.declare import find_checkpoints
from robench.executors import ProcessExecutor
from robench.scheduling import ShardQueue, run_shards
from robench.store import FolderStore
from robench.tasks.classification import ClassificationOutcome

if TYPE_CHECKING:
    from robench.core.shard import Shard

BATCH_SIZE = 50
NUM_WORKERS = 2


def attack(num_steps: int) -> Pgd:
    """Return PGD with so many steps."""
    return Pgd(epsilon=Fraction(8, 255), relative_step=Fraction(1, 4), num_steps=num_steps)


def measurements(num_models: int, num_conditions: int, num_examples: int) -> list[Measurement]:
    """Return measurements of models and conditions that differ from each other."""
    (checkpoint,) = find_checkpoints(["digits-vit"], [])
    data = DatasetIdentity(name="digits", fingerprint="f", num_examples=num_examples)
    return [
        Measurement(
            checkpoint=replace(checkpoint, name=f"model-{model}"),
            condition=Condition(name=f"pgd-{steps}", dataset=DIGITS, perturbation=attack(steps)),
            weights_digest=f"{model:064x}",
            dataset=data,
            seed=0,
            batch_size=BATCH_SIZE,
        )
        for model in range(num_models)
        for steps in range(1, num_conditions + 1)
    ]


def plan_a_million() -> None:
    """Plan 50 models under 20 conditions of 50,000 examples in batches of 50."""
    wanted = measurements(50, 20, 50_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = time.perf_counter(), time.process_time()
    queue = ShardQueue(into_shards(wanted, 1))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"{len(queue):,} shards planned in {wall:.1f} s ({cpu:.1f} s of CPU time) and {memory:.0f} MiB")
    wall, cpu = time.perf_counter(), time.process_time()
    for number in range(len(queue)):
        queue.take(number % 64)
    print(f"taken by 64 workers in {time.perf_counter() - wall:.1f} s ({time.process_time() - cpu:.1f} s of CPU time)")


@dataclass(frozen=True, slots=True)
class Nothing:
    """Evaluator that measures nothing; worker processes import it from this file."""

    def __call__(self, shard: Shard, following: Shard | None = None) -> Record:
        """Return a record with plain outcomes."""
        row = ClassificationOutcome(
            example_id="", target=1, prediction=1, correct_top1=True, correct_top5=True, confidence=0.5, loss_nats=0.7
        )
        rows = (replace(row, example_id=f"{index:05d}") for index in range(shard.start, shard.stop))
        provenance = Provenance(device="cpu", versions={}, seconds=0.0, finished_at="2026-11-23T00:00:00+00:00")
        return Record(shard=shard.header, outcomes=Outcomes.of(rows, ClassificationOutcome), provenance=provenance)


def dispatch(folder: Path, num_shards: int = 2000) -> None:
    """Measure nothing in two worker processes, and store it in a folder."""
    shards = list(into_shards(measurements(2, 2, num_shards * BATCH_SIZE // 4), 1))
    times: list[tuple[float, float]] = []
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    run_shards(
        shards,
        ProcessExecutor([Nothing()] * NUM_WORKERS),
        FolderStore(folder),
        lambda progress: times.append((time.perf_counter(), time.process_time())),
    )
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    # The first results wait for the workers to start.
    (wall_first, cpu_first), (wall_last, cpu_last) = times[len(times) // 10], times[-1]
    counted = len(times) - 1 - len(times) // 10
    wall, cpu = (wall_last - wall_first) / counted, (cpu_last - cpu_first) / counted
    of_workers = (ended.ru_utime + ended.ru_stime - children.ru_utime - children.ru_stime) / len(shards)
    print(
        f"{len(shards):,} shards: {1000 * wall:.2f} ms each, {1000 * cpu:.2f} ms of CPU time in the parent, "
        f"{1000 * of_workers:.2f} ms in the workers with their start"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["plan"]:
        plan_a_million()
    elif len(sys.argv) == 3 and sys.argv[1] == "dispatch":
        dispatch(Path(sys.argv[2]))
    else:
        sys.exit(__doc__)
