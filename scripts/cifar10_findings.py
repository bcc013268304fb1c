"""Writes reports/cifar10 from reports/cifar10.tar.xz (``make cifar10``): claims, leaderboard, tables and figures.

Claims are the gains of each mechanism over its baseline in the columns below, which were chosen before anything was
measured but ``cifar10-vit`` and ``cifar10-rpc-symvit``: at 4/255 and 8/255 every model that is trained on clean images
is near 0 %, so that nothing can be found there. All are tested together, over the training seeds that are measured.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import robench
from robench.comparison.compare import Comparison, compare_models
from robench.comparison.gains import gains_of, summary_of
from robench.comparison.spread import seeds_text
from robench.declare import read_registry, shipped_registry
from robench.papers.archive import unpacked
from robench.reports.grid import cell_text
from robench.store import FolderStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from robench.comparison.gains import Gain
    from robench.core.suite import Suite

ROOT = Path(__file__).parents[1]
ARCHIVE = ROOT / "reports" / "cifar10.tar.xz"
FOLDER = ROOT / "reports" / "cifar10"
SOFTMAX, SYMMETRIC = "cifar10-vit", "cifar10-symvit"
PAIRS = (
    ("cifar10-rpc-symvit", SYMMETRIC),
    *((name, SOFTMAX) for name in (SYMMETRIC, "cifar10-rpc-symvit", "cifar10-bilateral-vit", "cifar10-twicing-vit")),
    *((name, SOFTMAX) for name in ("cifar10-primal-vit", "cifar10-rkde-vit")),
)
COLUMNS = {
    "cifar10-adv": ("clean/top1_accuracy", "noise/top1_accuracy", "pgd-1/top1_accuracy", "pgd-2/top1_accuracy"),
    "cifar10-autoattack": ("apgd-1/top1_accuracy", "apgd-2/top1_accuracy", "autoattack-l2/top1_accuracy"),
    "cifar10-square": ("square-2/top1_accuracy", "square-l2/top1_accuracy"),
    "cifar10-c": ("cifar-10-c-live/mean_error",),
}
SUITES = [argument for name in COLUMNS for argument in ("--suite", name)]


def write(folder: Path = FOLDER, archive: Path = ARCHIVE) -> None:
    """Write everything; equal results and releases give equal bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    with unpacked(archive) as results:
        gains = gains_of([*comparisons(results)], {f"{suite}/{key}" for suite, keys in COLUMNS.items() for key in keys})
        (folder / "README.md").write_text("\n".join(page(gains)))
        where = ["--results", str(results)]
        names = measured(results)
        models = options(names)
        for suffix in ("html", "md", "csv"):
            output = ["--format", suffix, "--output", str(folder / f"leaderboard.{suffix}")]
            run("leaderboard", *SUITES, *models, "--costs", *where, *output)
        drawn = options(name for name in names if "@" not in name)
        run("figure", "budget", "--suite", "cifar10-adv", *drawn, *where, "--output", str(folder / "budget.svg"))
        run(
            "figure", "corruptions", "--suite", "cifar10-c", *drawn, *where, "--output", str(folder / "corruptions.svg")
        )
        column = ["--column", "pgd-1/top1_accuracy", "--against", "multiply-adds"]
        run("figure", "cost", "--suite", "cifar10-adv", *drawn, *column, *where, "--output", str(folder / "cost.svg"))


def options(names: Iterable[str]) -> list[str]:
    """Return the options that name models."""
    return [argument for name in names for argument in ("--model", name)]


def run(*arguments: str) -> None:
    """Run a command of robench, which must succeed."""
    subprocess.run([sys.executable, "-m", "robench", *arguments], check=True, stdout=subprocess.DEVNULL)


def measured(results: Path) -> list[str]:
    """Return the published checkpoints that have results, in the order of the registry."""
    found = {manifest.shard.checkpoint for manifest in FolderStore(results).manifests()}
    return [name for name in read_registry(shipped_registry()) if name in found]


def comparisons(results: Path) -> Iterator[Comparison]:
    """Yield each pair under each suite: over the seeds that have all numbers, or of single checkpoints."""
    store, names = FolderStore(results), measured(results)
    for suite in map(robench.load_suite, COLUMNS):
        complete = _complete(suite, names, results)
        for pair in PAIRS:
            seeds = [[each for each in complete if each.partition("@")[0] == name] for name in pair]
            if all(seeds):
                means = seeds if min(map(len, seeds)) > 1 else None
                yield compare_models([suite], store, *(each[0] for each in seeds), seeds=means)


def _complete(suite: Suite, names: list[str], results: Path) -> list[str]:
    """Return the checkpoints, a training seed each, that have every number of a suite's columns here."""
    rows = robench.build_report(suite, names, results=results).rows
    return [row.model for row in rows if all(row.cells[key].estimate for key in COLUMNS[suite.name])]


def page(gains: Iterable[Gain]) -> Iterator[str]:
    """Yield the lines of the page."""
    found = list(gains)
    yield "# CIFAR-10: gains of attention mechanisms over their baselines"
    yield ""
    yield "Written by `make cifar10`; [docs/cifar10.md](../../docs/cifar10.md) says what was measured, and how."
    yield "Another dataset, size and recipe than the papers': neither for nor against their numbers."
    yield ""
    yield f"{summary_of(found).capitalize()}, at 5 % over all that were tested (Welch's tests, Holm's correction)."
    yield ""
    yield "| model | baseline | number | model's | baseline's | gain | verdict | would be found | seeds that decide |"
    yield "|---|---|---|---:|---:|---:|---|---:|---:|"
    for each in found:
        compared = each.compared
        cells = [cell_text(cell) for cell in (compared.first, compared.second)]
        gain = "—" if each.gain is None else f"{100 * each.gain:+.1f}"
        bounds = "—" if each.detectable is None else " to ".join(f"{100 * bound:.1f}" for bound in each.detectable)
        needed = "—" if each.seeds_needed is None else seeds_text(*each.seeds_needed)
        label = f"{compared.column.label} ({compared.suite})"
        verdict = each.verdict if each.p_value is None else f"{each.verdict} (p = {each.p_value:.2g})"
        yield f"| {each.model} | {each.baseline} | {label} | {' | '.join((*cells, gain, verdict, bounds, needed))} |"
    yield ""
    yield "Gains are in points, positive where the model is better. `would be found`: the smallest gain that these"
    yield "tests find in 80 % of cases with the seeds at hand. `seeds that decide`: seeds of each model with which a"
    yield "true gain of the measured size is found in 80 % of cases. Both are ranges: few seeds say little of spread."
    yield ""
    yield "![Accuracy against the budget](budget.svg)"
    yield ""
    yield "![Accuracy by type and severity of corruption](corruptions.svg)"
    yield ""
    yield "![Accuracy under PGD at 1/255 against multiply-adds](cost.svg)"
    yield ""
    yield "All numbers: [leaderboard.html](leaderboard.html), [Markdown](leaderboard.md), [CSV](leaderboard.csv)."
    yield ""


if __name__ == "__main__":
    write()
