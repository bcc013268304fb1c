"""Accuracies of several models beside those of one control, over training seeds, by Dunnett's test.

p-values of ``comparison.dunnett`` are multiplied by the number of columns. By the question that was stated for film
reviews, a verdict also needs a second interval without zero: that of the mean difference over the examples, each the
mean over seeds (Student's t). ``robench compare --control`` has one interval over both.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Literal

import numpy as np
from result_tables import Table
from scipy import stats

import robench
from robench.comparison.documents import difference_text
from robench.comparison.dunnett import pooled
from robench.comparison.evidence import difference_over_seeds
from robench.comparison.pairing import LEVEL, corrected
from robench.core.checkpoint import entry_name
from robench.reports.build import measured
from robench.reports.results import Stored
from robench.store import FolderStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledGain:
    """Difference of a model's mean accuracy from the control's, in shares.

    Attributes:
        over_seeds: 95 % intervals of all models of a column together, over seeds.
        over_examples: 95 % interval over examples.
        p_value: p-value of Dunnett's test, times the number of columns, at most 1.
    """

    difference: float
    over_seeds: tuple[float, float]
    over_examples: tuple[float, float]
    p_value: float

    @property
    def verdict(self) -> Literal["supported", "contradicted", "undecided"]:
        """Return what the test over seeds and the interval over examples say of a gain."""
        low, high = self.over_examples
        if self.p_value >= LEVEL or low <= 0 <= high:
            return "undecided"
        return "supported" if self.difference > 0 else "contradicted"


def controlled_gains(
    correct: Mapping[str, NDArray[np.bool_]], control: str, *, num_columns: int = 1
) -> dict[str, ControlledGain]:
    """Return the gain of each model but the control, from the outcomes (seeds, examples) of all of them.

    All have the same examples; numbers of seeds may differ.
    """
    others = [name for name in correct if name != control]
    by_seed = {name: correct[name].mean(axis=1) for name in (control, *others)}
    spread, found = pooled([*by_seed.values()]), {}
    for place, name in enumerate(others, start=1):
        half_over_seeds = spread.critical(LEVEL) * spread.error(place)
        difference = float(by_seed[name].mean() - by_seed[control].mean())
        paired = correct[name].mean(axis=0) - correct[control].mean(axis=0)
        half = stats.t.ppf(1 - LEVEL / 2, len(paired) - 1) * paired.std(ddof=1) / sqrt(len(paired))
        found[name] = ControlledGain(
            difference=difference,
            over_seeds=(difference - half_over_seeds, difference + half_over_seeds),
            over_examples=(difference - half, difference + half),
            p_value=corrected(spread.p_value(difference, place), num_columns),
        )
    return found


@dataclass(frozen=True)
class ManyToOne:
    """Table of models beside their control in columns of accuracies.

    Attributes:
        prefix: beginning of the names of all models; ``control``: name of the control.
        columns: suites and conditions of the columns.
    """

    prefix: str
    control: str
    columns: tuple[tuple[str, str], ...]

    def lines(self, results: Path) -> Iterator[str]:
        """Yield the table: a row for each model and column, and the smallest difference that would be found."""
        yield f"Points above `{self.control}` by Dunnett's test over training seeds, p for {len(self.columns)} columns"
        yield "together. Intervals, 95 %: over seeds, of all models of a column together; over sentences, of each."
        yield ""
        yield "| | column | points, over seeds | over sentences | p | verdict |"
        yield "|---|---|---:|---:|---:|---|"
        found = []
        for suite, condition in self.columns:
            correct = outcomes_of(results, suite, condition, self.prefix)
            if len(correct) < 2:
                continue
            gains = controlled_gains(correct, self.control, num_columns=len(self.columns))
            for name, gain in gains.items():
                over_seeds = difference_text(gain.difference, *gain.over_seeds, "share")
                low, high = gain.over_examples
                over_examples = f"[{100 * low:+.1f}, {100 * high:+.1f}]"
                numbers = f"{over_seeds} | {over_examples} | {gain.p_value:.2g} | {gain.verdict}"
                yield f"| {name.removeprefix(self.prefix)} | {condition} | {numbers} |"
            ordered = [correct[self.control], *(each for name, each in correct.items() if name != self.control)]
            spread = pooled([each.mean(axis=1) for each in ordered])
            smallest = spread.detectable(LEVEL / len(self.columns))
            found.append(f"{100 * smallest:.1f} ({condition})")
        yield ""
        yield f"A difference is found in 80 % of cases from these points on: {', '.join(found)}."
        yield ""


@dataclass(frozen=True)
class AskedAgain:
    """Sentence on a model beside its control on the examples that a condition of a suite leaves out."""

    model: str
    control: str
    suite: str
    condition: str

    def lines(self, results: Path) -> Iterator[str]:
        """Yield the difference with Welch's test over seeds, and its interval over examples."""
        conditions = robench.load_suite(self.suite).conditions
        (used,) = [each.num_examples for each in conditions if each.name == self.condition]
        correct = outcomes_of(results, self.suite, self.condition, self.model, whole=True)
        control = outcomes_of(results, self.suite, self.condition, self.control, whole=True)
        ours, theirs = correct[self.model][:, used:], control[self.control][:, used:]
        difference, p_value = difference_over_seeds([*ours.mean(axis=1)], [*theirs.mean(axis=1)])
        each = ours.mean(axis=0) - theirs.mean(axis=0)
        half = stats.t.ppf(1 - LEVEL / 2, len(each) - 1) * each.std(ddof=1) / sqrt(len(each))
        over_seeds = difference_text(difference.value, difference.low, difference.high, "share")
        right = [f"`{name}` {100 * of.mean():.1f} %" for name, of in ((self.model, ours), (self.control, theirs))]
        over_examples = f"[{100 * (each.mean() - half):+.1f}, {100 * (each.mean() + half):+.1f}]"
        what = f"{len(each)} examples of {self.condition} that `{self.suite}` leaves out"
        yield f"On the {what} {' and '.join(right)} are"
        yield f"right: {over_seeds} points over {len(ours)} seeds (Welch's test, p = {p_value:.2g}), {over_examples}"
        yield "over these examples."
        yield ""


def outcomes_of(
    results: Path, suite: str, condition: str, prefix: str, *, whole: bool = False
) -> dict[str, NDArray[np.bool_]]:
    """Return which examples are right, (seeds, examples), of each published model with all examples of a condition.

    ``whole``: all examples of the dataset in place of the number that the suite states.
    """
    loaded, table = robench.load_suite(suite), Table("", prefix, suite)
    loaded = loaded.whole() if whole else loaded
    stored = Stored(loaded, FolderStore(results), None, loaded.seed)
    column = next(each for each in loaded.columns if each.key == f"{condition}/top1_accuracy")
    rows: dict[str, list[NDArray[np.bool_]]] = {}
    for model in table.models:
        each = measured(loaded, stored, model, None)
        if each.cell(column).estimate is not None:
            (outcomes,) = each.readings(column).measured
            rows.setdefault(entry_name(model), []).append(outcomes.column("correct_top1").astype(bool))
    return {name: np.stack(each) for name, each in rows.items()}
