"""Seconds that the missing examples of a suite take, for ``robench status``."""

from robench.core.suite import Suite
from robench.reports import Holding
from robench.scheduling.pace import Paces, weighted_passes


def seconds_left(suite: Suite, holding: Holding) -> dict[str, float | None]:
    """Return the seconds that one worker needs for the missing examples of a model, by condition.

    They are those of the examples that the condition has, or else those of the model's other conditions by the number
    of passes; on the kind of device of the model's latest result. None where either is unknown.
    """
    conditions = {each.name: each for each in suite.conditions}
    records = [record for coverage in holding.coverages.values() for record in coverage.records]
    latest = max(records, key=lambda each: each.provenance.finished_at, default=None)
    device = None if latest is None else latest.provenance.device
    paces = Paces()
    for name, coverage in holding.coverages.items():
        same = [each for each in coverage.records if each.provenance.device == device]
        if same:
            seconds = sum(each.provenance.seconds for each in same)
            num_examples = sum(each.shard.stop - each.shard.start for each in same)
            paces.add(name, holding.model, seconds / num_examples, weighted_passes(conditions[name]))
    left: dict[str, float | None] = {}
    for name, coverage in holding.coverages.items():
        pace = paces.of(name, holding.model, weighted_passes(conditions[name]))
        left[name] = 0.0 if coverage.missing == 0 else None
        if coverage.missing and pace is not None:
            left[name] = coverage.missing * pace.seconds
    return left
