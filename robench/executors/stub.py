"""Evaluator that measures nothing, by which executors are checked; workers import it without torch."""

from dataclasses import dataclass
from datetime import UTC, datetime

from robench.core.columns import Outcomes
from robench.core.outcomes import Outcome
from robench.core.records import Failure, Provenance, Record
from robench.core.shard import Shard


@dataclass(frozen=True, slots=True)
class Stub:
    """Evaluator whose records have no outcomes and name its device.

    Attributes:
        failing_start: every shard that starts there fails; None for none.
    """

    device: str
    failing_start: int | None = 150

    def __call__(self, shard: Shard, following: Shard | None = None) -> Record | Failure:
        """Return an empty record, or a failure."""
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        provenance = Provenance(device=self.device, versions={}, seconds=0.0, finished_at=now)
        if shard.start == self.failing_start:
            return Failure(shard=shard.header, error="made to fail", traceback="", provenance=provenance)
        return Record(shard=shard.header, outcomes=Outcomes.of([], Outcome), provenance=provenance)
