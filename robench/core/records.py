"""Records of finished shards and of failed ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from robench.core.columns import Outcomes
from robench.core.errors import IncompleteError
from robench.core.flags import Flag, Observations
from robench.core.shard import ShardHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Device, versions and time of a measurement; never part of a key.

    Attributes:
        device: kind of device, such as ``cpu`` or ``NVIDIA H200``.
        versions: version of each library involved in the arithmetic.
        seconds: wall-clock time of the measurement.
        finished_at: UTC time, ISO 8601.
        limit: ``--limit`` of the run that measured it, None if the whole condition was requested.
        suite: first suite of that run with the measurement; None in records from before the field existed.
        rows_per_pass: number of rows of a pass, where memory was too small for the batch size; else None.
    """

    device: str
    versions: Mapping[str, str]
    seconds: float
    finished_at: str
    limit: int | None = None
    suite: str | None = None
    rows_per_pass: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Outcomes of a finished shard, in example order.

    Attributes:
        flags: of an audit, the checks of the model on the examples of the shard alone.
        observations: what they were made from, to be joined with those of other shards; empty in records from before
            audits had several.
    """

    shard: ShardHeader
    outcomes: Outcomes
    provenance: Provenance
    flags: tuple[Flag, ...] = ()
    observations: tuple[Observations, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Description of a stored measurement: header and provenance of its first stored record."""

    shard: ShardHeader
    provenance: Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Shard that raised or killed its workers; stored, listed in the report, and retried by the next run.

    Attributes:
        error: one message for the reader; ``traceback``: for debugging.
        spoils_process: whether its process must not measure anything else; not stored.
        is_refusal: whether a declaration was refused, as it will be again; not stored.
    """

    shard: ShardHeader
    error: str
    traceback: str
    provenance: Provenance
    spoils_process: bool = False
    is_refusal: bool = False


def join(records: Sequence[Record], num_examples: int) -> Outcomes:
    """Return the outcomes of the first ``num_examples`` examples in dataset order, each once.

    Raises:
        IncompleteError: examples are missing or duplicated; the message says which.
    """
    parts: list[Outcomes] = []
    num_in = 0
    for record in sorted(records, key=lambda record: record.shard.start):
        if num_in >= num_examples:
            break
        if record.shard.start != num_in:
            raise IncompleteError(f"examples {num_in}-{record.shard.start - 1} are missing or duplicated")
        parts.append(record.outcomes)
        num_in += len(record.outcomes)
    if num_in < num_examples or not parts:
        raise IncompleteError(f"{num_in} of {num_examples} examples are measured")
    return Outcomes.joined(parts).take(slice(num_examples))
