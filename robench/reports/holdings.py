"""Holdings of a store: measured parts of suites by model, and results that no suite needs any more."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from robench.core.checkpoint import Checkpoint
from robench.core.protocols import Store
from robench.core.shard import EXACT_DTYPE, ShardHeader
from robench.core.suite import Suite
from robench.reports.results import Listing, Stored
from robench.reports.selection import Coverage, cover, needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """Part of a suite that a store holds of one model.

    Attributes:
        dataset: dataset given to a suite that names none.
        measurements: keys of the stored measurements that the suite needs, also of audits, of failed shards and of
            older weights.
        is_named: whether a run of this suite measured any of it, and not only of others that share conditions.
    """

    suite: str
    dataset: str | None
    model: str
    measurements: frozenset[str]
    coverages: Mapping[str, Coverage]
    num_failed: int
    seconds: float
    is_named: bool

    @property
    def num_complete(self) -> int:
        """Return the number of completely measured conditions."""
        return sum(coverage.missing == 0 for coverage in self.coverages.values())

    @property
    def num_in(self) -> int:
        """Return the number of measured examples, over all conditions."""
        return sum(coverage.num_in for coverage in self.coverages.values())

    @property
    def missing(self) -> int | None:
        """Return the number of missing examples, over all conditions; None if it is unknown of one."""
        missing = [coverage.missing for coverage in self.coverages.values()]
        known = [number for number in missing if number is not None]
        return sum(known) if len(known) == len(missing) else None


def holdings_of(
    suite: Suite, store: Store | Listing, *, seed: int | None = None, precision: str = EXACT_DTYPE
) -> list[Holding]:
    """Return the holdings of a store for one suite, one per model, in one precision; ``seed`` replaces the suite's own.

    A listing of the store (``results.Listing``) saves reading the same files for several suites.
    """
    results = Stored(suite, store, None, suite.seed if seed is None else seed, precision)
    holdings = []
    for model in results.models():
        found = results.outline(model)
        coverages = cover(suite.conditions, found, dataset_sizes=results.sizes, limit=None)
        used = [record for coverage in coverages.values() for record in coverage.records]
        failures = [failure for coverage in coverages.values() for failure in coverage.failures]
        holdings.append(
            Holding(
                suite=suite.name,
                dataset=suite.given_dataset,
                model=model,
                measurements=frozenset(each.shard.measurement_key for each in found),
                coverages=coverages,
                num_failed=len(failures),
                seconds=sum(record.provenance.seconds for record in used),
                is_named=any(each.provenance.suite == suite.name for each in found),
            )
        )
    return holdings


def without_shared(holdings: Iterable[Holding]) -> list[Holding]:
    """Return the holdings that say something of their own, in the given order.

    Suites share conditions, such as clean examples, and audits. Of an incomplete suite whose measurements are all used
    by another one of the same model, all results are shared.
    """
    given = [each for each in holdings if each.num_in or each.num_failed]
    chosen: list[Holding] = []
    # Of holdings with equally many measurements, that of a suite that was run comes first, then what lacks least.
    by_extent = sorted(
        given, key=lambda each: (-len(each.measurements), not each.is_named, each.missing is None, each.missing or 0)
    )
    for each in by_extent:
        is_shared = any(each.model == other.model and each.measurements <= other.measurements for other in chosen)
        if each.missing == 0 or not is_shared:
            chosen.append(each)
    return [each for each in given if each in chosen]


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

    ``suites`` and ``checkpoints`` are all that are used; results under another root seed than the suites' are unused.
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
