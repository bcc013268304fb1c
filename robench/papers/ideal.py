"""Best verdict that a printed number can get: that of ideal measurements, whose mean over seeds is the printed number.

What keeps a number from more than ``undecided`` is then its print alone: a gain too small for the spread of seeds.
"""

from collections.abc import Mapping
from math import sqrt

from robench.comparison.spread import PER_CENT, Seeds
from robench.core.checkpoint import Checkpoint
from robench.core.suite import Suite
from robench.declare.printed import PublishedCell, PublishedTable
from robench.papers.protocol import differing_fields, measured_of
from robench.papers.verdicts import Evidence, Verdict, VerdictName, evidence_on, judged

NUM_SEEDS = 5
LOSS = "nats"
# Standard deviations of single seeds: points of per cent, and the part of a perplexity.
STD_POINTS = 0.15
STD_OF_PERPLEXITY = 0.01
# From worst to best.
_ORDER: tuple[VerdictName, ...] = ("other protocol", "inferred", "undecided", "consistent")


def best_verdict(
    table: PublishedTable, cell: PublishedCell, suites: Mapping[str, Suite], checkpoints: Mapping[str, Checkpoint]
) -> Verdict:
    """Return the best verdict that a measurable cell of a table can get by retrained models, over its readings."""
    verdicts = [judged(evidence) for evidence in ideal_evidence(table, cell, suites, checkpoints)]
    return max(verdicts, key=lambda verdict: _ORDER.index(verdict.name))


def ideal_evidence(
    table: PublishedTable, cell: PublishedCell, suites: Mapping[str, Suite], checkpoints: Mapping[str, Checkpoint]
) -> list[Evidence]:
    """Return the evidence of ``NUM_SEEDS`` seeds of a measurable cell's entry on whole datasets, for each reading."""
    assert cell.suite is not None and cell.model is not None  # noqa: PT018  # by schema
    suite, printed = suites[cell.suite], float(cell.value)
    evidence = []
    for _, read in cell.as_read:
        column = next(each for each in suite.columns if each.key == read.column_key)
        measured = measured_of(suite, column, checkpoints[cell.model], checkpoints=checkpoints)
        differing = differing_fields(read, measured, of_authors=False)
        evidence.append(evidence_on(table, read, printed, Seeds(_around(printed, _std(cell))), differing))
    return evidence


def _std(cell: PublishedCell) -> float:
    if cell.unit == PER_CENT:
        return STD_POINTS
    # A loss is the logarithm of a perplexity.
    return STD_OF_PERPLEXITY if cell.unit == LOSS else STD_OF_PERPLEXITY * float(cell.value)


def _around(mean: float, std: float) -> tuple[float, ...]:
    """Return evenly spaced numbers with this mean and standard deviation."""
    steps = [index - (NUM_SEEDS - 1) / 2 for index in range(NUM_SEEDS)]
    unit = std / sqrt(sum(step**2 for step in steps) / (NUM_SEEDS - 1))
    return tuple(mean + step * unit for step in steps)
