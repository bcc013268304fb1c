"""Writes the tables of docs/cifar10.md and docs/series.md from committed results (``make generated``).

``python scripts/results_pages.py NAME RESULTS`` first adds the results of a folder to reports/NAME.tar.xz: of published
models under the suites of that page, a file for each measurement. A measurement that is there already stays as it is.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import robench
from robench.declare import read_registry, shipped_registry
from robench.papers.archive import add_records, archived, unpacked
from robench.reports.selection import needs
from robench.store import FolderStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from robench.core.report import Estimate
    from robench.core.suite import Column, Suite

ROOT = Path(__file__).parents[1]
TABLES = re.compile(r"(?<=<!-- tables -->\n).*?(?=<!-- /tables -->)", re.DOTALL)


@dataclass(frozen=True)
class Table:
    """Table of a suite: rows are its columns, columns the published models with a prefix.

    Attributes:
        dataset: dataset of a suite that names none.
        limit: number of first examples that were measured; None for all that the suite states.
    """

    title: str
    prefix: str
    suite: str
    dataset: str | None = None
    limit: int | None = None

    @cached_property
    def loaded(self) -> Suite:
        """Return the suite on its dataset."""
        return robench.load_suite(self.suite, dataset=self.dataset)

    @cached_property
    def models(self) -> list[str]:
        """Return the published models that have weights, further seeds too, in the order of the registry."""
        entries = read_registry(shipped_registry())
        return [name for name, each in entries.items() if name.startswith(self.prefix) and each.weights.sha256]


@dataclass(frozen=True)
class Page:
    """Page of docs with tables of an archive of results.

    Attributes:
        average_seeds: whether a model's training seeds are one column, their mean.
    """

    name: str
    tables: tuple[Table, ...]
    average_seeds: bool = True

    @property
    def path(self) -> Path:
        """Return the file of the page."""
        return ROOT / "docs" / f"{self.name}.md"

    @property
    def archive(self) -> Path:
        """Return the file of the results."""
        return ROOT / "reports" / f"{self.name}.tar.xz"

    def text(self, text: str) -> str:
        """Return the page's text with the tables of the committed results."""
        with unpacked(self.archive) as results:
            tables = "".join(f"{line}\n" for line in self._lines(results))
        return TABLES.sub(lambda found: tables, text)

    def add(self, results: Path) -> None:
        """Add a folder's results of published models to the committed ones, without columns that no metric reads."""
        store = FolderStore(results)
        names = [str(number) for number in range(len(self.tables))]
        wanted = {name: {*table.models} for name, table in zip(names, self.tables, strict=True)}
        suites = {name: table.loaded for name, table in zip(names, self.tables, strict=True)}
        add_records(archived(wanted, suites, store, list(store.manifests())), self.archive)

    def _lines(self, results: Path) -> Iterator[str]:
        costs = {table: _seconds(results, table) for table in self.tables}
        for table in self.tables:
            measured = [name for name in table.models if any(name in seconds for seconds in costs.values())]
            if not measured:
                continue
            report = robench.build_report(
                table.loaded, measured, results=results, limit=table.limit, all_seeds=self.average_seeds
            )
            over = "Student's t intervals over training seeds" if self.average_seeds else "intervals over images"
            yield from (f"{table.title}, suite `{table.suite}`, with 95 % {over}:", "")
            shown = table.prefix if self.average_seeds else ""
            yield f"| | {' | '.join(row.model.removeprefix(shown) for row in report.rows)} |"
            yield "|---|" + "---:|" * len(report.rows)
            for column in filter(_is_shown, report.columns):
                cells = [_shown(row.cells[column.key].estimate) for row in report.rows]
                yield f"| {column.label} | {' | '.join(cells)} |"
            yield ""
        if not self.average_seeds:
            yield from _minutes({table.suite: seconds for table, seconds in costs.items()})


def _is_shown(column: Column) -> bool:
    """Return whether a column repeats no other: the worst case of clean inputs and one attack is that attack."""
    return column.metric != "robust_accuracy" or len(column.conditions) > 2


def _minutes(costs: dict[str, dict[str, float]]) -> Iterator[str]:
    measured = list(dict.fromkeys(name for seconds in costs.values() for name in seconds))
    yield from ("Minutes that the measurements took, on one core beside other work:", "")
    yield f"| | {' | '.join(measured)} |"
    yield "|---|" + "---:|" * len(measured)
    for suite, seconds in costs.items():
        yield f"| {suite} | {' | '.join(f'{seconds.get(name, 0) / 60:.0f}' for name in measured)} |"
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
_ATTACKED = ((", first 100 series", 100), ("", None))
_TOKENS = {"listops-short": "short ListOps", "digits-pixels": "digits by pixels", "sotu-bytes": "addresses by bytes"}
PAGES = {
    page.name: page
    for page in (
        Page(
            "cifar10",
            (
                Table("Accuracy in per cent under noise, FGSM and PGD-20", "cifar10-", "cifar10-adv"),
                Table("Accuracy in per cent under AutoAttack and APGD", "cifar10-", "cifar10-autoattack"),
                Table("Accuracy in per cent under Square", "cifar10-", "cifar10-square"),
                Table("Mean error and accuracies in per cent under corruptions", "cifar10-", "cifar10-c"),
            ),
            average_seeds=False,
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
    )
}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PAGES[sys.argv[1]].add(Path(sys.argv[2]))
    for page in PAGES.values():
        page.path.write_text(page.text(page.path.read_text()))
