"""Results checked against a baseline: a cell fails where it is significantly worse, or lost its number.

Each test is one-sided: of a mean of binary outcomes, the probability that of the examples that changed so many or more
became wrong, P(Bin(b + c, 1/2) >= b); of other numbers the paired permutation. Holm's correction is over all cells of
the check, so that the probability that a check fails without a change of the model's quality is at most alpha.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from robench.comparison.baseline import check_consistent, check_protocol, check_records
from robench.comparison.evidence import evidence_of, holm_of_known
from robench.comparison.permutation import NUM_DRAWS
from robench.core.errors import UnknownNameError, UsageError
from robench.metrics import METRICS, unit_of
from robench.reports.build import measured
from robench.reports.results import Given, Stored

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from robench.comparison.evidence import Difference, Evidence
    from robench.core.protocols import Store
    from robench.core.report import Cell
    from robench.core.suite import Column, Suite
    from robench.reports.build import ModelResults
    from robench.store.baseline import Baseline, Protocol

ALPHA = 0.05
Verdict = Literal["passed", "worse", "missing", "beyond tolerance", "no number"]
FAILING: tuple[Verdict, ...] = ("worse", "missing", "beyond tolerance")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCell:
    """Number of one model, before and now.

    Attributes:
        before: number of the baseline; ``after``: number now, or how much of it is missing.
        verdict: ``worse`` (significantly), ``missing`` (there was a number), ``beyond tolerance`` or ``passed``; of a
            cell without a number in the baseline ``no number``, which never fails.
        difference: now less before; None where there is no test, as are the following.
        test: name of the test; ``p_value``: one-sided; ``p_holm``: corrected for all cells of the check.
        newly_wrong, newly_right: number of examples; None unless the number is the mean of one binary outcome each.
        false_alarm: probability that chance alone goes beyond the tolerance; None without one.
    """

    suite: str
    model: str
    column: Column
    unit: str
    before: Cell
    after: Cell
    verdict: Verdict = "no number"
    difference: Difference | None = None
    test: str | None = None
    p_value: float | None = None
    p_holm: float | None = None
    newly_wrong: int | None = None
    newly_right: int | None = None
    false_alarm: float | None = None

    @property
    def has_failed(self) -> bool:
        """Return whether the cell fails the check."""
        return self.verdict in FAILING


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """All cells of a check.

    Attributes:
        tolerance: loss in points above which a cell fails in any case; None for no such rule.
    """

    cells: tuple[CheckedCell, ...]
    notes: tuple[str, ...]
    alpha: float
    tolerance: float | None

    @property
    def failed(self) -> tuple[CheckedCell, ...]:
        """Cells that fail the check."""
        return tuple(cell for cell in self.cells if cell.has_failed)

    @property
    def has_passed(self) -> bool:
        """Return whether no cell fails."""
        return not self.failed

    @property
    def false_alarm_rate(self) -> float | None:
        """Bound of the probability that chance alone takes any cell beyond the tolerance; None without one."""
        if self.tolerance is None:
            return None
        return min(1.0, sum(cell.false_alarm or 0.0 for cell in self.cells))


def check_results(
    baseline: Baseline,
    suites: Sequence[Suite],
    store: Store,
    *,
    models: Sequence[str] = (),
    seed: int | None = None,
    measurements: Mapping[str, Mapping[str, Collection[str]]] | None = None,
    tolerance: float | None = None,
    alpha: float = ALPHA,
) -> Check:
    """Check the present results of a baseline's models against it.

    Args:
        baseline: results to check against.
        suites: suites of the baseline as they are declared now; each must be in it.
        store: present results.
        models: names of the models to check; none for all of the baseline.
        seed: in place of the suites' own.
        measurements: keys of the measurements that count by suite and model; None takes the newest of the model's name.
        tolerance: loss in points of per cent, of a ratio in hundredths, above which a cell fails in any case.
        alpha: level of the whole check.

    Raises:
        UsageError, UnknownNameError: the tolerance is below 0, or the baseline has no such suite or model, or none.
        IncomparableError: data, protocol, seed or the version of a plug-in is another one.
        StoreError: a file cannot be read, or is of a later robench.
    """
    if tolerance is not None and not tolerance >= 0:
        raise UsageError(f"the tolerance must be 0 points or more, got {tolerance:g}")
    pairs = [pair for suite in suites for pair in _pairs(baseline, suite, store, models, seed, measurements)]
    if not pairs:
        raise UsageError("nothing of the baseline is to be checked; name suites and models that it holds")
    num_cells = sum(len(before.suite.columns) for before, _ in pairs)
    num_draws = draws_for(num_cells, alpha)
    cells = [
        _checked(before, after, column, num_draws, tolerance)
        for before, after in pairs
        for column in before.suite.columns
        if column.key in _protocol_of(baseline, before.suite).columns
    ]
    notes = [note for _, after in pairs for note in after.notes]
    notes += [note for before, after in pairs for note in _news(baseline, before, after)]
    return Check(
        cells=tuple(_corrected(cells, alpha)), notes=tuple(dict.fromkeys(notes)), alpha=alpha, tolerance=tolerance
    )


def draws_for(num_cells: int, alpha: float = ALPHA) -> int:
    """Return the number of draws with which a permutation can fail a check of so many cells, at least 9,999.

    >>> draws_for(500), draws_for(501)
    (9999, 99999)
    """
    num_draws = NUM_DRAWS
    while num_cells > alpha * (num_draws + 1) + 1e-9:
        num_draws = 10 * num_draws + 9
    return num_draws


def _pairs(
    baseline: Baseline,
    suite: Suite,
    store: Store,
    models: Sequence[str],
    seed: int | None,
    measurements: Mapping[str, Mapping[str, Collection[str]]] | None,
) -> list[tuple[ModelResults, ModelResults]]:
    """Return each model's results before and now, which are known to be comparable."""
    kept = _protocol_of(baseline, suite)
    wanted_seed = suite.seed if seed is None else seed
    check_protocol(kept, suite, wanted_seed)
    for model in models:
        if model not in kept.models:
            raise UnknownNameError("model of the baseline", model, kept.models)
    check_consistent(baseline.records, suite)
    old = Given(suite, baseline.records, None, wanted_seed)
    new = Stored(suite, store, None if measurements is None else measurements[suite.name], wanted_seed)
    pairs = []
    for model in models or kept.models:
        before, after = (measured(suite, results, model, kept.limit) for results in (old, new))
        for name in kept.conditions:
            where = f"condition {name!r} of {model}"
            check_records(before.coverages[name], after.coverages[name], sorted(kept.plugins), where)
        pairs.append((before, after))
    return pairs


def _checked(
    before: ModelResults, after: ModelResults, column: Column, num_draws: int, tolerance: float | None
) -> CheckedCell:
    metric = METRICS[column.metric]
    cell = CheckedCell(
        suite=before.suite.name,
        model=before.model,
        column=column,
        unit=unit_of(column),
        before=before.cell(column),
        after=after.cell(column),
    )
    if cell.before.estimate is None:
        return cell
    if cell.after.estimate is None:
        return replace(cell, verdict="missing")
    evidence = evidence_of(metric, before.readings(column), after.readings(column), column.label, num_draws)
    wrong, right = evidence.flips if evidence.drawn is None else (None, None)
    difference = evidence.difference
    cell = replace(
        cell,
        verdict="passed",
        difference=replace(
            difference,
            # Not negated, since there is a negative zero.
            value=0.0 - difference.value,
            low=None if difference.high is None else 0.0 - difference.high,
            high=None if difference.low is None else 0.0 - difference.low,
        ),
        test=evidence.test,
        p_value=evidence.worse_p_value,
        newly_wrong=wrong,
        newly_right=right,
    )
    return cell if tolerance is None else _tolerated(cell, evidence, tolerance / 100)


def _tolerated(cell: CheckedCell, evidence: Evidence, tolerance: float) -> CheckedCell:
    """Return the cell with the verdict of the tolerance, which is in the unit of the number."""
    assert cell.difference is not None
    loss = cell.difference.value if evidence.lower_is_better else -cell.difference.value
    return replace(
        cell,
        verdict="beyond tolerance" if loss > tolerance + 1e-12 else cell.verdict,
        false_alarm=evidence.probability_of_loss_above(tolerance),
    )


def _corrected(cells: Sequence[CheckedCell], alpha: float) -> list[CheckedCell]:
    adjusted = holm_of_known([cell.p_value for cell in cells])
    return [
        replace(cell, p_holm=p_holm, verdict="worse" if p_holm is not None and p_holm <= alpha else cell.verdict)
        for cell, p_holm in zip(cells, adjusted, strict=True)
    ]


def _protocol_of(baseline: Baseline, suite: Suite) -> Protocol:
    protocols = {protocol.suite: protocol for protocol in baseline.protocols}
    if suite.name not in protocols:
        raise UnknownNameError("suite of the baseline", suite.name, protocols)
    return protocols[suite.name]


def _news(baseline: Baseline, before: ModelResults, after: ModelResults) -> list[str]:
    """Return sentences on unchecked results, and on equal weights."""
    kept = _protocol_of(baseline, before.suite)
    new = [column.label for column in before.suite.columns if column.key not in kept.columns]
    notes = [f"{before.suite.name}: not in the baseline, and so not checked: {', '.join(new)}"] if new else []
    digests = [
        {record.shard.weights_digest for coverage in each.coverages.values() for record in coverage.records}
        for each in (before, after)
    ]
    if digests[0] == digests[1]:
        notes.append(f"{before.model}: the weights are those of the baseline")
    return notes
