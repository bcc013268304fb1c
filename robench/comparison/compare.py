"""Two models on the same examples: every column of some suites, with its difference and a test of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from robench.comparison.baseline import ModelResults, check_known, check_same_data, measured
from robench.comparison.evidence import WELCH, Difference, corrected, difference_over_seeds, evidence_of
from robench.core.errors import UsageError
from robench.core.protocols import Store
from robench.core.report import Cell
from robench.core.suite import Column, Suite
from robench.metrics import METRICS, unit_of
from robench.reports.notes import provenance_of
from robench.reports.results import Stored
from robench.reports.seeds import mean_cell

RETRAINING = (
    "intervals and p-values concern these weights on other examples; they say nothing of models that are trained again"
)
OVER_SEEDS = (
    "numbers are means over training seeds; intervals and p-values concern models that are trained again, on these "
    "examples"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedColumn:
    """Number of two models.

    Attributes:
        first, second: number of each model, or how much of it is missing.
        difference: the first less the second; None where a number is missing, as are the following.
        p_value: two-sided p-value that the numbers differ by chance alone.
        only_first: ids of the examples that only the first model is right about; None unless the number is the mean of
            one binary outcome per example. ``only_second``: likewise.
    """

    suite: str
    column: Column
    unit: str
    first: Cell
    second: Cell
    difference: Difference | None = None
    test: str | None = None
    p_value: float | None = None
    p_holm: float | None = None
    only_first: tuple[str, ...] | None = None
    only_second: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two models compared column by column.

    Attributes:
        limit: the first examples that were asked for; None for all.
        all_examples: whether all examples were asked for in place of the number that a suite states.
        seeds: names of the checkpoints of each model whose numbers are averaged; None for one checkpoint each.
    """

    first: str
    second: str
    suites: tuple[tuple[str, int], ...]
    rows: tuple[ComparedColumn, ...]
    notes: tuple[str, ...]
    provenance: Mapping[str, str]
    limit: int | None = None
    seeds: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    all_examples: bool = False

    @property
    def is_complete(self) -> bool:
        """Return whether every column has a difference."""
        return all(row.difference is not None for row in self.rows)


def compare_models(
    suites: Sequence[Suite],
    store: Store,
    first: str,
    second: str,
    *,
    limit: int | None = None,
    seed: int | None = None,
    seeds: Sequence[Sequence[str]] | None = None,
) -> Comparison:
    """Compare two models on every column of the suites; Holm's correction is over all of them.

    ``limit`` and ``seed`` are as of reports. ``seeds`` has the names of the checkpoints of each model's training seeds,
    whose means are compared; None compares the checkpoints of the models' own names.

    Raises:
        UsageError: the two models are one, a model has fewer than two seeds, or equal ones, or the limit is below 1.
        UnknownNameError: a model has no results, or a column names a metric or condition that there is not.
        IncomparableError: the two were measured on different data.
        StoreError: a file cannot be read, or is of a later robench.
    """
    if first == second:
        raise UsageError(f"a model cannot be compared with itself, got {first!r} twice; name two models")
    _check_seeds(seeds)
    rows: list[ComparedColumn] = []
    notes: list[str] = []
    provenances, drawn_with = [], []
    for suite in suites:
        wanted_seed = suite.seed if seed is None else seed
        results = Stored(suite, store, None, wanted_seed)
        one, other = ([_known(suite, results, name, limit) for name in names] for names in seeds or ([first], [second]))
        for each in (*one[1:], *other):
            check_same_data(one[0], each)
        compare = compare_column if seeds is None else compare_means
        rows += [compare(one, other, column) for column in suite.columns]
        notes += [note for each in (*one, *other) for note in each.notes]
        provenances += [provenance for each in (*one, *other) for provenance in each.provenances]
        drawn_with.append(wanted_seed)
    adjusted = corrected([row.p_value for row in rows])
    rows = [replace(row, p_holm=p_holm) for row, p_holm in zip(rows, adjusted, strict=True)]
    methods = dict.fromkeys(row.difference.method for row in rows if row.difference is not None)
    about = RETRAINING if seeds is None else OVER_SEEDS
    return Comparison(
        first=first,
        second=second,
        suites=tuple((suite.name, suite.version) for suite in suites),
        rows=tuple(rows),
        notes=(*dict.fromkeys(notes), *([about] if any(row.difference for row in rows) else [])),
        provenance=provenance_of(provenances, drawn_with[0], [*methods] or ["none"])
        | {"seed": ", ".join(map(str, dict.fromkeys(drawn_with)))},
        limit=limit,
        all_examples=any(suite.all_examples for suite in suites),
        seeds=None if seeds is None else (tuple(seeds[0]), tuple(seeds[1])),
    )


def compare_column(first: Sequence[ModelResults], second: Sequence[ModelResults], column: Column) -> ComparedColumn:
    """Return one column of two checkpoints, not yet corrected for the others; raises like ``evidence_of``."""
    (one,), (other,) = first, second
    metric = METRICS[column.metric]
    found = ComparedColumn(
        suite=one.suite.name, column=column, unit=unit_of(column), first=one.cell(column), second=other.cell(column)
    )
    if found.first.estimate is None or found.second.estimate is None:
        return found
    evidence = evidence_of(metric, one.readings(column), other.readings(column), column.label)
    only_first, only_second = evidence.flipped_ids if evidence.drawn is None else (None, None)
    return replace(
        found,
        difference=evidence.difference,
        test=evidence.test,
        p_value=evidence.p_value,
        only_first=only_first,
        only_second=only_second,
    )


def compare_means(first: Sequence[ModelResults], second: Sequence[ModelResults], column: Column) -> ComparedColumn:
    """Return one column of the means over two models' training seeds, not yet corrected for the others.

    Raises:
        UsageError: two seeds of a model have equal weights.
    """
    _check_weights(first)
    _check_weights(second)
    one, other = (mean_cell([each.cell(column) for each in side]) for side in (first, second))
    unit = unit_of(column)
    found = ComparedColumn(suite=first[0].suite.name, column=column, unit=unit, first=one, second=other)
    values = [() if cell.estimate is None else cell.estimate.of_seeds for cell in (one, other)]
    if not all(each and all(map(isfinite, each)) for each in values):
        return found
    difference, p_value = difference_over_seeds(*values)
    return replace(found, difference=difference, test=WELCH, p_value=p_value)


def _check_seeds(seeds: Sequence[Sequence[str]] | None) -> None:
    for names in seeds or ():
        if len(names) < 2:
            raise UsageError(
                f"{names[0]} has one training, and means over training seeds need two of both models; train more with "
                f"'robench train {names[0]} --seeds 0-4', or compare single checkpoints"
            )


def _check_weights(seeds: Sequence[ModelResults]) -> None:
    """Refuse training seeds with equal weights, whose spread would be too small."""
    names: dict[str, str] = {}
    for each in seeds:
        same = names.setdefault(each.row.weights or each.model, each.model)
        if same != each.model:
            raise UsageError(
                f"{each.model} has the weights of {same}, and does not count again; remove one of the two seeds"
            )


def _known(suite: Suite, results: Stored, model: str, limit: int | None) -> ModelResults:
    check_known(suite, results, model)
    return measured(suite, results, model, limit)
