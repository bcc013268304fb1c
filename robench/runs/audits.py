"""Audits of a run: of how many examples, so that they do not take longer than what they are about."""

from collections.abc import Iterable
from dataclasses import replace
from math import inf

from robench.core.shard import Measurement, num_asked
from robench.evaluation.actions import AUDIT_EXAMPLES, AUDIT_PASSES, AUDIT_SHARD, FEW_PASSES, Audit
from robench.metrics.sanity import LEAST_COMPARED
from robench.scheduling.estimates import weighted, weighted_passes

# Of the passes of the attacks on a dataset.
FRACTION = 0.25


def num_audited(audit: Measurement, measured: Iterable[Measurement], limit: int | None) -> int:
    """Return of how many examples an audit takes at most a quarter of the passes of the attacks on its dataset.

    It is a multiple of 8, or as many as fit without comparisons of attacks, at least 1; all where the passes of an
    attack are unknown. ``measured`` are the measurements of a suite, of a first part of ``limit`` examples.
    """
    attacks = (
        each
        for each in measured
        if each.checkpoint.name == audit.checkpoint.name
        and each.condition.dataset == audit.condition.dataset
        and each.condition.perturbation.is_attack
    )
    passes = 0.0
    for each in attacks:
        of_example = weighted_passes(each.condition)
        passes += inf if of_example is None else of_example * num_asked(each, limit)
    fitting = min(AUDIT_EXAMPLES, FRACTION * passes / weighted(*AUDIT_PASSES))
    count = int(fitting) // AUDIT_SHARD * AUDIT_SHARD
    if count < LEAST_COMPARED:
        count = int(max(1, min(LEAST_COMPARED - 1, FRACTION * passes / weighted(*FEW_PASSES))))
    return min(count, audit.num_examples)


def of_size(audit: Measurement, count: int) -> Measurement:
    """Return an audit of ``count`` examples, which compares attacks where these are enough."""
    action = audit.condition.action
    assert isinstance(action, Audit)  # of an audit
    compared = replace(action, compares=count >= LEAST_COMPARED)
    return replace(audit, condition=replace(audit.condition, action=compared))
