"""What was measured: finished and failed shards as they are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from robench.core.errors import IncompleteError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from robench.core.flags import Flag
    from robench.core.outcomes import Outcome
    from robench.core.shard import ShardHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where and when a shard was measured; never part of a key.

    Attributes:
        device: kind of device, such as ``cpu`` or ``NVIDIA H200``.
        versions: release of each library that takes part in the arithmetic.
        seconds: wall-clock time of the measurement.
        finished_at: UTC time, ISO 8601.
        limit: ``--limit`` of the run that measured it, None where the whole condition was asked for.
    """

    device: str
    versions: Mapping[str, str]
    seconds: float
    finished_at: str
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A finished shard: its outcomes, in example order; ``flags``: checks of the model, where it was an audit."""

    shard: ShardHeader
    outcomes: tuple[Outcome, ...]
    provenance: Provenance
    flags: tuple[Flag, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A shard that raised or killed its workers: kept, shown in the report, tried again by the next run.

    Attributes:
        error: one message for the reader; ``traceback``: for whoever mends it.
    """

    shard: ShardHeader
    error: str
    traceback: str
    provenance: Provenance


def join(records: Sequence[Record], num_examples: int) -> tuple[Outcome, ...]:
    """Return the outcomes of the first ``num_examples`` examples, in dataset order, each once.

    Raises:
        IncompleteError: examples are missing or double; the message says which.
    """
    outcomes: list[Outcome] = []
    for record in sorted(records, key=lambda record: record.shard.start):
        if len(outcomes) >= num_examples:
            break
        if record.shard.start != len(outcomes):
            raise IncompleteError(f"examples {len(outcomes)}-{record.shard.start - 1} are missing or double")
        outcomes.extend(record.outcomes)
    if len(outcomes) < num_examples:
        raise IncompleteError(f"{len(outcomes)} of {num_examples} examples are in")
    return tuple(outcomes[:num_examples])
