"""Tables of results in the docs: of suites, of attacks beside another, of printed numbers, and of gains.

``results_pages.py`` has the pages that they are on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from gains import gains_of

import robench
from robench.comparison.compare import compare_models
from robench.comparison.documents import difference_text
from robench.comparison.evidence import evidence_of
from robench.core.checkpoint import entry_name
from robench.declare import read_registry, shipped_registry
from robench.metrics import METRICS
from robench.papers.signs import sign_of
from robench.reports.build import measured
from robench.reports.results import Stored
from robench.reports.selection import cover, needs
from robench.store import FolderStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from robench.core.report import Estimate
    from robench.core.suite import Column, Suite

CHECKPOINTS = Path(__file__).parents[1] / "checkpoints"


@dataclass(frozen=True)
class Table:
    """Table of a suite: rows are its columns, columns the published models with a prefix.

    Attributes:
        dataset: dataset of a suite that names none.
        limit: number of first examples that were measured; None for all that the suite states.
        is_summary: whether numbers of single corruptions and classes are left out.
        is_shown: False of results that are for comparisons of attacks alone.
    """

    title: str
    prefix: str
    suite: str
    dataset: str | None = None
    limit: int | None = None
    is_summary: bool = False
    is_shown: bool = True

    def shows(self, column: Column) -> bool:
        """Return whether a column repeats no other: the worst case of clean inputs and one attack is that attack."""
        if METRICS[column.metric].scope == "threat-model" and len(column.conditions) == 2:
            return False
        is_of_all = column.of_class is None and (column.conditions == ("clean",) or len(column.conditions) > 1)
        return is_of_all or not self.is_summary

    @cached_property
    def loaded(self) -> Suite:
        """Return the suite on its dataset."""
        return robench.load_suite(self.suite, dataset=self.dataset)

    @cached_property
    def models(self) -> list[str]:
        """Return the published models that have weights, further seeds too, in the order of the registry."""
        entries = read_registry(shipped_registry())
        return [name for name, each in entries.items() if name.startswith(self.prefix) and each.weights.sha256]

    def complete(self, store: FolderStore) -> list[str]:
        """Return those of the models that have results on all examples of the suite."""
        stored = Stored(self.loaded, store, None, self.loaded.seed)
        conditions, found = self.loaded.conditions, []
        for name in self.models:
            coverages = cover(conditions, stored.described(name), dataset_sizes=stored.sizes, limit=self.limit)
            if all(each.missing == 0 for each in coverages.values()):
                found.append(name)
        return found


@dataclass(frozen=True)
class Attacks:
    """Attacks of a suite beside one of them, by paired differences on the same examples.

    Attributes:
        models: names of models; ``plain`` and ``others``: names of conditions; ``metrics``: numbers of each.
    """

    models: tuple[str, ...]
    suite: str
    plain: str
    others: tuple[str, ...]
    metrics: tuple[str, ...]

    def lines(self, results: Path) -> Iterator[str]:
        """Yield the table: a row for each model and metric, the plain attack's number, and the others' differences."""
        suite = robench.load_suite(self.suite)
        stored = Stored(suite, FolderStore(results), None, suite.seed)
        names = ", ".join(f"`{name}`" for name in self.others)
        unit = "" if METRICS[self.metrics[0]].unit == "return" else "in points, "
        yield from (f"{names} less `{self.plain}`, {unit}with 95 % intervals of paired weights of examples:", "")
        yield f"| | clean | {self.plain} | {' | '.join(self.others)} |"
        yield "|---|" + "---:|" * (2 + len(self.others))
        for model, name in product(self.models, self.metrics):
            found, metric = measured(suite, stored, model, None), METRICS[name]
            columns = {column.conditions: column for column in suite.columns if column.metric == name}
            plain = columns[self.plain,]
            cells = [shown(found.cell(columns[each,]).estimate) for each in ("clean", self.plain)]
            for other in self.others:
                of_other, of_plain = (found.readings(each) for each in (columns[other,], plain))
                difference = evidence_of(metric, of_other, of_plain, other).difference
                cells.append(difference_text(difference.value, difference.low, difference.high, metric.unit))
            yield f"| {model}: {plain.label.removeprefix(self.plain).strip()} | {' | '.join(cells)} |"
        yield ""


_paper_table = cache(robench.paper_table)


@dataclass(frozen=True)
class Printed:
    """Printed numbers of papers' tables beside measured ones.

    Attributes:
        columns: headings of the columns of numbers.
        rows: heading of each row, and the cells as (table, row, column).
    """

    columns: tuple[str, ...]
    rows: dict[str, list[tuple[str, str, str]]]

    def lines(self, results: Path) -> Iterator[str]:
        """Yield the table; a cell has the printed number, ours with its interval, and the sign of the verdict."""
        yield f"| | {' | '.join(self.columns)} |"
        yield "|---|" + "---|" * len(self.columns)
        for heading, places in self.rows.items():
            yield f"| {heading} | {' | '.join(self._cell(results, *place) for place in places)} |"
        yield ""

    @staticmethod
    def _cell(results: Path, table: str, label: str, column: str) -> str:
        cell = next(row for row in _paper_table(table, results=results).rows if row.label == label).cells[column]
        numbers = cell.ours.measured, cell.ours.low, cell.ours.high
        ours = "" if None in numbers else "; {:.1f} [{:.1f}, {:.1f}]".format(*numbers)
        return f"{cell.printed}{ours} {sign_of(cell.verdict.name)}"


@dataclass(frozen=True)
class Gains:
    """Differences of entries from one baseline in a suite's only number, tested together over training seeds.

    Attributes:
        names: names of the entries by their headings.
    """

    baseline: str
    suite: str
    names: dict[str, str]

    def lines(self, results: Path) -> Iterator[str]:
        """Yield the table: a row for each entry, with its difference, the p-value, and the seeds."""
        suite, store = robench.load_suite(self.suite), FolderStore(results)
        seeds: dict[str, list[str]] = {name: [] for name in (self.baseline, *self.names.values())}
        for checkpoint in Table("", "", self.suite).complete(store):
            seeds.setdefault(entry_name(checkpoint), []).append(checkpoint)
        base = seeds[self.baseline]
        tested = [name for name in self.names.values() if min(len(seeds[name]), len(base)) > 1]
        pairs = [compare_models([suite], store, name, self.baseline, seeds=(seeds[name], base)) for name in tested]
        found = {each.model: each for each in gains_of(pairs)}
        yield f"Points above `{self.baseline}` ({len(base)} seeds), 95 % intervals (Welch), p by Holm's method:"
        yield from ("", "| | seeds | difference | p | verdict |", "|---|---:|---:|---:|---|")
        for heading, name in self.names.items():
            cells = ["—", "—", "one seed"]
            if (gain := found.get(name)) and (each := gain.compared.difference) and gain.p_value is not None:
                difference = difference_text(each.value, each.low, each.high, gain.compared.unit)
                cells = [difference, f"{gain.p_value:.2g}", gain.verdict]
            yield f"| {heading} | {len(seeds[name])} | {' | '.join(cells)} |"
        yield ""


@dataclass(frozen=True)
class Selection:
    """Accuracies on test over the scored epochs of trainings, whose best epoch is published.

    Attributes:
        names: names of the entries by their headings; those without a committed history are left out.
    """

    names: dict[str, str]

    def lines(self, results: Path) -> Iterator[str]:
        """Yield the table: a row for each training, from its history."""
        yield from ("Accuracy on test in per cent over the scored epochs of each training:", "")
        yield "| | scored epochs | best, after epoch | last | mean | standard deviation |"
        yield "|---|" + "---:|" * 5
        for heading, name in self.names.items():
            path = CHECKPOINTS / f"{name}.history.json"
            if not path.exists():
                continue
            scored = [each for each in json.loads(path.read_text())["epochs"] if each["validation"]]
            found = {each["epoch"]: 100 * each["validation"]["top1_accuracy"] for each in scored}
            best, values = max(found, key=lambda epoch: found[epoch]), list(found.values())
            cells = [f"{len(found)}", f"{found[best]:.1f}, {best}", f"{values[-1]:.1f}"]
            yield f"| {heading} | {' | '.join(cells)} | {fmean(values):.1f} | {stdev(values):.1f} |"
        yield ""


def minutes_of(costs: dict[str, dict[str, float]]) -> Iterator[str]:
    """Yield the table of minutes from the seconds of each model by suite."""
    measured = list(dict.fromkeys(name for seconds in costs.values() for name in seconds if "@" not in name))
    yield from ("Minutes that the measurements of the first seed took, on one core beside other work:", "")
    yield f"| | {' | '.join(measured)} |"
    yield "|---|" + "---:|" * len(measured)
    for suite, seconds in costs.items():
        minutes = [f"{seconds[name] / 60:.0f}" if name in seconds else "—" for name in measured]
        yield f"| {suite} | {' | '.join(minutes)} |"
    totals = [sum(seconds.get(name, 0) for seconds in costs.values()) / 60 for name in measured]
    yield f"| together | {' | '.join(f'{each:.0f}' for each in totals)} |"


def shown(estimate: Estimate | None) -> str:
    """Return a number with its interval; shares are in per cent."""
    if estimate is None:
        return "not measured"
    scale = 100 if estimate.unit == "share" else 1
    value, low, high = (
        "-" if each is None else f"{scale * each:.1f}" for each in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value} [{low}, {high}]"


def seconds_of(results: Path, table: Table) -> dict[str, float]:
    """Return the seconds that the results of each model of a table took."""
    found = dict.fromkeys(table.models, 0.0)
    for record in FolderStore(results).records(needs(table.loaded)):
        if record.shard.checkpoint in found:
            found[record.shard.checkpoint] += record.provenance.seconds
    return {name: seconds for name, seconds in found.items() if seconds}
