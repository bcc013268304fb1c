"""Writes the tables of docs/cifar10.md, series.md and segmentation.md from committed results (``make generated``).

``python scripts/results_pages.py NAME RESULTS`` first adds the results of a folder to the archive of that page: of
published models under its suites, a file for each measurement. A measurement that is there already stays as it is.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import robench
from robench.comparison.baseline import measured
from robench.comparison.compare import compare_models
from robench.comparison.documents import difference_text
from robench.comparison.evidence import evidence_of
from robench.comparison.gains import gains_of
from robench.core.checkpoint import entry_name
from robench.declare import read_registry, shipped_registry
from robench.metrics import METRICS
from robench.papers.archive import add_records, archived, unpacked
from robench.papers.signs import sign_of
from robench.reports import report_of_store
from robench.reports.results import Stored
from robench.reports.selection import cover, needs
from robench.store import FolderStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from robench.core.report import Estimate, Row
    from robench.core.suite import Column, Suite

ROOT = Path(__file__).parents[1]


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
        yield from (f"{names} less `{self.plain}`, in points, with 95 % intervals of paired weights of images:", "")
        yield f"| | clean | {self.plain} | {' | '.join(self.others)} |"
        yield "|---|" + "---:|" * (2 + len(self.others))
        for model, name in product(self.models, self.metrics):
            found, metric = measured(suite, stored, model, None), METRICS[name]
            columns = {column.conditions: column for column in suite.columns if column.metric == name}
            plain = columns[self.plain,]
            cells = [_shown(found.cell(columns[each,]).estimate) for each in ("clean", self.plain)]
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
class Page:
    """Part of a page of docs with tables of an archive of results.

    Attributes:
        name: name of the page, and of its archive unless ``uses_main_archive``.
        marker: the place on the page.
        shows_minutes: whether a table of what the measurements took comes last.
        uses_main_archive: whether the results are in the archive of the papers' tables, which has them as twins.
        printed, compared: papers' numbers before the tables, and comparisons after them.
    """

    name: str
    tables: tuple[Table, ...]
    marker: str = "tables"
    shows_minutes: bool = False
    uses_main_archive: bool = False
    printed: tuple[Printed, ...] = ()
    compared: tuple[Attacks | Gains, ...] = ()

    @property
    def path(self) -> Path:
        """Return the file of the page."""
        return ROOT / "docs" / f"{self.name}.md"

    @property
    def archive(self) -> Path:
        """Return the file of the results."""
        return ROOT / "reports" / f"{'archive' if self.uses_main_archive else self.name}.tar.xz"

    def text(self, text: str) -> str:
        """Return the page's text with the tables of the committed results."""
        with unpacked(self.archive) as results:
            tables = "".join(f"{line}\n" for line in self._lines(results))
        place = re.compile(rf"(?<=<!-- {self.marker} -->\n).*?(?=<!-- /{self.marker} -->)", re.DOTALL)
        return place.sub(lambda found: tables, text)

    def add(self, results: Path) -> None:
        """Add a folder's results to the committed ones, without columns that no metric reads.

        Only models that have all examples of a suite are added.
        """
        store = FolderStore(results)
        names = [str(number) for number in range(len(self.tables))]
        wanted = {name: {*table.complete(store)} for name, table in zip(names, self.tables, strict=True)}
        suites = {name: table.loaded for name, table in zip(names, self.tables, strict=True)}
        add_records(archived(wanted, suites, store, list(store.manifests())), self.archive)

    def _lines(self, results: Path) -> Iterator[str]:
        store = FolderStore(results)
        for printed in self.printed:
            yield from printed.lines(results)
        for table in self.tables:
            if not table.is_shown or not (names := table.complete(store)):
                continue
            report = report_of_store(table.loaded, store, models=names, limit=table.limit, average_seeds=True)
            is_of_seeds = any(row.seeds for row in report.rows)
            over = "Student's t intervals over training seeds" if is_of_seeds else "intervals over images"
            yield from (f"{table.title}, suite `{table.suite}`, with 95 % {over}:", "")
            yield f"| | {' | '.join(self._headings(table, report.rows))} |"
            yield "|---|" + "---:|" * len(report.rows)
            for column in filter(table.shows, report.columns):
                cells = [_shown(row.cells[column.key].estimate) for row in report.rows]
                yield f"| {column.label} | {' | '.join(cells)} |"
            yield ""
        for compared in self.compared:
            yield from compared.lines(results)
        if self.shows_minutes:
            yield from _minutes({table.suite: _seconds(results, table) for table in self.tables})

    def _headings(self, table: Table, rows: Sequence[Row]) -> Iterator[str]:
        counts = [max(1, len(row.seeds)) for row in rows]
        for row, count in zip(rows, counts, strict=True):
            of_seeds = f" ({count} {'seed' if count == 1 else 'seeds'})" if len({*counts}) > 1 else ""
            yield (row.model.removeprefix(table.prefix) or row.model) + of_seeds


def _minutes(costs: dict[str, dict[str, float]]) -> Iterator[str]:
    measured = list(dict.fromkeys(name for seconds in costs.values() for name in seconds if "@" not in name))
    yield from ("Minutes that the measurements of the first seed took, on one core beside other work:", "")
    yield f"| | {' | '.join(measured)} |"
    yield "|---|" + "---:|" * len(measured)
    for suite, seconds in costs.items():
        minutes = [f"{seconds[name] / 60:.0f}" if name in seconds else "—" for name in measured]
        yield f"| {suite} | {' | '.join(minutes)} |"
    totals = [sum(seconds.get(name, 0) for seconds in costs.values()) / 60 for name in measured]
    yield f"| together | {' | '.join(f'{each:.0f}' for each in totals)} |"


def _shown(estimate: Estimate | None) -> str:
    if estimate is None:
        return "not measured"
    scale = 100 if estimate.unit == "share" else 1
    value, low, high = (
        "-" if each is None else f"{scale * each:.1f}" for each in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value} [{low}, {high}]"


def _seconds(results: Path, table: Table) -> dict[str, float]:
    """Return the seconds that the results of each model of a table took."""
    found = dict.fromkeys(table.models, 0.0)
    for record in FolderStore(results).records(needs(table.loaded)):
        if record.shard.checkpoint in found:
            found[record.shard.checkpoint] += record.provenance.seconds
    return {name: seconds for name, seconds in found.items() if seconds}


_SERIES = {"japanese-vowels": "JapaneseVowels", "basic-motions": "BasicMotions"}
_CIFAR10 = ("vit", "symvit", "rpc-symvit", "bilateral-vit", "twicing-vit", "primal-vit", "rkde-vit")
_ATTACKED = ((", first 100 series", 100), ("", None))
_TOKENS = {"listops-short": "short ListOps", "digits-pixels": "digits by pixels", "sotu-bytes": "addresses by bytes"}
_TRANSFORMER = "japanese-vowels-transformer"
_S, _ETA, _FORMS = (20, 30, 40), ("0", "0.1", "0.2", "0.5"), ("independent", "dependent")
_PRIMAL = {f"Primal, s = {s}, η = {eta}": f"japanese-vowels-primal-s{s}-eta{eta}" for s, eta in product(_S, _ETA)} | {
    f"a layer each, data-{each}": f"japanese-vowels-primal-trans-{each}" for each in _FORMS
}
PAGES = {
    page.name if page.marker == "tables" else page.marker: page
    for page in (
        Page(
            "cifar10",
            (
                Table("Accuracy in per cent under noise, FGSM and PGD-20", "cifar10-", "cifar10-adv"),
                Table("Accuracy in per cent under AutoAttack and APGD", "cifar10-", "cifar10-autoattack"),
                Table("Accuracy in per cent under Square", "cifar10-", "cifar10-square"),
                Table("Mean error and accuracies in per cent under corruptions", "cifar10-", "cifar10-c"),
                Table("Naive and adaptive attacks", "cifar10-", "cifar10-adaptive", is_shown=False),
                Table("AutoAttack by two codes", "cifar10-", "cifar10-libraries", is_shown=False),
            ),
            compared=(
                Attacks(
                    models=tuple(f"cifar10-{name}" for name in _CIFAR10),
                    suite="cifar10-adaptive",
                    plain="naive",
                    others=("through-solvers", "adaptive"),
                    metrics=("top1_accuracy",),
                ),
            ),
        ),
        Page(
            "series",
            (
                *(
                    Table(
                        f"{title}: accuracy in per cent under attacks{of}", f"{name}-small-", "series-adv", name, limit
                    )
                    for (name, title), (of, limit) in zip(_SERIES.items(), _ATTACKED, strict=True)
                ),
                *(
                    Table(f"{title}: mean error and accuracies under corruptions", f"{name}-small-", "series-c", name)
                    for name, title in _SERIES.items()
                ),
                *(Table(f"Accuracy on {title} in per cent", f"{name}-", name) for name, title in _TOKENS.items()),
            ),
        ),
        Page(
            "series",
            (
                Table("Softmax in both layers, in per cent", _TRANSFORMER, "uea-japanese-vowels"),
                Table("Primal", "japanese-vowels-primal-", "uea-japanese-vowels", is_shown=False),
            ),
            marker="japanese-vowels",
            uses_main_archive=True,
            printed=(
                Printed(
                    ("η = 0", "0.1", "0.2", "0.5"),
                    {
                        f"Primal, s = {s}": [("primal:1", f"JapaneseVowels, s = {s}", f"η = {eta}") for eta in _ETA]
                        for s in _S
                    },
                ),
                Printed(
                    ("data-independent", "data-dependent"),
                    {
                        "Primal and softmax, a layer each": [
                            ("primal:3", f"data-{each}", "JPN Vowels") for each in _FORMS
                        ]
                    },
                ),
            ),
            compared=(Gains(_TRANSFORMER, "uea-japanese-vowels", _PRIMAL),),
        ),
        Page(
            "segmentation",
            (
                Table("400 clean scenes, in per cent", "scenes-", "scenes-clean", is_summary=True),
                Table("100 scenes under attack, in per cent", "scenes-", "scenes-adv"),
                Table("100 scenes under SEA at 2/255, in per cent", "scenes-", "scenes-sea"),
                Table("100 scenes under 15 corruptions, in per cent", "scenes-", "scenes-c", is_summary=True),
            ),
            shows_minutes=True,
            uses_main_archive=True,
            compared=(
                Attacks(
                    models=("scenes-softmax", "scenes-symmetric", "scenes-rpc"),
                    suite="scenes-adv",
                    plain="pgd-2",
                    others=("segpgd-2", "cospgd-2"),
                    metrics=("pixel_accuracy", "mean_iou"),
                ),
            ),
        ),
    )
}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PAGES[sys.argv[1]].add(Path(sys.argv[2]))
    for page in PAGES.values():
        page.path.write_text(page.text(page.path.read_text()))
