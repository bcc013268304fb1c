"""Writes the tables of docs/cifar10.md from the committed results (``make generated``); a test holds them together.

``python scripts/cifar10_page.py RESULTS`` first adds the results of a folder to reports/cifar10.tar.xz: of published
models under the suites of CIFAR-10, a file for each measurement. A measurement that is there already stays as it is.
"""

from __future__ import annotations

import re
import sys
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

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "cifar10.md"
ARCHIVE = ROOT / "reports" / "cifar10.tar.xz"
PREFIX = "cifar10-"
SUITES = {
    "cifar10-adv": "Accuracy in per cent under noise, FGSM and PGD-20",
    "cifar10-autoattack": "Accuracy in per cent under AutoAttack and APGD",
    "cifar10-square": "Accuracy in per cent under Square",
    "cifar10-c": "Mean error and accuracies in per cent under corruptions",
}
TABLES = re.compile(r"(?<=<!-- tables -->\n).*?(?=<!-- /tables -->)", re.DOTALL)


def models() -> list[str]:
    """Return the published models of CIFAR-10 that have weights, further seeds too, in the order of the registry."""
    entries = read_registry(shipped_registry())
    return [name for name, each in entries.items() if name.startswith(PREFIX) and each.weights.sha256]


def page(text: str) -> str:
    """Return the page with the tables of the committed results."""
    with unpacked(ARCHIVE) as results:
        tables = "".join(f"{line}\n" for line in _tables(results))
    return TABLES.sub(lambda found: tables, text)


def _tables(results: Path) -> Iterator[str]:
    costs = {suite: _seconds(results, suite) for suite in SUITES}
    measured = [name for name in models() if any(name in seconds for seconds in costs.values())]
    for suite, title in SUITES.items():
        report = robench.build_report(suite, measured, results=results)
        yield from (f"{title}, suite `{suite}`, with 95 % intervals over images:", "")
        yield f"| | {' | '.join(row.model for row in report.rows)} |"
        yield "|---|" + "---:|" * len(report.rows)
        for column in report.columns:
            cells = [_shown(row.cells[column.key].estimate) for row in report.rows]
            yield f"| {column.label} | {' | '.join(cells)} |"
        yield ""
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
    value, low, high = (f"{100 * each:.1f}" for each in (estimate.value, estimate.low, estimate.high))
    return f"{value} [{low}, {high}]"


def _seconds(results: Path, suite: str) -> dict[str, float]:
    """Return the seconds that the results of each model under a suite took."""
    found: dict[str, float] = {}
    for record in FolderStore(results).records(needs(robench.load_suite(suite))):
        name = record.shard.checkpoint
        found[name] = found.get(name, 0.0) + record.provenance.seconds
    return found


def add(results: Path) -> None:
    """Add the results of published models in a folder to the committed ones, without columns that no metric reads."""
    store, wanted = FolderStore(results), set(models())
    suites = {name: robench.load_suite(name) for name in SUITES}
    add_records(archived(dict.fromkeys(SUITES, wanted), suites, store, list(store.manifests())), ARCHIVE)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        add(Path(sys.argv[1]))
    PAGE.write_text(page(PAGE.read_text()))
