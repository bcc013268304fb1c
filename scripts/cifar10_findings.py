"""Writes reports/cifar10 from reports/cifar10.tar.xz (``make cifar10``): claims, leaderboard, tables and figures.

Claims are the gains of each mechanism over its baseline in the columns below, which were chosen before anything was
measured but ``cifar10-vit`` and ``cifar10-rpc-symvit``: at 4/255 and 8/255 every model that is trained on clean images
is near 0 %, so that nothing can be found there. All are tested together, over the training seeds that are measured.

``ROBENCH_DATA=DATA python scripts/cifar10_findings.py transfer`` measures transfer.md; the archive has no examples.
``python scripts/cifar10_findings.py strength RESULTS`` adds a folder's results to strength.tar.xz, and makes of it
strength.md and optimality.svg.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from gains import gains_of, summary_of
from scipy.stats import ttest_ind

import robench
from robench.comparison import STRENGTH_RENDERERS, strengths_of, with_comparable
from robench.comparison.compare import Comparison, compare_models, detectable_text
from robench.comparison.dunnett import pooled, variance_ratio
from robench.comparison.evidence import evidence_of
from robench.comparison.pairing import LEVEL, corrected
from robench.comparison.spread import seeds_text
from robench.core.checkpoint import entry_name
from robench.declare import read_registry, shipped_registry
from robench.metrics import METRICS
from robench.papers.archive import add_records, unpacked
from robench.reports import report_of_store
from robench.reports.build import measured
from robench.reports.grid import cell_text
from robench.reports.results import Stored
from robench.reports.seeds import over_seeds
from robench.reports.selection import needs
from robench.reproduction.operations import operations_of
from robench.store import FolderStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gains import Gain

    from robench.core.report import Report, Row

ROOT = Path(__file__).parents[1]
ARCHIVE = ROOT / "reports" / "cifar10.tar.xz"
FOLDER = ROOT / "reports" / "cifar10"
# Attacks beside each other: with distances and passes, which the other archive leaves out.
STRENGTH, OF_ATTACKS = ROOT / "reports" / "strength.tar.xz", "attackbench-cifar10"
ATTACKED = ("cifar10-vit", "cifar10-adversarial-vit")
SOFTMAX, SYMMETRIC = "cifar10-vit", "cifar10-symvit"
PAIRS = (
    ("cifar10-rpc-symvit", SYMMETRIC),
    *((name, SOFTMAX) for name in (SYMMETRIC, "cifar10-rpc-symvit", "cifar10-bilateral-vit", "cifar10-twicing-vit")),
    *((name, SOFTMAX) for name in ("cifar10-primal-vit", "cifar10-rkde-vit")),
)
MODELS = (SOFTMAX, *(name for name, baseline in PAIRS if baseline == SOFTMAX))
COLUMNS = {
    "cifar10-adv": ("clean/top1_accuracy", "noise/top1_accuracy", "pgd-1/top1_accuracy", "pgd-2/top1_accuracy"),
    "cifar10-autoattack": ("apgd-1/top1_accuracy", "apgd-2/top1_accuracy", "autoattack-l2/top1_accuracy"),
    "cifar10-square": ("square-2/top1_accuracy", "square-l2/top1_accuracy"),
    "cifar10-c": ("cifar-10-c-live/mean_error",),
}
SUITES = [argument for name in COLUMNS for argument in ("--suite", name)]


@dataclass(frozen=True)
class Findings:
    """What a folder of results says of the published checkpoints of CIFAR-10."""

    results: Path

    @cached_property
    def names(self) -> list[str]:
        """The checkpoints that have results, in the order of the registry."""
        found = {manifest.shard.checkpoint for manifest in FolderStore(self.results).manifests()}
        return [name for name in read_registry(shipped_registry()) if name in found]

    @cached_property
    def reports(self) -> dict[str, Report]:
        """The report of each suite: checkpoints, a training seed each, that have every number of its columns."""
        store, found = FolderStore(self.results), {}
        for suite, keys in COLUMNS.items():
            report = report_of_store(robench.load_suite(suite), store, models=self.names)
            found[suite] = replace(report, rows=tuple(row for row in report.rows if is_complete(row, keys)))
        return found

    @cached_property
    def gains(self) -> list[Gain]:
        """Gains of each pair in each column, over the seeds of both that are complete, tested together."""
        columns = {f"{suite}/{key}" for suite, keys in COLUMNS.items() for key in keys}
        return gains_of([*self._comparisons()], columns)

    def _comparisons(self) -> Iterator[Comparison]:
        store = FolderStore(self.results)
        for suite, report in self.reports.items():
            complete = [row.model for row in report.rows]
            for pair in PAIRS:
                seeds = [[each for each in complete if entry_name(each) == name] for name in pair]
                if all(seeds):
                    means = seeds if min(map(len, seeds)) > 1 else None
                    yield compare_models([robench.load_suite(suite)], store, *(each[0] for each in seeds), seeds=means)

    def means(self, suite: str) -> dict[str, Row]:
        """Return the means over seeds of each model that is not trained on adversarial examples."""
        report = self.reports[suite]
        plain = tuple(row for row in report.rows if "adversarial" not in row.model)
        return {entry_name(row.model): row for row in over_seeds(replace(report, rows=plain)).rows}


def is_complete(row: Row, keys: Iterable[str]) -> bool:
    """Return whether a row has these numbers."""
    return all(row.cells[key].estimate for key in keys)


def write(folder: Path = FOLDER, archive: Path = ARCHIVE) -> None:
    """Write everything; equal results and releases give equal bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    with unpacked(archive) as results:
        findings = Findings(results)
        (folder / "README.md").write_text("\n".join([*page(findings), ""]))
        where = ["--results", str(results)]
        models = options(findings.names)
        formats = [argument for suffix in ("html", "md", "csv") for argument in ("--format", suffix)]
        settings = ["--settings", str(FOLDER / "board.yaml")]
        run("leaderboard", *SUITES, *models, "--costs", *settings, *where, *formats, "--output", str(folder))
        # The page has the provenance of each number; all manifests together take as much room again.
        (folder / "manifest.json").unlink()
        drawn = [*options(name for name in findings.names if "@" not in name), "--width", "6.75"]
        run("figure", "budget", "--suite", "cifar10-adv", *drawn, *where, "--output", str(folder / "budget.svg"))
        run(
            "figure", "corruptions", "--suite", "cifar10-c", *drawn, *where, "--output", str(folder / "corruptions.svg")
        )
        of_mechanisms = [*options(MODELS[1:]), "--control", SOFTMAX, "--width", "6.75"]
        panels = [argument for text in ("clean top", "pgd-1 top", "pgd-2 top") for argument in ("--panel", text)]
        run(
            *("figure", "seeds", "--suite", "cifar10-adv", *of_mechanisms, *panels, *where),
            *("--output", str(folder / "gains.svg")),
        )
    write_strength(folder)


def write_strength(folder: Path = FOLDER, archive: Path = STRENGTH) -> None:
    """Write how near each attack comes to the best of all, as a page and as curves."""
    suite = robench.load_suite(OF_ATTACKS)
    with unpacked(archive) as results:
        stored = Stored(suite, FolderStore(results), None, suite.seed)
        (folder / "strength.md").write_text(STRENGTH_RENDERERS["markdown"](strengths_of(suite, stored, ATTACKED)))
        where = ["--suite", OF_ATTACKS, *options(ATTACKED), "--results", str(results), "--width", "6.75"]
        run("figure", "optimality", *where, "--output", str(folder / "optimality.svg"))


def add_strength(results: str) -> None:
    """Add the measurements of the suite in a folder to the archive, and write the page anew."""
    suite, store = robench.load_suite(OF_ATTACKS), FolderStore(Path(results))
    wanted = needs(with_comparable(suite)[0], seed=suite.seed)
    add_records(store.records(lambda shard: shard.checkpoint in ATTACKED and wanted(shard)), STRENGTH)
    write_strength()


def write_transfer(folder: Path = FOLDER) -> None:
    """Measure each model on the examples that PGD makes on each other one, and write them; needs the images."""
    command = ["transfer", "--suite", "cifar10-adaptive", "--condition", "naive", *options(MODELS), "--format", "md"]
    table = run(*command)
    lines = (
        "# Transferred examples",
        "",
        "Accuracy in per cent of each model (rows) on examples that PGD-20 at 2/255 makes on one (columns), first",
        "200 test images. On the diagonal is the attack itself, with the model's own gradients. Made by",
        "",
        "```sh",
        f"robench {' '.join(command)}".replace(" --model", " \\\n  --model"),
        "```",
        "",
        table,
    )
    (folder / "transfer.md").write_text("\n".join(lines))


def options(names: Iterable[str]) -> list[str]:
    """Return the options that name models."""
    return [argument for name in names for argument in ("--model", name)]


def run(*arguments: str) -> str:
    """Run a command of robench, which must succeed, and return what it writes to stdout."""
    done = subprocess.run([sys.executable, "-m", "robench", *arguments], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def page(findings: Findings) -> Iterator[str]:
    """Yield the lines of the page."""
    yield "# CIFAR-10: what attention does to robustness"
    yield ""
    yield "Written by `make cifar10`; [docs/cifar10.md](../../docs/cifar10.md) says what was measured, and how."
    yield "Another dataset, size and recipe than the papers': neither for nor against their numbers."
    yield ""
    yield "## The best of each number"
    yield ""
    yield from best(findings)
    yield ""
    yield "Best of the models that are measured. Means over training seeds in per cent, with 95 % intervals (Student's"
    yield "t); gains in points. Multiply-adds are those of one pass, beside those of softmax. Models trained on"
    yield "adversarial examples are left out."
    yield ""
    yield "## Against softmax"
    yield ""
    yield "Points above softmax, means over seeds, by Dunnett's test (Dunnett 1955), whose variance between seeds is"
    yield "pooled over all seven mechanisms; p is multiplied by the number of columns of its table. It covers seeds,"
    yield "not images. The test was chosen after the results were known, and confirms nothing."
    yield ""
    yield from against_softmax(findings)
    yield ""
    yield "![Points above softmax](gains.svg)"
    yield ""
    yield "The last table has the chance that a true difference of so many points is found by the first one's test. Of"
    yield "seven mechanisms with five seeds and equal variances, the largest is at least 33 times the smallest in 5 %"
    yield "of cases."
    yield ""
    yield "With clean accuracies of all images in place of the first 2,000, Welch's tests of the gains below would say"
    yield "of clean images, with Holm's correction over all, where p is below 1:"
    yield ""
    yield from decided_on_all_images(findings)
    yield ""
    yield "## Gains over baselines"
    yield ""
    counts = summary_of(findings.gains).capitalize()
    yield f"{counts}, at 5 % over all that were tested (Welch's tests, Holm's correction)."
    yield ""
    yield from gains_table(findings.gains)
    yield ""
    yield "Gains are in points, positive where the model is better. `would be found`: the smallest gain that these"
    yield "tests find in 80 % of cases with the seeds at hand, `none` where it would be over 100 points, as with two"
    yield "seeds. `seeds that decide`: seeds of each model with which a"
    yield "true gain of the measured size is found in 80 % of cases. Both are ranges: few seeds say little of spread."
    yield ""
    yield "## Checks of the attacks"
    yield ""
    yield from checks(findings)
    yield ""
    yield "Whether gradients are masked: [naive and adaptive attacks](../../docs/cifar10.md#the-results), and"
    yield "[examples made on one model, scored on the others](transfer.md). How near each attack comes to the best of"
    yield "all: [strength](strength.md)."
    yield ""
    yield "## AutoAttack by two codes"
    yield ""
    yield "Images of the first 300 on which robench and pyautoattack, the code of AutoAttack's authors, disagree at"
    yield "4/255:"
    yield ""
    yield from two_codes(findings)
    yield ""
    yield "## Figures"
    yield ""
    yield "![Accuracy against the budget](budget.svg)"
    yield ""
    yield "![Accuracy by type and severity of corruption](corruptions.svg)"
    yield ""
    yield "All numbers: [leaderboard.html](leaderboard.html), [Markdown](leaderboard.md), [CSV](leaderboard.csv)."


@cache
def numbers_by_seed(findings: Findings) -> dict[str, dict[str, list[float]]]:
    """Return numbers of single seeds in per cent by column and model, softmax first; larger ones are better.

    Clean accuracies are stated by the entries, of all 10,000 images. PGD is also measured on the images of APGD.
    """
    entries, found = read_registry(shipped_registry()), dict[str, dict[str, list[float]]]()
    clean = found.setdefault("clean, all 10,000 images", {})
    for name in findings.names:
        if entry_name(name) in MODELS:
            clean.setdefault(entry_name(name), []).append(100 * entries[name].expected["top1_accuracy"])
    for title, (suite, key) in {
        "PGD 1/255, 2,000 images": ("cifar10-adv", "pgd-1/top1_accuracy"),
        "PGD 2/255, 2,000 images": ("cifar10-adv", "pgd-2/top1_accuracy"),
        "corruptions, 2,000 images": ("cifar10-c", "cifar-10-c-live/mean_error"),
    }.items():
        for row in findings.reports[suite].rows:
            estimate = row.cells[key].estimate
            if entry_name(row.model) in MODELS and estimate is not None:
                value = 1 - estimate.value if key.endswith("error") else estimate.value
                found.setdefault(title, {}).setdefault(entry_name(row.model), []).append(100 * value)
    of_apgd = right_by_id(findings, "cifar10-autoattack", "apgd-2")
    of_pgd = right_by_id(findings, "cifar10-adv", "pgd-2")
    for title, right in (("PGD 2/255, 200 images", of_pgd), ("APGD 2/255, 200 images", of_apgd)):
        for name in (each for each in of_apgd if entry_name(each) in MODELS):
            same = [right[name][each] for each in of_apgd[name]]
            found.setdefault(title, {}).setdefault(entry_name(name), []).append(100 * fmean(same))
    return {title: {name: of[name] for name in MODELS if name in of} for title, of in found.items()}


def right_by_id(findings: Findings, name_of_suite: str, condition: str) -> dict[str, dict[str, bool]]:
    """Return whether each example of a suite's condition is right, by checkpoint and id."""
    suite = robench.load_suite(name_of_suite)
    stored = Stored(suite, FolderStore(findings.results), None, suite.seed)
    column = next(each for each in suite.columns if each.key == f"{condition}/top1_accuracy")
    found: dict[str, dict[str, bool]] = {}
    for name in findings.names:
        each = measured(suite, stored, name, None)
        if each.cell(column).estimate is not None:
            (outcomes,) = each.readings(column).measured
            columns = (outcomes.column(field).tolist() for field in ("example_id", "correct_top1"))
            found[name] = dict(zip(*columns, strict=True))
    return found


def against_softmax(findings: Findings) -> Iterator[str]:
    """Yield tables of differences from softmax by Dunnett's test, and of what it would have found."""
    numbers = numbers_by_seed(findings)
    for seeds, titles in (("five seeds", [*numbers][:4]), ("three seeds, the same images", [*numbers][4:])):
        yield f"| {seeds} | softmax | {' | '.join(name.removeprefix('cifar10-') for name in MODELS[1:])} |"
        yield "|---|" + "---:|" * len(MODELS)
        for title in titles:
            values = numbers[title]
            spread, cells = pooled([*values.values()]), []
            for place, name in enumerate(MODELS[1:], start=1):
                difference = fmean(values[name]) - fmean(values[SOFTMAX])
                p_value = corrected(spread.p_value(difference, place), len(titles))
                cells.append(f"{difference:+.1f} (p = {p_value:.1g})")
            yield f"| {title} | {fmean(values[SOFTMAX]):.1f} | {' | '.join(cells)} |"
        yield ""
    yield "| five seeds | deviation between seeds | 1 point | 2 points | 3 points | 80 % from | variances differ by |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for title in [*numbers][:4]:
        by_seed = [*numbers[title].values()]
        spread, level = pooled(by_seed), LEVEL / 4
        chances = " | ".join(f"{100 * spread.chance(shift, level):.0f} %" for shift in (1, 2, 3))
        ratio = f"{variance_ratio(by_seed)[0]:.0f} times"
        yield f"| {title} | {spread.std:.2f} | {chances} | {spread.detectable(level):.1f} points | {ratio} |"


def decided_on_all_images(findings: Findings) -> Iterator[str]:
    """Yield the clean gains that Welch's tests decide with clean accuracies of all images, by Holm over all gains."""
    clean, tested = numbers_by_seed(findings)["clean, all 10,000 images"], list[tuple[float, str]]()
    for each in findings.gains:
        p_value, name = each.compared.p_value, ""
        if each.compared.column.key == "clean/top1_accuracy":
            p_value = float(ttest_ind(clean[each.model], clean[each.baseline], equal_var=False).pvalue)
            gain = fmean(clean[each.model]) - fmean(clean[each.baseline])
            name = f"{each.model} above {each.baseline} {gain:+.1f}"
        assert p_value is not None
        tested.append((p_value, name))
    corrected = 0.0
    for place, (p_value, name) in enumerate(sorted(tested)):
        corrected = max(corrected, min(1.0, p_value * (len(tested) - place)))
        if name and corrected < 1:
            yield f"- {name}: p = {corrected:.2g}"


def best(findings: Findings) -> Iterator[str]:
    """Yield a table of the best mechanism in each column, beside softmax, with its gain and its cost."""
    yield "| number | best | its mean | softmax's | gain | multiply-adds |"
    yield "|---|---|---:|---:|---:|---:|"
    gains = {
        (each.model, each.baseline, each.compared.suite, each.compared.column.key): each for each in findings.gains
    }
    for suite, report in findings.reports.items():
        rows = findings.means(suite)
        columns = {column.key: column for column in report.columns}
        for column in (columns[key] for key in COLUMNS[suite] if SOFTMAX in rows):
            values = {
                name: estimate.value for name, row in rows.items() if (estimate := row.cells[column.key].estimate)
            }
            name = (min if METRICS[column.metric].lower_is_better else max)(values, key=values.__getitem__)
            gain = gains.get((name, SOFTMAX, suite, column.key))
            # Of one seed a gain is that seed's alone, and no difference of the means beside it.
            has_seeds = gain is not None and gain.p_value is not None and gain.gain is not None
            points = f"{100 * gain.gain:+.1f}, {verdict_text(gain)}" if has_seeds else "—"
            numbers = " | ".join(cell_text(rows[each].cells[column.key]) for each in (name, SOFTMAX))
            place = f"{name} (of {len(rows)})"
            yield f"| {column.label} ({suite}) | {place} | {numbers} | {points} | {relative_cost(name)} |"


def relative_cost(name: str, beside: str = SOFTMAX) -> str:
    """Return the multiply-adds of a model's pass beside those of another, of softmax attention."""
    entries = read_registry(shipped_registry())
    counted = [operations_of(entries[each]) for each in (name, beside)]
    assert all(counted)
    own, others = (each.inference for each in counted if each is not None)
    return f"{100 * (own / others - 1):+.0f} %"


def verdict_text(gain: Gain) -> str:
    """Return a verdict with its p-value."""
    return gain.verdict if gain.p_value is None else f"{gain.verdict} (p = {gain.p_value:.2g})"


def gains_table(gains: Iterable[Gain]) -> Iterator[str]:
    """Yield a table of all gains."""
    yield "| model | baseline | number | model's | baseline's | gain | verdict | would be found | seeds that decide |"
    yield "|---|---|---|---:|---:|---:|---|---:|---:|"
    for each in gains:
        compared = each.compared
        cells = [cell_text(cell) for cell in (compared.first, compared.second)]
        gain = "—" if each.gain is None else f"{100 * each.gain:+.1f}"
        bounds = "—" if each.detectable is None else detectable_text(*each.detectable, compared.unit)
        needed = "—" if each.seeds_needed is None else seeds_text(*each.seeds_needed)
        label = f"{compared.column.label} ({compared.suite})"
        numbers = " | ".join((*cells, gain, verdict_text(each), bounds, needed))
        yield f"| {each.model} | {each.baseline} | {label} | {numbers} |"


def checks(findings: Findings) -> Iterator[str]:
    """Yield what the audits and the comparisons of attacks found, in words."""
    rows = [(suite, row) for suite, report in findings.reports.items() for row in report.rows if row.flags is not None]
    raised = [(suite, row.model, flag) for suite, row in rows for flag in row.flags or () if flag.is_raised]
    not_audited = dict.fromkeys(row.model for _, row in rows if not row.is_audited)
    yield f"{sum(len(row.flags or ()) for _, row in rows)} checks were made, and {len(raised)} raise a doubt."
    yield from ("",) if raised else ()
    for suite, model, flag in raised:
        yield f"- {model}, {suite}: {flag.finding}"
    if not_audited:
        yield ""
        yield f"Attacks were compared with each other, without an audit, for: {', '.join(not_audited)}."


def two_codes(findings: Findings) -> Iterator[str]:
    """Yield for each model how many images each code leaves right, and which images one of them alone fools."""
    suite = robench.load_suite("cifar10-libraries")
    stored = Stored(suite, FolderStore(findings.results), None, suite.seed)
    columns = {column.conditions: column for column in suite.columns}
    for name in (each for each in findings.names if each in stored.models()):
        results = measured(suite, stored, name, None)
        pair = [columns[condition,] for condition in ("robench-4", "pyautoattack-4")]
        if any(results.cell(column).estimate is None for column in pair):
            continue
        first, second = (results.readings(column) for column in pair)
        evidence = evidence_of(METRICS["top1_accuracy"], first, second, name)
        left = " and ".join(cell_text(results.cell(column)) for column in pair)
        by_theirs, by_ours = (", ".join(each) or "none" for each in evidence.flipped_ids)
        yield f"- {name}: {left} % right; fooled by robench alone: {by_ours}; by pyautoattack alone: {by_theirs}"


if __name__ == "__main__":
    what, *rest = sys.argv[1:] or ["all"]
    {"all": write, "transfer": write_transfer, "strength": add_strength}[what](*rest)
