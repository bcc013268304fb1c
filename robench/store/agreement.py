"""Check that a shard measured twice has the same outcomes, so that numbers are reproducible."""

from __future__ import annotations

import logging
from itertools import zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from robench.core.records import Record

logger = logging.getLogger("robench.store")


def warn_if_other_outcomes(kept: Record, met: Record) -> None:
    """Warn if a shard's second measurement ``met`` differs from the ``kept`` one; NaN equals NaN."""
    if kept.outcomes == met.outcomes:
        return
    pairs = list(zip_longest(kept.outcomes, met.outcomes))
    num_different = sum(repr(first) != repr(second) for first, second in pairs)
    if num_different:
        logger.warning(
            "%s gave other outcomes when it was measured again: on %s (%s), kept, and on %s (%s), dropped,"
            " %d of %d examples differ. The numbers are not reproducible; the first stays (shard %s)",
            *(kept.shard.title, kept.provenance.device, kept.provenance.finished_at),
            *(met.provenance.device, met.provenance.finished_at, num_different, len(pairs), kept.shard.key),
        )
