"""Contradictions within and between sealed records, recognised without the model.

Of records that contradict each other the minority is set aside, and without a majority all: the data alone could tell
which record is right. Records that were set aside are measured again.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import isfinite
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robench.core.records import Provenance, Record
from robench.core.shard import Measurement, Shard, ShardHeader, shard_key
from robench.core.suite import Condition
from robench.store.sealed import DamagedError
from robench.tasks import TASKS
from robench.tasks.consistency import contradiction_of

# Places of examples are int64.
MOST_EXAMPLES = 1 << 53
_DECIDED = ("perturbation_key", "weights_digest", "task", "seed", "batch_size", "dtype")


def check_header(shard: ShardHeader, provenance: Provenance) -> None:
    """Refuse a header whose numbers contradict each other, or its keys; raises DamagedError with the field."""
    size = shard.dataset.num_examples
    if size > MOST_EXAMPLES:
        raise DamagedError(f"its num_examples is {size:.3g}, above {MOST_EXAMPLES}")
    if not 0 <= shard.start < shard.stop <= size:
        raise DamagedError(f"its start and stop are {shard.start} and {shard.stop}, of {size} num_examples")
    if shard.key != (key := shard_key(shard.measurement_key, shard.start, shard.stop)):
        raise DamagedError(f"its key is {shard.key}, and that of its measurement_key, start and stop is {key}")
    if shard.batch_size < 1:
        raise DamagedError(f"its batch_size is {shard.batch_size}, below 1")
    if not (isfinite(provenance.seconds) and provenance.seconds >= 0):
        raise DamagedError(f"its seconds are {provenance.seconds}, wanted a finite number of at least 0")
    try:
        datetime.fromisoformat(provenance.finished_at)
    except ValueError as error:
        raise DamagedError(f"its finished_at must be a time in ISO 8601, got {provenance.finished_at!r:.60}") from error


@dataclass(slots=True)
class Promises:
    """Promises about records, known before they are read.

    Attributes:
        conditions: by the name or the fingerprint of the data, and the key of the perturbation.
        headers: of measurements whose model, data and settings are known, by their key.
    """

    conditions: dict[tuple[str, str], Condition] = field(default_factory=dict)
    headers: dict[str, ShardHeader] = field(default_factory=dict)

    def add(self, conditions: Iterable[Condition], measurements: Iterable[Measurement]) -> None:
        """Add conditions of suites, and measurements that were planned."""
        for condition in conditions:
            dataset, key = condition.dataset, condition.perturbation_key
            for data in (dataset.name, dataset.known_fingerprint):
                if data is not None:
                    self.conditions[data, key] = condition
        for each in measurements:
            self.headers[each.key] = Shard(measurement=each, start=0, stop=each.num_examples).header

    def check_header(self, shard: ShardHeader) -> None:
        """Refuse a header that contradicts its planned measurement; raises DamagedError with the field."""
        if (planned := self.headers.get(shard.measurement_key)) is None:
            return
        wanted, found = _decided(planned), _decided(shard)
        for name in wanted.keys() & found.keys():
            if wanted[name] != found[name]:
                raise DamagedError(f"its {name} is {found[name]!r}, and its measurement_key is of {wanted[name]!r}")

    def check_record(self, record: Record) -> None:
        """Refuse a record that contradicts itself or its condition; raises DamagedError with the field.

        That ids are different is left to ``DataClaims``.
        """
        shard, data = record.shard, record.shard.dataset
        self.check_header(shard)
        condition = self.conditions.get((data.name, shard.perturbation_key))
        condition = condition or self.conditions.get((data.fingerprint, shard.perturbation_key))
        if problem := contradiction_of(TASKS[shard.task], shard, record.outcomes, condition, ids_are_known=True):
            raise DamagedError(problem)


@dataclass(frozen=True, slots=True)
class Claim:
    """Statement of records about the data of examples from ``start`` on, with the files that make it.

    Attributes:
        columns: hashes of the ids, and values of the facts, by name.
        known: where facts are known, by name.
    """

    start: int
    columns: Mapping[str, NDArray[np.int64]]
    known: Mapping[str, NDArray[np.bool_]]
    sources: dict[Path, None] = field(default_factory=dict)

    def is_same(self, other: "Claim") -> bool:
        """Return whether another claim about the same examples says the same."""
        return all(np.array_equal(self.columns[name], other.columns[name]) for name in self.columns) and all(
            np.array_equal(self.known[name], other.known[name]) for name in self.known
        )

    def contradicts(self, other: "Claim") -> bool:
        """Return whether both have other ids or facts of one example."""
        start, stop = max(self.start, other.start), min(self.stop, other.stop)
        if start >= stop:
            return False
        one, two = slice(start - self.start, stop - self.start), slice(start - other.start, stop - other.start)
        for name, column in self.columns.items():
            differ = column[one] != other.columns[name][two]
            if name in self.known:
                differ &= self.known[name][one] & other.known[name][two]
            if differ.any():
                return True
        return False

    @property
    def stop(self) -> int:
        """Return the end of its examples."""
        return self.start + len(self.columns[_ID])

    def statements(self) -> Iterator[tuple[str, int, int]]:
        """Yield names of columns, each with an example and its value, and the example of each id."""
        for name, column in self.columns.items():
            known = self.known.get(name)
            for number, value in enumerate(column.tolist()):
                if known is None or known[number]:
                    yield name, self.start + number, value
        for number, code in enumerate(self.columns[_ID].tolist()):
            yield _PLACE, code, self.start + number


_ID, _PLACE = "example_id", "place of an example_id"
Group = tuple[str, str]


class DataClaims:
    """Ids, targets and further facts of examples, as stated by records, by task and data."""

    def __init__(self) -> None:
        self._claims: dict[Group, dict[tuple[int, int], list[Claim]]] = {}
        self._changed: set[Group] = set()
        self._contested: set[Group] = set()

    def add(self, source: Path, record: Record) -> None:
        """Add the statement of a record in a file."""
        group, claim = _group_of(record), _claim_of(record)
        of_group = self._claims.setdefault(group, {})
        for each in of_group.setdefault((claim.start, claim.stop), []):
            if each.is_same(claim):
                each.sources[source] = None
                return
        if any(claim.contradicts(each) for several in of_group.values() for each in several):
            self._contested.add(group)
        claim.sources[source] = None
        of_group[claim.start, claim.stop].append(claim)
        self._changed.add(group)

    @property
    def agree(self) -> bool:
        """Return whether no two records contradict each other, and no id is of two examples."""
        for group in self._changed - self._contested:
            claims = [each for several in self._claims[group].values() for each in several]
            codes = np.concatenate([each.columns[_ID] for each in claims])
            places = np.concatenate([np.arange(each.start, each.stop) for each in claims])
            order = np.lexsort((places, codes))
            is_same = np.diff(codes[order]) == 0
            if (np.diff(places[order])[is_same] != 0).any():
                self._contested.add(group)
        self._changed.clear()
        return not self._contested

    def outvoted(self) -> dict[Path, str]:
        """Return the files whose records others contradict, each with the reason; none if all agree."""
        lost: dict[Path, str] = {}
        for group in () if self.agree else sorted(self._contested):
            votes = Votes()
            for claim in (each for several in self._claims[group].values() for each in several):
                for name, subject, value in claim.statements():
                    votes.add((name, subject), value, claim.sources)
            lost |= votes.outvoted()
        return lost


def _group_of(record: Record) -> Group:
    return record.shard.task, record.shard.dataset.fingerprint


def _claim_of(record: Record) -> Claim:
    outcomes, shard = record.outcomes, record.shard
    each = len(outcomes) // (shard.stop - shard.start)
    columns = {_ID: np.array([*map(hash, outcomes.ids[::each].tolist())], np.int64)}
    known = {}
    for name, known_with in TASKS[shard.task].facts.items():
        known[name] = outcomes.known(known_with)[::each]
        columns[name] = np.where(known[name], outcomes.filled(name, 0)[::each], 0)
    return Claim(shard.start, columns, known)


class Votes:
    """Values of subjects, such as a field of an example, each with the files that state it."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, Hashable], dict[Hashable, dict[Path, None]]] = {}

    def add(self, subject: tuple[str, Hashable], value: Hashable, sources: Collection[Path]) -> None:
        """Add a value that files state."""
        self._values.setdefault(subject, {}).setdefault(value, {}).update(dict.fromkeys(sources))

    def outvoted(self) -> dict[Path, str]:
        """Return the files that state a value other than the one that most files state, each with the reason."""
        lost: dict[Path, str] = {}
        for (name, subject), values in self._values.items():
            if len(values) < 2:
                continue
            most, next_most, *_ = sorted(values, key=lambda value: -len(values[value]))
            is_tied = len(values[most]) == len(values[next_most])
            for value, sources in values.items():
                if value == most and not is_tied:
                    continue
                other = next_most if value == most else most
                for source in sources:
                    lost.setdefault(source, _reason(name, subject, value, other, next(iter(values[other]))))
        return lost


def _reason(name: str, subject: Hashable, value: Hashable, other: Hashable, path: Path) -> str:
    where = f"{path.parent.name}/{path.name}"
    if name == _PLACE:
        return f"its example_id of example {value} is that of example {other} in {where}"
    if name == _ID:
        return f"its example_id of example {subject} is another one than in {where}"
    place = "" if subject is None else f" of example {subject}"
    return f"its {name}{place} is {value!r}, and {other!r} in {where}"


def headers_outvoted(headers: Mapping[Path, Sequence[ShardHeader]], manifest: Path) -> dict[Path, str]:
    """Return the files of one measurement whose headers others contradict, each with the reason.

    Names may differ, since models and datasets can be renamed, but a manifest has those of one record.
    """
    decided = [(path, _decided(shard)) for path, shards in headers.items() for shard in shards]
    votes = Votes()
    if any(each != decided[0][1] for _, each in decided):
        for path, each in decided:
            for name, value in each.items():
                votes.add((name, None), value, [path])
    lost = votes.outvoted()
    records = [shard for path, shards in headers.items() if path != manifest for shard in shards]
    if records and manifest in headers and manifest not in lost:
        for name, value in _names(headers[manifest][0]).items():
            if all(_names(shard)[name] != value for shard in records):
                lost[manifest] = f"its {name} is {value!r}, unlike in every record of its measurement"
    return lost


def _decided(shard: ShardHeader) -> dict[str, Hashable]:
    """Return all of a header that the key of its measurement decides; what older records lack is left out."""
    found: dict[str, Hashable] = {name: getattr(shard, name) for name in _DECIDED}
    found |= {"fingerprint": shard.dataset.fingerprint, "num_examples": shard.dataset.num_examples}
    return found if shard.tensors_digest is None else found | {"tensors_digest": shard.tensors_digest}


def _names(shard: ShardHeader) -> dict[str, str]:
    return {"checkpoint": shard.checkpoint, "condition": shard.condition, "dataset": shard.dataset.name}
