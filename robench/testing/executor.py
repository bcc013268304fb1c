"""Contract of executors: ``check_executor(MyExecutor())``."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace

from robench.core.protocols import Executor
from robench.core.records import Failure, Record
from robench.core.shard import DatasetIdentity, Measurement, Shard, into_shards
from robench.core.suite import Condition
from robench.datasets.digits import DIGITS
from robench.declare import find_checkpoints
from robench.executors import ExecutorBase, WorkerPool
from robench.executors.stub import Stub
from robench.perturbations.clean import Clean
from robench.scheduling import ShardQueue
from robench.testing.expectations import DECLARATION_CHECKS, BrokenPromiseError, require, run_checks, subject_of

__all__ = ["EXECUTOR_CHECKS", "check_executor"]

NUM_WORKERS = 2
SHARDS_PER_MODEL = 6
NUM_EXAMPLES = 50
# As the stub has it.
FAILING_START = 3 * NUM_EXAMPLES
# A queue that refuses this often is asked again for seconds by executors that ask within a second.
NUM_REFUSALS = 8


def check_executor(declaration: ExecutorBase) -> None:
    """Check that an executor fulfils all contracts of robench's own executors, with two workers where it has some.

    Each check uses the executor anew.
    """
    subject = subject_of("executor", declaration, ExecutorBase)
    run_checks(subject, (*DECLARATION_CHECKS, *EXECUTOR_CHECKS), declaration)


def without_work_nothing_starts(declaration: ExecutorBase) -> None:
    """Check that an empty queue has no results, and that no worker makes an evaluator for it."""

    def refuse(device: str) -> Stub:
        raise BrokenPromiseError("makes an evaluator without any shard; expected nothing to be started")

    executors = [executor_of(declaration)]
    if not declaration.is_in_process:
        executors.append(declaration.executor(WorkerPool(make=refuse, device="cpu", num_workers=NUM_WORKERS)))
    for executor in executors:
        found = len(list(executor.execute(ShardQueue([]))))
        require(not found, f"yields {found} results without any shard", "none")


def every_shard_has_one_result_and_failures_stop_nothing(declaration: ExecutorBase) -> None:
    """Check that each shard has exactly its own result, on a CPU as asked for, also after a failure."""
    results = list(executor_of(declaration).execute(ShardQueue(shards_for_tests())))
    require_once(results, shards_for_tests())
    failed = sorted({result.shard.start for result in results if isinstance(result, Failure)})
    found = f"has failures at the starts {failed}"
    require(failed == [FAILING_START], found, f"the evaluator's own at {FAILING_START}, in place of records")
    devices = sorted({result.provenance.device for result in results})
    require(devices == ["cpu"], f"makes evaluators for {', '.join(devices)}", "cpu, the device of the pool")


def draining_starts_no_further_shard_and_loses_none(declaration: ExecutorBase) -> None:
    """Check that after ``drain`` the shards under way have results, and the others stay in the queue."""
    executor, work = executor_of(declaration), ShardQueue(shards_for_tests())
    results = executor.execute(work)
    found = [next(results)]
    executor.drain()
    found += list(results)
    total = len(shards_for_tests())
    counted = f"has {len(found)} results and leaves {len(work)} of {total} shards after it was drained"
    require(len(found) + len(work) == total, counted, "a result for each shard that it took")
    most = 1 + 2 * NUM_WORKERS
    require(len(found) <= most, counted, f"at most {most} results, those under way")


def shards_of_other_runs_are_waited_for(declaration: ExecutorBase) -> None:
    """Check that an executor asks again while shards are left but none can be taken."""
    wanted = shards_for_tests()[:2]
    work = Leased(wanted)
    results = list(executor_of(declaration).execute(work))
    require_once(results, wanted)


def a_shard_given_back_is_measured(declaration: ExecutorBase) -> None:
    """Check that shards that come back while others are measured have results, too."""
    wanted = shards_for_tests()
    *first, last = wanted
    work = ShardQueue(first)
    results: list[Record | Failure] = []
    for result in executor_of(declaration).execute(work):
        if not results:
            work.give_back(last)
        results.append(result)
    require_once(results, wanted)


def it_can_be_left_early(declaration: ExecutorBase) -> None:
    """Check that closing the generator raises nothing, and that the executor's kind can be used again."""
    results = executor_of(declaration).execute(ShardQueue(shards_for_tests()))
    next(results)
    close = getattr(results, "close", None)
    require(close is not None, "yields from an iterator without close", "a generator")
    assert close is not None
    close()
    wanted = shards_for_tests()[:1]
    require_once(list(executor_of(declaration).execute(ShardQueue(wanted))), wanted)


def its_number_of_workers_is_known(declaration: ExecutorBase) -> None:
    """Check that ``num_workers`` is the number asked for, or 0 in the process of the run."""
    wanted = 0 if declaration.is_in_process else NUM_WORKERS
    found = executor_of(declaration).num_workers
    require(found == wanted, f"has num_workers {found}", f"{wanted}, as asked for")


EXECUTOR_CHECKS = (
    without_work_nothing_starts,
    every_shard_has_one_result_and_failures_stop_nothing,
    draining_starts_no_further_shard_and_loses_none,
    shards_of_other_runs_are_waited_for,
    a_shard_given_back_is_measured,
    it_can_be_left_early,
    its_number_of_workers_is_known,
)


class Leased(ShardQueue):
    """Queue whose shards another run holds for a while."""

    num_refused = 0

    def take(self, worker: Hashable) -> Shard | None:
        """Return no shard at first."""
        if self.num_refused < NUM_REFUSALS:
            self.num_refused += 1
            return None
        return super().take(worker)


def executor_of(declaration: ExecutorBase) -> Executor:
    """Return the executor of a pool of two, or of the one that the process of the run is."""
    count = 1 if declaration.is_in_process else NUM_WORKERS
    devices = () if declaration.is_elsewhere else ("cpu",) * count
    return declaration.executor(WorkerPool(make=Stub, devices=devices, device="cpu", num_workers=count))


def shards_for_tests() -> list[Shard]:
    """Return the shards of two models under one condition."""
    num_examples = SHARDS_PER_MODEL * NUM_EXAMPLES
    (checkpoint,) = find_checkpoints(["digits-vit"])
    measurements = [
        Measurement(
            checkpoint=replace(checkpoint, name=name),
            condition=Condition(name="clean", dataset=DIGITS, perturbation=Clean()),
            weights_digest=name * 64,
            dataset=DatasetIdentity(name=DIGITS.name, fingerprint="f" * 64, num_examples=num_examples),
            seed=0,
            batch_size=NUM_EXAMPLES,
        )
        for name in "ab"
    ]
    return list(into_shards(measurements, batches_per_shard=1))


def require_once(results: Sequence[Record | Failure], wanted: Sequence[Shard]) -> None:
    """Require exactly one result for each shard."""
    counted, keys = Counter(result.shard.key for result in results), {shard.key for shard in wanted}
    lacking, strange = len(keys - counted.keys()), len(counted.keys() - keys)
    twice = sum(count > 1 for count in counted.values())
    found = f"has no result of {lacking} shards, {twice} with several and {strange} of no shard"
    require(not (lacking or strange or twice), found, f"one result for each of {len(wanted)} shards")
