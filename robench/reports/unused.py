"""Measurements of a store that no registry and no suite needs any more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from robench.reports.selection import needs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from robench.core.checkpoint import Checkpoint
    from robench.core.shard import ShardHeader
    from robench.core.suite import Suite
    from robench.reports.results import Listing


@dataclass(frozen=True, slots=True, kw_only=True)
class Unused:
    """Measurement that nothing needs.

    Attributes:
        key: name of its folders; ``reason``: a clause such as ``no registry names the model``.
    """

    key: str
    model: str
    condition: str
    dataset: str
    reason: str


def unused_in(listing: Listing, suites: Sequence[Suite], checkpoints: Mapping[str, Checkpoint]) -> list[Unused]:
    """Return the measurements whose model or weights no registry has, or whose condition no suite, by model and key.

    Args:
        listing: of the store.
        suites: all suites that are used; results under another root seed than theirs are needed by none.
        checkpoints: entries of all registries that are used, by name.
    """
    needed = [needs(suite, seed=suite.seed, precision=None) for suite in suites]
    digests = tuple(each.weights.sha256 for each in checkpoints.values() if each.weights.sha256 is not None)

    def reason(shard: ShardHeader) -> str:
        checkpoint = checkpoints.get(shard.checkpoint)
        # A measurement serves any entry with the same weights, so that a model may have been renamed.
        if not shard.weights_digest.startswith(digests):
            if checkpoint is None:
                return "no registry names the model"
            if checkpoint.weights.sha256 is not None:
                return "the registry has other weights of the model"
        return "" if any(each(shard) for each in needed) else f"no suite has the condition (seed {shard.seed})"

    headers = {each.shard.measurement_key: each.shard for each in listing.failures}
    headers |= {each.shard.measurement_key: each.shard for each in listing.manifests}
    found = [
        Unused(key=key, model=shard.checkpoint, condition=shard.condition, dataset=shard.dataset.name, reason=why)
        for key, shard in headers.items()
        if (why := reason(shard))
    ]
    return sorted(found, key=lambda each: (each.model, each.dataset, each.condition, each.key))
