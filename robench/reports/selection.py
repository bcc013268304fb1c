"""Selection of a suite's results: relevant shards, the newest identity, and a cover of the examples."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from robench.core.shard import EXACT_DTYPE
from robench.evaluation.actions import AUDIT_EXAMPLES, audits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from robench.core.records import Failure, Record
    from robench.core.shard import ShardHeader
    from robench.core.suite import Condition, Suite


def needs(
    suite: Suite, *, seed: int | None = None, precision: str | None = EXACT_DTYPE
) -> Callable[[ShardHeader], bool]:
    """Return a predicate that selects the shards of a suite, for reading records of a store.

    Names of conditions are ignored: results of another suite under another name are used as well. A ``seed`` of None
    stands for any, and a ``precision`` of None for all number formats of the model's passes.
    """
    sources = {(each, suite.batch_size) for condition in suite.conditions for each in sources_of(condition)}
    sources |= {(each, AUDIT_EXAMPLES) for condition in audits_of(suite) for each in sources_of(condition)}

    def is_needed(shard: ShardHeader) -> bool:
        size = shard.batch_size
        return (
            ((source_of_shard(shard), size) in sources or (source_of_data(shard), size) in sources)
            and shard.task == suite.task
            and (seed is None or shard.seed == seed)
            and (precision is None or shard.dtype == precision)
        )

    return is_needed


def source_of_condition(condition: Condition) -> tuple[str, str]:
    """Return the dataset's name and the perturbation's key that a shard of the condition must have."""
    return condition.dataset.name, condition.perturbation_key


def sources_of(condition: Condition) -> tuple[tuple[str, str], ...]:
    """Return the sources of a condition: its dataset by name, and the same data under any name if they are known.

    The same published data may have been measured as one of robench's datasets and as a user's.
    """
    fingerprint = condition.dataset.known_fingerprint
    named = source_of_condition(condition)
    return (named,) if fingerprint is None else (named, (fingerprint, condition.perturbation_key))


def source_of_data(shard: ShardHeader) -> tuple[str, str]:
    """Return the fingerprint of the data in place of their name."""
    return shard.dataset.fingerprint, shard.perturbation_key


def source_of_shard(shard: ShardHeader) -> tuple[str, str]:
    """Return the same of a shard."""
    return shard.dataset.name, shard.perturbation_key


def newest(results: Sequence[Record | Failure], identity: Callable[[ShardHeader], str]) -> tuple[Record | Failure, ...]:
    """Return the results of the latest identity; results of equal identity are kept or dropped together.

    Times are ISO 8601 in UTC, which sorts as text; ties go to the greater identity.
    """
    if not results:
        return ()
    _, latest = max((result.provenance.finished_at, identity(result.shard)) for result in results)
    return tuple(result for result in results if identity(result.shard) == latest)


def tile(records: Iterable[Record], num_examples: int) -> tuple[Record, ...]:
    """Return records that contain each measured example of the first ``num_examples`` once, in dataset order.

    Runs with different limits leave overlapping shards. Among those with the same start the longest is used, and of
    later ones only the missing examples. The result does not depend on the order of the records.
    """
    tiles: list[Record] = []
    position = 0
    for record in sorted(records, key=_by_start_then_longest):
        if max(position, record.shard.start) >= num_examples:
            break
        if record.shard.stop > position:
            tiles.append(_from(record, position))
            position = record.shard.stop
    return tuple(tiles)


def _by_start_then_longest(record: Record) -> tuple[int, int, str, str]:
    return record.shard.start, -record.shard.stop, record.provenance.finished_at, record.provenance.device


def _from(record: Record, position: int) -> Record:
    shard = record.shard
    if position <= shard.start:
        return record
    # Outcomes of one example, at each budget of a sweep, are adjacent.
    each = len(record.outcomes) // (shard.stop - shard.start)
    outcomes = record.outcomes[(position - shard.start) * each :]
    return replace(record, shard=replace(shard, start=position), outcomes=outcomes)
