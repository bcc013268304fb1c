"""Selection of a suite's results: relevant shards, the newest identity, and the coverage of each condition."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from robench.core.columns import Outcomes
from robench.core.errors import IncompleteError
from robench.core.records import Failure, Record, join
from robench.core.shard import EXACT_DTYPE, ShardHeader
from robench.core.suite import Condition, Suite
from robench.evaluation.actions import AUDIT_EXAMPLES, audits_of


def needs(
    suite: Suite, *, seed: int | None = None, precision: str | None = EXACT_DTYPE
) -> Callable[[ShardHeader], bool]:
    """Return a predicate that selects the shards of a suite, for reading records of a store.

    Names of conditions are ignored: results of another suite under another name are used as well. None as
    ``seed`` or ``precision``, the number format of the model's passes, matches any.
    """
    sources = {
        (each, suite.batch_size_of(condition)) for condition in suite.conditions for each in sources_of(condition)
    }
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Coverage of one condition by one model's results.

    Attributes:
        num_wanted: number of examples of the condition, None if the size of its dataset is unknown.
        records: measured examples, each once, in dataset order.
        failures: failed shards with a missing example, in dataset order.
        has_older: whether records of older weights, data or settings were ignored.
    """

    condition: str
    num_wanted: int | None
    records: tuple[Record, ...]
    failures: tuple[Failure, ...]
    has_older: bool
    _joined: dict[str | None, Outcomes] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def num_in(self) -> int:
        """Return the number of measured examples."""
        wanted = self.num_wanted or 0
        return sum(min(record.shard.stop, wanted) - record.shard.start for record in self.records)

    @property
    def missing(self) -> int | None:
        """Return the number of missing examples; None if it is unknown."""
        return None if self.num_wanted is None else self.num_wanted - self.num_in

    @property
    def outcomes(self) -> Outcomes:
        """Return the outcomes of all examples, in dataset order; of sweeps see ``outcomes_at``; raises like it."""
        return self.outcomes_at(None)

    def outcomes_at(self, epsilon: str | None) -> Outcomes:
        """Return the outcomes at one budget of a sweep, in dataset order; None for other conditions.

        Raises IncompleteError if examples are missing.
        """
        if self.num_wanted is None:
            raise IncompleteError(f"nothing is measured on the dataset of {self.condition}")
        # Several columns and flags read the same.
        if epsilon not in self._joined:
            records = [replace(each, outcomes=each.outcomes.at_budget(epsilon)) for each in self.records]
            self._joined[epsilon] = join(records, self.num_wanted)
        return self._joined[epsilon]

    @property
    def limit(self) -> int | None:
        """Return the largest limit of the runs that measured the examples; None if one of them had none."""
        limits = [record.provenance.limit for record in self.records]
        return max((each for each in limits if each is not None), default=None) if None not in limits else None

    @property
    def shards(self) -> list[ShardHeader]:
        """Return the headers of records and failures."""
        return [*(record.shard for record in self.records), *(failure.shard for failure in self.failures)]

    @property
    def devices(self) -> set[str]:
        """Return the kinds of device that measured the outcomes."""
        return {record.provenance.device for record in self.records}


def cover(
    conditions: Sequence[Condition],
    results: Sequence[Record | Failure],
    *,
    dataset_sizes: Mapping[str, int],
    limit: int | None,
) -> dict[str, Coverage]:
    """Return the coverage of each condition, by its name, of one model's results in any order.

    A row uses one set of weights and one state of each dataset, the latest measured: clean and robust accuracy of
    different weights would describe no model. ``dataset_sizes`` has the number of examples of each dataset, for
    conditions without results of the model; ``limit`` is the number of first examples, None for all.
    """
    current = _of_newest_weights_and_data(results)
    return {
        condition.name: _cover_one(
            condition, _serving(condition, results), _serving(condition, current), dataset_sizes, limit
        )
        for condition in conditions
    }


def _cover_one(
    condition: Condition,
    results: Sequence[Record | Failure],
    current: Sequence[Record | Failure],
    dataset_sizes: Mapping[str, int],
    limit: int | None,
) -> Coverage:
    # The architecture, its preprocessing or the number format may have changed where weights and data did not.
    measured = newest(current, lambda shard: shard.measurement_key)
    size = measured[0].shard.dataset.num_examples if measured else dataset_sizes.get(condition.dataset.name)
    num_wanted = _num_wanted(condition, size, limit)
    records = [result for result in measured if isinstance(result, Record)]
    tiles = tile(records, num_wanted or 0)
    return Coverage(
        condition=condition.name,
        num_wanted=num_wanted,
        records=tiles,
        failures=_open_failures(measured, tiles, num_wanted or 0),
        has_older=len(records) < sum(isinstance(result, Record) for result in results),
    )


def _of_newest_weights_and_data(results: Sequence[Record | Failure]) -> list[Record | Failure]:
    of_weights = newest(results, lambda shard: shard.weights_digest)
    datasets = sorted({result.shard.dataset.name for result in of_weights})
    return [
        result
        for dataset in datasets
        for result in newest(
            [result for result in of_weights if result.shard.dataset.name == dataset],
            lambda shard: shard.dataset.fingerprint,
        )
    ]


def _serving(condition: Condition, results: Sequence[Record | Failure]) -> list[Record | Failure]:
    named, *same_data = sources_of(condition)
    found = [result for result in results if source_of_shard(result.shard) == named]
    return found or [result for result in results if source_of_data(result.shard) in same_data]


def _num_wanted(condition: Condition, dataset_size: int | None, limit: int | None) -> int | None:
    bounds = [bound for bound in (condition.num_examples, dataset_size) if bound is not None]
    if not bounds:
        return None
    return min(bounds if limit is None else [*bounds, limit])


def _open_failures(
    results: Sequence[Record | Failure], tiles: Sequence[Record], num_wanted: int
) -> tuple[Failure, ...]:
    failures = (result for result in results if isinstance(result, Failure))
    ordered = sorted(failures, key=lambda failure: (failure.shard.start, failure.shard.stop, failure.error))
    return tuple(failure for failure in ordered if not _is_covered(failure, tiles, num_wanted))


def _is_covered(failure: Failure, tiles: Sequence[Record], num_wanted: int) -> bool:
    start, stop = failure.shard.start, min(failure.shard.stop, num_wanted)
    inside = sum(max(0, min(stop, record.shard.stop) - max(start, record.shard.start)) for record in tiles)
    return inside >= stop - start
