"""Contradictions within and between sealed records, recognised without the model.

Of records that contradict each other the minority is set aside, and without a majority all of them: only the data could
show which record is right. Records that were set aside are measured again.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import isfinite
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robench.core.records import Failure, Manifest, Record
from robench.core.shard import Measurement, Shard, ShardHeader, shard_key
from robench.core.suite import Condition
from robench.store.sealed import DamagedError
from robench.tasks import TASKS
from robench.tasks.consistency import contradiction_of

# Places of examples are int64.
MOST_EXAMPLES = 1 << 53
_DECIDED = ("perturbation_key", "weights_digest", "task", "seed", "batch_size", "dtype")
_ID, _PLACE = "example_id", "place of an example_id"

# Task and fingerprint of the data.
Group = tuple[str, str]
# First example, and the bytes of a table of int64: hashes of ids, then values of each fact and whether they are known.
Claim = tuple[int, bytes]
Numbers = NDArray[np.int64]


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

    def check_header(self, found: Record | Manifest | Failure) -> None:
        """Refuse a header that contradicts itself, its keys or its planned measurement.

        Raises:
            DamagedError: the message names the field.
        """
        shard, provenance = found.shard, found.provenance
        _check_numbers(shard)
        if not (isfinite(provenance.seconds) and provenance.seconds >= 0):
            raise DamagedError(f"its seconds are {provenance.seconds}, wanted a finite number of at least 0")
        try:
            datetime.fromisoformat(provenance.finished_at)
        except ValueError as error:
            at = provenance.finished_at
            raise DamagedError(f"its finished_at must be a time in ISO 8601, got {at!r:.60}") from error
        if (planned := self.headers.get(shard.measurement_key)) is not None:
            wanted, stated = _decided(planned), _decided(shard)
            for name in wanted.keys() & stated.keys():
                if wanted[name] != stated[name]:
                    raise DamagedError(
                        f"its {name} is {stated[name]!r}, and its measurement_key is of {wanted[name]!r}"
                    )

    def check_record(self, record: Record) -> None:
        """Refuse a record that contradicts itself or its condition; raises like ``check_header``.

        Whether ids are different is left to ``DataClaims``.
        """
        self.check_header(record)
        shard, data = record.shard, record.shard.dataset
        condition = self.conditions.get((data.name, shard.perturbation_key))
        condition = condition or self.conditions.get((data.fingerprint, shard.perturbation_key))
        if problem := contradiction_of(TASKS[shard.task], shard, record.outcomes, condition, ids_are_known=True):
            raise DamagedError(problem)


def _check_numbers(shard: ShardHeader) -> None:
    size = shard.dataset.num_examples
    if size > MOST_EXAMPLES:
        raise DamagedError(f"its num_examples is {size:.3g}, above {MOST_EXAMPLES}")
    if not 0 <= shard.start < shard.stop <= size:
        raise DamagedError(f"its start and stop are {shard.start} and {shard.stop}, of {size} num_examples")
    if shard.key != (key := shard_key(shard.measurement_key, shard.start, shard.stop)):
        raise DamagedError(f"its key is {shard.key}, and that of its measurement_key, start and stop is {key}")
    if shard.batch_size < 1:
        raise DamagedError(f"its batch_size is {shard.batch_size}, below 1")


class DataClaims:
    """Ids, targets and further facts of examples, as stated by records, by task and data."""

    def __init__(self) -> None:
        # Equal claims, such as of all conditions on the same examples, are kept once with the files that make them.
        self._claims: dict[Group, dict[Claim, dict[Path, None]]] = {}
        self._changed: set[Group] = set()
        self._contested: set[Group] = set()

    def add(self, source: Path, record: Record) -> None:
        """Add the statement of a record in a file."""
        group, claim = (record.shard.task, record.shard.dataset.fingerprint), _claim_of(record)
        claims = self._claims.setdefault(group, {})
        if claim not in claims:
            self._changed.add(group)
        claims.setdefault(claim, {})[source] = None

    @property
    def agree(self) -> bool:
        """Return whether no two records contradict each other, and no id is of two examples."""
        for group in self._changed - self._contested:
            stated = defaultdict[str, list[tuple[Numbers, Numbers]]](list)
            for claim in self._claims[group]:
                for name, subjects, values in _statements(group, claim):
                    stated[name].append((subjects, values))
            if any(map(_has_two_values, stated.values())):
                self._contested.add(group)
        self._changed.clear()
        return not self._contested

    def outvoted(self) -> dict[Path, str]:
        """Return the files whose records others contradict, each with the reason; none if all agree."""
        lost: dict[Path, str] = {}
        for group in () if self.agree else sorted(self._contested):
            lost |= _outvoted(
                (name, subject, value, sources)
                for claim, sources in self._claims[group].items()
                for name, subjects, values in _statements(group, claim)
                for subject, value in zip(subjects.tolist(), values.tolist(), strict=True)
            )
        return lost


def _claim_of(record: Record) -> Claim:
    outcomes, shard = record.outcomes, record.shard
    each = len(outcomes) // (shard.stop - shard.start)
    rows = [np.array([*map(hash, outcomes.ids[::each].tolist())], np.int64)]
    for name, known_with in TASKS[shard.task].facts.items():
        known = outcomes.known(known_with)[::each]
        rows += [np.where(known, outcomes.filled(name, 0)[::each], 0), known.astype(np.int64)]
    return shard.start, np.stack(rows).tobytes()


def _statements(group: Group, claim: Claim) -> Iterator[tuple[str, Numbers, Numbers]]:
    """Yield names with subjects and their values: the id and the known facts of examples, and the example of an id."""
    start, content = claim
    names = TASKS[group[0]].facts
    ids, *facts = np.frombuffer(content, np.int64).reshape(1 + 2 * len(names), -1)
    examples = start + np.arange(len(ids))
    yield _ID, examples, ids
    for name, values, known in zip(names, facts[::2], facts[1::2], strict=True):
        yield name, examples[known > 0], values[known > 0]
    yield _PLACE, ids, examples


def _has_two_values(stated: Sequence[tuple[Numbers, Numbers]]) -> bool:
    subjects, values = (np.concatenate(each) for each in zip(*stated, strict=True))
    order = np.lexsort((values, subjects))
    is_same = np.diff(subjects[order]) == 0
    return bool((np.diff(values[order])[is_same] != 0).any())


def _outvoted(stated: Iterable[tuple[str, Hashable, Hashable, Iterable[Path]]]) -> dict[Path, str]:
    """Return the files that state a value of a subject other than the one that most files state, with the reason.

    Statements are names, such as of a field, with a subject, such as an example, its value and the files that state it.
    """
    votes: dict[tuple[str, Hashable], dict[Hashable, dict[Path, None]]] = {}
    for name, subject, value, sources in stated:
        votes.setdefault((name, subject), {}).setdefault(value, {}).update(dict.fromkeys(sources))
    lost: dict[Path, str] = {}
    for (name, subject), files in votes.items():
        if len(files) < 2:
            continue
        most, next_most, *_ = sorted(files, key=lambda value: -len(files[value]))
        is_tied = len(files[most]) == len(files[next_most])
        for value in [each for each in files if is_tied or each != most]:
            other = next_most if value == most else most
            for source in files[value]:
                lost.setdefault(source, _reason(name, subject, value, other, next(iter(files[other]))))
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
    lost: dict[Path, str] = {}
    if any(each != decided[0][1] for _, each in decided):
        lost = _outvoted((name, None, value, [path]) for path, each in decided for name, value in each.items())
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
