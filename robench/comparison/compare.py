"""Two models on the same examples: every column of some suites, with its difference and a test of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from statistics import NormalDist, fmean, variance

from robench.comparison.baseline import check_known, check_same_data
from robench.comparison.evidence import WELCH, Difference, difference_over_seeds, evidence_of
from robench.comparison.pairing import LEVEL, corrected
from robench.comparison.spread import POWER, detectable, std_range
from robench.core.errors import UsageError
from robench.core.inert import clipped
from robench.core.protocols import Store
from robench.core.rendered import PLAIN_STYLE, Style
from robench.core.report import Cell
from robench.core.suite import Column, Suite, views_of
from robench.metrics import METRICS, unit_of
from robench.metrics.intervals import wilson_interval
from robench.reports.arrangement import named_columns
from robench.reports.build import ModelResults, measured
from robench.reports.grid import number_text
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


NONE_DETECTABLE = "none"
# Of the columns in which a model is better, in a sentence: all are in the table above it.
MOST_LABELS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedColumn:
    """Number of two models.

    Attributes:
        first, second: number of each model, or how much of it is missing.
        difference: the first less the second; None where a number is missing, as are the following.
        p_value: two-sided p-value that the numbers differ by chance alone; ``p_corrected``: times the number of columns
            of the suite, at most 1.
        only_first: ids of the examples that only the first model is right about; None unless the number is the mean of
            one binary outcome per example. ``only_second``: likewise.
        num_columns: number of columns of the suite.
        is_perturbed: whether the number is of perturbed inputs.
        detectable: range of the smallest difference that the corrected test finds with a probability of 80 %, over the
            80 % interval of the spread that it depends on; None where that is unknown.
    """

    suite: str
    column: Column
    unit: str
    first: Cell
    second: Cell
    difference: Difference | None = None
    test: str | None = None
    p_value: float | None = None
    p_corrected: float | None = None
    only_first: tuple[str, ...] | None = None
    only_second: tuple[str, ...] | None = None
    num_columns: int = 1
    is_perturbed: bool = False
    detectable: tuple[float, float] | None = None

    @property
    def differs(self) -> bool:
        """Return whether the corrected test finds a difference at 5 %."""
        return self.p_corrected is not None and self.p_corrected < LEVEL

    @property
    def power_text(self) -> str:
        """Return the difference that would be found, as a sentence without its end; of a column that has one."""
        assert self.detectable is not None
        bounds = detectable_text(*self.detectable, self.unit)
        unit = "points" if self.unit in ("share", "ratio") else f"({self.unit})"
        found = "no difference" if bounds == NONE_DETECTABLE else f"a difference of {bounds} {unit}"
        num_seeds = 0 if self.first.estimate is None else len(self.first.estimate.of_seeds)
        size = f"{num_seeds} seeds" if num_seeds else f"{self.first.num_examples} examples"
        return f"At {size} {found} in {clipped(self.column.label)} would be found with 80 % power"

    def better(self, first: str, second: str) -> str:
        """Return the name of the better model of a column that differs."""
        assert self.difference is not None
        return first if (self.difference.value > 0) != METRICS[self.column.metric].lower_is_better else second


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
    style: Style = PLAIN_STYLE

    def arranged(self, columns: Sequence[str]) -> Comparison:
        """Return the comparison in some columns; see ``reports.arranged``."""
        found = [each for name in columns for each in named_columns([row.column for row in self.rows], name)]
        return replace(self, rows=tuple(row for row in self.rows if row.column in found or not columns))

    @property
    def is_complete(self) -> bool:
        """Return whether every column has a difference."""
        return all(row.difference is not None for row in self.rows)

    @property
    def better_in(self) -> str:
        """Name each better model and the first of its columns that differ; "" if none does."""
        better: dict[str, list[str]] = {}
        for row in self.rows:
            if row.differs:
                better.setdefault(row.better(self.first, self.second), []).append(clipped(row.column.label))
        return "; ".join(f"{clipped(name)} is better in {some_of(labels)}" for name, labels in better.items())

    @property
    def conclusion(self) -> str:
        """Return the columns that differ, and the difference that would be found in another column."""
        tested = [row for row in self.rows if row.p_corrected is not None]
        if not tested:
            return "No column was tested."
        num_differing = sum(row.differs for row in tested)
        counts = dict.fromkeys(row.num_columns for row in self.rows)
        corrected_for = f"p times {' or '.join(map(str, counts))} columns of the suite"
        found = "No column differs"
        if num_differing:
            found = f"{num_differing} of {len(tested)} columns differ at 5 %: {self.better_in}"
        open_rows = [row for row in tested if not row.differs and row.detectable is not None]
        # Numbers under perturbations come after clean ones, and are what suites are about.
        row = next((row for row in open_rows if row.is_perturbed), next(iter(open_rows), None))
        return f"{found} ({corrected_for})." + ("" if row is None else f" {row.power_text}.")


def some_of(labels: Sequence[str]) -> str:
    """Return the first few labels, and the number of the others.

    >>> some_of(["clean", "fgsm"]), some_of("abcdefg")
    ('clean, fgsm', 'a, b, c, d, e and 2 more')
    """
    if len(labels) <= MOST_LABELS:
        return ", ".join(labels)
    return f"{', '.join(labels[: MOST_LABELS - 1])} and {len(labels) - MOST_LABELS + 1} more"


def detectable_text(low: float, high: float, unit: str) -> str:
    """Return the range of the smallest difference that a test finds, where proportions differ by 100 points at most.

    >>> detectable_text(0.012, 0.034, "share"), detectable_text(0.5, 2, "share"), detectable_text(1.2, 5, "share")
    ('1.2 to 3.4', '50.0 or more', 'none')
    """
    if unit == "share" and low >= 1:
        return NONE_DETECTABLE
    if unit == "share" and high >= 1:
        return f"{number_text(low, unit)} or more"
    return f"{number_text(low, unit)} to {number_text(high, unit)}"


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
    """Compare two models on every column of the suites; p-values are multiplied by their number in a suite.

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
    check_seeds(seeds)
    rows: list[ComparedColumn] = []
    notes: list[str] = []
    provenances, drawn_with = [], []
    for suite in suites:
        wanted_seed = suite.seed if seed is None else seed
        results = Stored(suite, store, None, wanted_seed)
        one, other = (
            [known_results(suite, results, name, limit) for name in names] for names in seeds or ([first], [second])
        )
        for each in (*one[1:], *other):
            check_same_data(one[0], each)
        compare = compare_column if seeds is None else compare_means
        rows += [_in_suite(compare(one, other, column), suite) for column in suite.columns]
        notes += [note for each in (*one, *other) for note in each.notes]
        untested = [column.label for column in suite.columns if METRICS[column.metric].contributions is None]
        if untested and seeds is None:
            notes.append(
                f"{', '.join(untested)}: not tested, since the metric states no contributions of single examples"
            )
        provenances += [provenance for each in (*one, *other) for provenance in each.provenances]
        drawn_with.append(wanted_seed)
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


def _in_suite(row: ComparedColumn, suite: Suite) -> ComparedColumn:
    """Return a compared column with its corrected p-value, and the difference that would be found."""
    num_columns = len(suite.columns)
    perturbed = {view.name for each in suite.conditions if not each.perturbation.is_clean for view in views_of(each)}
    return replace(
        row,
        num_columns=num_columns,
        is_perturbed=not perturbed.isdisjoint(row.column.conditions),
        p_corrected=None if row.p_value is None else corrected(row.p_value, num_columns),
        detectable=None if row.p_value is None else detectable_in(row, LEVEL / num_columns),
    )


def spread_over_seeds(row: ComparedColumn) -> tuple[float, float, int] | None:
    """Return the 80 % interval of the pooled standard deviation of both models' seeds, and the fewer of their seeds.

    None of numbers of single checkpoints.
    """
    seeds = [cell.estimate.of_seeds for cell in (row.first, row.second) if cell.estimate is not None]
    if not all(seeds):
        return None
    low, high = std_range(fmean(map(variance, seeds)) ** 0.5, sum(map(len, seeds)) - 2)
    return low, high, min(map(len, seeds))


def detectable_in(row: ComparedColumn, alpha: float) -> tuple[float, float] | None:
    """Return the range of the smallest difference that is found with a probability of 80 % at level ``alpha``.

    Of means over seeds it is that of Welch's test over the 80 % interval of the pooled standard deviation; of the same
    examples that of a normal approximation of McNemar's test over the 80 % interval of the proportion that differ.
    """
    if (spread := spread_over_seeds(row)) is not None:
        low, high, num_seeds = spread
        return detectable(low, num_seeds, alpha), detectable(high, num_seeds, alpha)
    if row.only_first is None or row.only_second is None:
        return None
    num_examples, normal = row.first.num_examples, NormalDist()
    proportions = wilson_interval(len(row.only_first) + len(row.only_second), num_examples, normal.inv_cdf(0.9))
    factor = normal.inv_cdf(1 - alpha / 2) + normal.inv_cdf(POWER)
    low, high = (factor * (proportion / num_examples) ** 0.5 for proportion in proportions)
    return low, high


def compare_column(first: Sequence[ModelResults], second: Sequence[ModelResults], column: Column) -> ComparedColumn:
    """Return one column of two checkpoints, not yet corrected for the others; raises like ``evidence_of``."""
    (one,), (other,) = first, second
    metric = METRICS[column.metric]
    found = ComparedColumn(
        suite=one.suite.name, column=column, unit=unit_of(column), first=one.cell(column), second=other.cell(column)
    )
    if found.first.estimate is None or found.second.estimate is None or metric.contributions is None:
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
    """Return one column of the means over two models' training seeds, not yet corrected for the others."""
    check_weights(first)
    check_weights(second)
    one, other = (mean_cell([each.cell(column) for each in side]) for side in (first, second))
    unit = unit_of(column)
    found = ComparedColumn(suite=first[0].suite.name, column=column, unit=unit, first=one, second=other)
    values = [() if cell.estimate is None else cell.estimate.of_seeds for cell in (one, other)]
    if not all(each and all(map(isfinite, each)) for each in values):
        return found
    difference, p_value = difference_over_seeds(*values)
    return replace(found, difference=difference, test=WELCH, p_value=p_value)


def check_seeds(seeds: Sequence[Sequence[str]] | None) -> None:
    """Refuse a model with fewer than two training seeds, by a UsageError."""
    for names in seeds or ():
        if len(names) < 2:
            raise UsageError(
                f"{names[0]} has one training, and means over training seeds need two of both models; train more with "
                f"'robench train {names[0]} --seeds 0-4', or compare single checkpoints"
            )


def check_weights(seeds: Sequence[ModelResults]) -> None:
    """Refuse training seeds with equal weights, whose spread would be too small."""
    names: dict[str, str] = {}
    for each in seeds:
        same = names.setdefault(each.row.weights or each.model, each.model)
        if same != each.model:
            raise UsageError(
                f"{each.model} has the weights of {same}, and does not count again; remove one of the two seeds"
            )


def known_results(suite: Suite, results: Stored, model: str, limit: int | None) -> ModelResults:
    """Return the results of a model; raises UnknownNameError if it has none."""
    check_known(suite, results, model)
    return measured(suite, results, model, limit)
