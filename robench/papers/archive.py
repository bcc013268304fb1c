"""Archive of results: a results folder reduced to the outcomes that the tables' numbers need.

Each measurement is one file, unless its shards come from several devices or releases. Optional columns that no metric
of the suite reads are left out, such as losses, passes and distances of attacks with a budget.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from robench.core.columns import fields_of
from robench.core.shard import shard_key
from robench.core.suite import views_of
from robench.metrics import METRICS
from robench.reports import needs
from robench.reports.selection import source_of_condition, source_of_shard, tile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from robench.core.columns import Outcomes
    from robench.core.protocols import Store
    from robench.core.records import Manifest, Record
    from robench.core.suite import Suite

# What reports read beside metrics: the budget of a sweep, and how many inputs were clamped.
_READ_BY_REPORTS = frozenset({"epsilon", "num_clamped"})

Source = tuple[str, str]


def archived(
    models: Mapping[str, Collection[str]], suites: Mapping[str, Suite], store: Store, manifests: Sequence[Manifest]
) -> Iterator[Record]:
    """Yield the reduced records of some models under some suites, both by the suite's name.

    Models are names of checkpoints, one for each seed; ``manifests`` describe all that the store has.
    """
    fields = {name: fields_read(suites[name]) for name in models}
    for manifest in manifests:
        shard = manifest.shard
        wanting = [
            name
            for name, wanted in models.items()
            if shard.checkpoint in wanted and needs(suites[name], seed=suites[name].seed)(shard)
        ]
        if wanting:
            source = source_of_shard(shard)
            of_suites = [fields[name].get(source, frozenset()) for name in wanting]
            read = None if None in of_suites else frozenset().union(*(each for each in of_suites if each is not None))
            yield from _smaller([*store.records_of([shard.measurement_key])], read)


def fields_read(suite: Suite) -> dict[Source, frozenset[str] | None]:
    """Return the optional fields of each condition that a suite's columns read; None if unknown."""
    conditions = {view.name: condition for condition in suite.conditions for view in views_of(condition)}
    read: dict[Source, frozenset[str] | None] = {}
    for column in suite.columns:
        fields = METRICS[column.metric].reads
        for name in column.conditions:
            source = source_of_condition(conditions[name])
            known = read.get(source, frozenset())
            read[source] = None if fields is None or known is None else known | frozenset(fields)
    return read


def _smaller(records: Sequence[Record], read: frozenset[str] | None) -> Iterator[Record]:
    tiles = [replace(record, outcomes=_without(record.outcomes, read)) for record in _whole(records)]
    made_alike = len({(record.provenance.device, tuple(record.provenance.versions.items())) for record in tiles}) == 1
    is_gapless = all(before.shard.stop == after.shard.start for before, after in pairwise(tiles))
    if not made_alike or not is_gapless or len(tiles) == 1:
        yield from tiles
        return
    first, last = tiles[0], tiles[-1]
    start, stop = first.shard.start, last.shard.stop
    shard = replace(first.shard, key=shard_key(first.shard.measurement_key, start, stop), start=start, stop=stop)
    yield replace(
        first,
        shard=shard,
        outcomes=type(first.outcomes).joined([record.outcomes for record in tiles]),
        provenance=replace(
            first.provenance,
            seconds=sum(record.provenance.seconds for record in tiles),
            finished_at=max(record.provenance.finished_at for record in tiles),
        ),
    )


def _whole(records: Sequence[Record]) -> list[Record]:
    """Return the records that hold each example once, each with the key of what it holds."""
    most = max((record.shard.stop for record in records), default=0)
    return [
        replace(record, shard=replace(shard, key=shard_key(shard.measurement_key, shard.start, shard.stop)))
        for record in tile(records, most)
        if (shard := record.shard)
    ]


def _without(outcomes: Outcomes, read: frozenset[str] | None) -> Outcomes:
    if read is None:
        return outcomes
    kept = read | _READ_BY_REPORTS
    fields = fields_of(outcomes.row_type).values()
    return outcomes.replaced(**{each.name: None for each in fields if each.optional and each.name not in kept})
