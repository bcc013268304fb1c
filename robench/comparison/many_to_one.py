"""Several models beside one control over training seeds: every column of some suites, by Dunnett's test.

A p-value is multiplied by the number of columns of its suite. It says how likely such a difference is between models
that are trained again, and nothing of other examples. The interval of a difference therefore covers both, seeds and
examples: its variance is the sum of that of Dunnett's difference, pooled over all models of the column, and that of the
mean difference over examples, of each the mean over seeds. It is simultaneous for all models of a column. A gain is
called supported, or contradicted, where the corrected p-value is below 5 % and the interval has no zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot, isfinite, sqrt
from statistics import fmean
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from robench.comparison.baseline import check_same_data
from robench.comparison.compare import check_seeds, check_weights, known_results, some_of
from robench.comparison.dunnett import MOST_RATIO, Pooled, pooled, variance_ratio
from robench.comparison.evidence import difference_over_seeds, holm
from robench.comparison.pairing import LEVEL, corrected
from robench.comparison.spread import std_range
from robench.core.errors import UsageError
from robench.core.inert import clipped
from robench.core.protocols import Store
from robench.core.rendered import PLAIN_STYLE, Style
from robench.core.report import Cell
from robench.core.suite import Column, Suite
from robench.metrics import METRICS, unit_of
from robench.metrics.contributions import Contributions
from robench.reports.arrangement import named_columns
from robench.reports.build import ModelResults
from robench.reports.notes import provenance_of
from robench.reports.results import Stored
from robench.reports.seeds import mean_cell, values_of_seeds, variance_over_examples

GainVerdict = Literal["supported", "contradicted", "undecided"]
OF_SEEDS, OF_BOTH = "training seeds", "training seeds and examples"
INTERVAL = "simultaneous 95 % by Dunnett's critical value"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledGain:
    """Difference of a model's mean over seeds and the control's in one column.

    Attributes:
        model: name of the model.
        cell: its mean.
        difference: the model's mean less the control's, in the column's unit.
        low, high: bounds of its interval over ``covers``.
        over_seeds: bounds of its interval over seeds alone.
        p_value: p-value of Dunnett's test; ``p_corrected``: times the number of columns of the suite, at most 1.
        welch: p-value of Welch's test of the two alone, with Holm's correction over all tests of the comparison.
        seeds_needed: fewest seeds of each model with which a true difference of the measured size is found in 80 % of
            cases, over the 80 % interval of the standard deviation between seeds; None where over 1,000.
    """

    model: str
    cell: Cell
    difference: float
    low: float
    high: float
    over_seeds: tuple[float, float]
    p_value: float
    p_corrected: float
    verdict: GainVerdict
    seeds_needed: tuple[int | None, int | None]
    welch: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledColumn:
    """Models beside the control in one column.

    Attributes:
        control: mean of the control.
        gains: those of the other models; empty where nothing can be tested.
        why_untested: the reason then.
        covers: what the intervals cover.
        pooled: spread of single seeds.
        detectable: range of the smallest difference that is found in 80 % of cases, over the 80 % interval of that
            spread.
        variance_ratio: largest variance over seeds by the smallest; ``p_of_ratio``: how likely a larger one is if all
            true variances are equal.
    """

    suite: str
    column: Column
    unit: str
    control: Cell
    num_columns: int
    gains: tuple[ControlledGain, ...] = ()
    why_untested: str = ""
    covers: str = OF_BOTH
    pooled: Pooled | None = None
    detectable: tuple[float, float] | None = None
    variance_ratio: float = 1.0
    p_of_ratio: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyToOne:
    """Several models compared with one control over training seeds.

    Attributes:
        models: names of the models; ``control``: that of the control.
        seeds: names of the checkpoints behind each mean, by model, the control's included.
        are_paired: whether equal training seeds were paired.
        limit: the first examples that were asked for; None for all that a suite states.
        all_examples: whether all examples were asked for instead.
    """

    control: str
    models: tuple[str, ...]
    seeds: Mapping[str, tuple[str, ...]]
    suites: tuple[tuple[str, int], ...]
    columns: tuple[ControlledColumn, ...]
    notes: tuple[str, ...]
    provenance: Mapping[str, str]
    are_paired: bool = False
    limit: int | None = None
    all_examples: bool = False
    style: Style = PLAIN_STYLE

    def arranged(self, columns: Sequence[str]) -> ManyToOne:
        """Return the comparison in some columns; see ``reports.arranged``."""
        found = [each for name in columns for each in named_columns([each.column for each in self.columns], name)]
        return replace(self, columns=tuple(each for each in self.columns if each.column in found or not columns))

    @property
    def is_complete(self) -> bool:
        """Return whether every model has a difference in every column."""
        return all(len(each.gains) == len(self.models) for each in self.columns)

    @property
    def warning(self) -> str | None:
        """Return the columns whose variances over seeds differ by more than four times; None if there are none."""
        found = [
            f"{clipped(each.column.label)} ({each.variance_ratio:.0f} times, p = {each.p_of_ratio:.2g})"
            for each in self.columns
            if each.variance_ratio > MOST_RATIO
        ]
        if not found:
            return None
        return (
            f"the largest variance over seeds is more than {MOST_RATIO:g} times the smallest in {some_of(found)}, with "
            "the probability of a larger ratio if all were equal; p pools variances, Welch's test does not"
        )

    @property
    def summary(self) -> str:
        """Return the counts of verdicts, and the decided columns."""
        found = [(gain, each) for each in self.columns for gain in each.gains]
        if not found:
            return "No column was tested."
        counts = Counter(gain.verdict for gain, _ in found)
        parts = [f"{counts[name]} {name}" for name in ("supported", "contradicted", "undecided") if counts[name]]
        decided = [
            f"{clipped(gain.model)} {gain.verdict} in {clipped(each.column.label)}"
            for gain, each in found
            if gain.verdict != "undecided"
        ]
        times = " or ".join(map(str, dict.fromkeys(each.num_columns for each in self.columns)))
        named = f": {some_of(decided)}" if decided else ""
        return f"{len(found)} gains over {clipped(self.control)}: {', '.join(parts)}{named} (p times {times} columns)."


def compare_with_control(
    suites: Sequence[Suite],
    store: Store,
    control: str,
    seeds: Mapping[str, Mapping[str, int | None]],
    *,
    limit: int | None = None,
    seed: int | None = None,
    are_paired: bool = False,
) -> ManyToOne:
    """Compare the means over training seeds of several models with a control's, on every column of the suites.

    Args:
        suites: suites whose columns are compared.
        store: stored results.
        control: name of the control.
        seeds: checkpoints of each model, the control's included, with their training seeds; None for unknown ones.
        limit: number of first examples, as of reports.
        seed: seed of draws, likewise.
        are_paired: pair equal training seeds, which all models must have.

    Raises:
        UsageError: fewer than two models beside the control, or two seeds of each; two seeds have equal weights; or
            seeds are to be paired and differ.
        UnknownNameError: a model has no results, or a column names a metric or condition that there is not.
        IncomparableError: the models were measured on different data.
        StoreError: a file cannot be read, or is of a later robench.
    """
    checkpoints = _checked(control, seeds, are_paired=are_paired)
    columns: list[ControlledColumn] = []
    measured: list[ModelResults] = []
    drawn_with: dict[int, None] = {}
    for suite in suites:
        wanted_seed = suite.seed if seed is None else seed
        results = Stored(suite, store, None, wanted_seed)
        found = {name: [known_results(suite, results, each, limit) for each in of] for name, of in checkpoints.items()}
        for of in found.values():
            check_weights(of)
            for each in of:
                check_same_data(found[control][0], each)
            measured += of
        columns += [_column(suite, each, found, are_paired=are_paired) for each in suite.columns]
        drawn_with[wanted_seed] = None
    columns = _with_welch(columns)
    provenances = [provenance for each in measured for provenance in each.provenances]
    return ManyToOne(
        control=control,
        models=tuple(checkpoints)[1:],
        seeds=checkpoints,
        suites=tuple((suite.name, suite.version) for suite in suites),
        columns=tuple(columns),
        notes=tuple(dict.fromkeys(note for each in measured for note in each.notes)),
        provenance=provenance_of(provenances, next(iter(drawn_with)), [INTERVAL])
        | {"seed": ", ".join(map(str, drawn_with))},
        are_paired=are_paired,
        limit=limit,
        all_examples=any(suite.all_examples for suite in suites),
    )


def _checked(
    control: str, seeds: Mapping[str, Mapping[str, int | None]], *, are_paired: bool
) -> dict[str, tuple[str, ...]]:
    """Return the checkpoints of each model, the control first; paired ones in the order of seeds that all have."""
    models = [name for name in seeds if name != control]
    if len(models) < 2:
        raise UsageError(
            f"Dunnett's test needs two models or more beside the control, got {len(models)}; compare two models with "
            "'robench compare A B --all-seeds'"
        )
    checkpoints = {name: tuple(seeds[name]) for name in (control, *models)}
    check_seeds([*checkpoints.values()])
    if not are_paired:
        return checkpoints
    found = {
        name: sorted((number, each) for each in of if (number := seeds[name][each]) is not None)
        for name, of in checkpoints.items()
    }
    numbers = {name: [number for number, _ in of] for name, of in found.items()}
    for name in models:
        if numbers[name] != numbers[control]:
            have = [", ".join(map(str, numbers[each])) or "none that is known" for each in (control, name)]
            raise UsageError(
                f"seeds can be paired only if all models have the same: {control} has {have[0]}, {name} {have[1]}; "
                "leave out --pair-seeds"
            )
    return {name: tuple(each for _, each in of) for name, of in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """Numbers of one model in one column.

    Attributes:
        of_examples: variance of its mean over examples; None where unknown.
        by_example: mean over seeds (N,) of each example's value, of all models in one order; None unless the number is
            their mean.
        is_binary: whether these values are binary outcomes.
    """

    name: str
    cell: Cell
    by_seed: tuple[float, ...]
    of_examples: float | None
    by_example: NDArray[np.float64] | None
    is_binary: bool

    def error_beside(self, control: _Side) -> float | None:
        """Return the standard error over examples of the difference from the control; None where unknown."""
        if self.by_example is not None and control.by_example is not None:
            paired = self.by_example - control.by_example
            return float(paired.std(ddof=1)) / sqrt(len(paired))
        if self.of_examples is None or control.of_examples is None:
            return None
        return sqrt(self.of_examples + control.of_examples)


def error_over_examples(first: Sequence[ModelResults], second: Sequence[ModelResults], column: Column) -> float | None:
    """Return the standard error over examples of the difference of two models' means over seeds, in their unit.

    None if a seed has no number or interval. Means over the same examples are paired.
    """
    found = {"first": first, "second": second}
    cells = {name: mean_cell([each.cell(column) for each in of]) for name, of in found.items()}
    if any(cell.estimate is None for cell in cells.values()):
        return None
    one, other = _sides(column, found, cells)
    return one.error_beside(other)


def _column(
    suite: Suite, column: Column, found: Mapping[str, Sequence[ModelResults]], *, are_paired: bool
) -> ControlledColumn:
    """Return one column, without Welch's tests."""
    cells = {name: mean_cell([each.cell(column) for each in of]) for name, of in found.items()}
    control = next(iter(cells.values()))
    result = ControlledColumn(
        suite=suite.name, column=column, unit=unit_of(column), control=control, num_columns=len(suite.columns)
    )
    if lacking := [clipped(name) for name, cell in cells.items() if cell.estimate is None]:
        return replace(result, why_untested=f"{some_of(lacking)}: not measured, or not on all examples")
    if any(not isfinite(value) for cell in cells.values() if cell.estimate for value in cell.estimate.of_seeds):
        return replace(result, why_untested="a training seed's number is infinite or undefined")
    first, *others = sides = _sides(column, found, cells)
    by_seed = [each.by_seed for each in sides]
    step = 1 / control.num_examples if all(each.is_binary for each in sides) else 0.0
    spread = pooled(by_seed, are_paired=are_paired, least_std=step / sqrt(12))
    covers_both = all(each.error_beside(first) is not None for each in others)
    gains = [_gain(result, each, first, spread, place) for place, each in enumerate(others, start=1)]
    level = LEVEL / result.num_columns
    low, high = (replace(spread, std=std).detectable(level) for std in std_range(spread.std, spread.freedom))
    ratio, p_of_ratio = variance_ratio(by_seed)
    return replace(
        result,
        gains=tuple(gains),
        covers=OF_BOTH if covers_both else OF_SEEDS,
        pooled=spread,
        detectable=(low, high),
        variance_ratio=ratio,
        p_of_ratio=p_of_ratio,
    )


def _sides(column: Column, found: Mapping[str, Sequence[ModelResults]], cells: Mapping[str, Cell]) -> list[_Side]:
    contributed = [METRICS[column.metric].contributed(each.readings(column)) for of in found.values() for each in of]
    values, start, sides = values_of_seeds(contributed), 0, []
    for name, of in found.items():
        estimate = cells[name].estimate
        assert estimate is not None  # such columns are not tested
        sides.append(
            _Side(
                name=name,
                cell=cells[name],
                by_seed=estimate.of_seeds,
                of_examples=variance_over_examples([each.cell(column).estimate for each in of]),
                by_example=None if values is None else values[start : start + len(of)].mean(axis=0),
                is_binary=all(
                    isinstance(each, Contributions) and each.is_binary for each in contributed[start : start + len(of)]
                ),
            )
        )
        start += len(of)
    return sides


def _gain(column: ControlledColumn, side: _Side, control: _Side, spread: Pooled, place: int) -> ControlledGain:
    difference = fmean(side.by_seed) - fmean(control.by_seed)
    p_value, critical, error = spread.p_value(difference, place), spread.critical(LEVEL), spread.error(place)
    of_both = hypot(error, side.error_beside(control) or 0.0)
    low, high = difference - critical * of_both, difference + critical * of_both
    p_corrected = corrected(p_value, column.num_columns)
    verdict: GainVerdict = "undecided"
    if p_corrected < LEVEL and not low <= 0 <= high:
        is_better = (difference > 0) != METRICS[column.column.metric].lower_is_better
        verdict = "supported" if is_better else "contradicted"
    few, many = (
        replace(spread, std=std).seeds_needed(difference, LEVEL / column.num_columns)
        for std in std_range(spread.std, spread.freedom)
    )
    return ControlledGain(
        model=side.name,
        cell=side.cell,
        difference=difference,
        low=low,
        high=high,
        over_seeds=(difference - critical * error, difference + critical * error),
        p_value=p_value,
        p_corrected=p_corrected,
        verdict=verdict,
        seeds_needed=(few, many),
    )


def _with_welch(columns: Sequence[ControlledColumn]) -> list[ControlledColumn]:
    """Return the columns with Welch's test of each pair, with Holm's correction over all."""
    pairs = [(gain.cell, column.control) for column in columns for gain in column.gains]
    p_values = iter(holm([difference_over_seeds(*map(_seeds_of, pair))[1] for pair in pairs]))
    return [
        replace(column, gains=tuple(replace(gain, welch=next(p_values)) for gain in column.gains)) for column in columns
    ]


def _seeds_of(cell: Cell) -> tuple[float, ...]:
    return () if cell.estimate is None else cell.estimate.of_seeds
