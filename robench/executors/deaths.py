"""Deaths of workers: which shards they cost, and when a shard is given up."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from robench.core.records import Failure, Provenance, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robench.core.shard import Shard

MAX_DEATHS = 3


@dataclass(frozen=True, slots=True)
class Death:
    """End of a worker, with advice."""

    what: str
    advice: str


class Deaths:
    """Deaths of the workers of a run, by shard.

    Args:
        noun: what the workers are, for messages.
    """

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._of: dict[str, list[Death]] = {}

    def failure(self, shard: Shard, death: Death) -> Failure | None:
        """Count a death during a shard; return the failure of a shard that ended too many workers."""
        deaths = self._of.setdefault(shard.key, [])
        deaths.append(death)
        return _given_up(shard, deaths, self._noun) if len(deaths) >= MAX_DEATHS else None


def mistaken(answer: object) -> Death:
    """Return the death of a worker that answered something else than the result of its shard."""
    found = answer.shard.title if isinstance(answer, (Record, Failure)) else f"a {type(answer).__name__}"
    return Death(
        f"answered for another shard than the one it was given ({found})",
        "a model must not copy its process, as os.fork does, and let the copy go on",
    )


def late(limit_seconds: float) -> Death:
    """Return the death of a worker that was ended because it took too long."""
    return Death(f"took longer than {limit_seconds:g} s", "the model may hang; --shard-timeout gives it more time")


def _given_up(shard: Shard, deaths: Sequence[Death], noun: str) -> Failure:
    counted = Counter(deaths)
    what = ", and ".join(f"{death.what}, {count} times" for death, count in counted.items())
    return Failure(
        shard=shard.header,
        error=f"the {noun} {what}: {'; '.join(death.advice for death in counted)}",
        traceback="",
        provenance=Provenance(
            device="", versions={}, seconds=0.0, finished_at=datetime.now(UTC).isoformat(timespec="microseconds")
        ),
    )
