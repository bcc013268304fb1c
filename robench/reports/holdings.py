"""Holdings of a store: how much of which suite is measured of which model, without the outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from robench.core.shard import EXACT_DTYPE
from robench.reports.coverage import cover
from robench.reports.results import Stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from robench.core.protocols import Store
    from robench.core.suite import Suite
    from robench.reports.coverage import Coverage
    from robench.reports.results import Listing


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """Part of a suite that a store holds of one model.

    Attributes:
        suite: name of the suite.
        dataset: dataset given to a suite that names none.
        measurements: keys of the stored measurements that the suite needs, also of audits, of failed shards and of
            older weights.
        coverages: coverage of each condition, by its name.
        num_failed: number of failed shards.
        seconds: time that the stored shards took.
    """

    suite: str
    dataset: str | None
    model: str
    measurements: frozenset[str]
    coverages: Mapping[str, Coverage]
    num_failed: int
    seconds: float

    @property
    def num_complete(self) -> int:
        """Return the number of conditions of which every example is measured."""
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

    Raises:
        StoreError: a file cannot be read, or is of a later robench.
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
            )
        )
    return holdings


def without_shared(holdings: Iterable[Holding]) -> list[Holding]:
    """Return the holdings that say something of their own, in the given order.

    Suites share conditions, such as clean examples, and audits. Of an incomplete suite whose measurements are all used
    by another one of the same model, there is nothing but what is shared.
    """
    given = [each for each in holdings if each.num_in or each.num_failed]
    chosen: list[Holding] = []
    for each in sorted(given, key=_by_extent):
        is_shared = any(each.model == other.model and each.measurements <= other.measurements for other in chosen)
        if each.missing == 0 or not is_shared:
            chosen.append(each)
    return [each for each in given if each in chosen]


def _by_extent(holding: Holding) -> tuple[int, bool, int]:
    """Sort holdings with many measurements first, and of equal ones that which lacks least."""
    return -len(holding.measurements), holding.missing is None, holding.missing or 0
