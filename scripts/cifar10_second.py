"""Writes reports/cifar10-2 from reports/cifar10-2.tar.xz: the tests that docs/protocols/cifar10-2.md states.

``python scripts/cifar10_second.py RESULTS`` first adds the measurements of a folder to the archive. The tests are of
the training seeds that all seven models have.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from math import hypot, sqrt
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from cifar10_findings import options, relative_cost, run
from result_tables import Table
from scipy.stats import ttest_ind

import robench
from robench.comparison.dunnett import pooled
from robench.comparison.evidence import holm
from robench.comparison.pairing import LEVEL, corrected
from robench.declare import find_checkpoints, seeds_of_models
from robench.metrics import METRICS
from robench.papers.archive import add_records, archived, unpacked
from robench.reports.build import measured
from robench.reports.results import Stored
from robench.reports.seeds import values_of_seeds
from robench.store import FolderStore
from robench.training.history import history_path, read_history

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    # Values of a column (models, seeds, examples), the control first.
    Values = NDArray[np.float64]

ROOT = Path(__file__).parents[1]
ARCHIVE = ROOT / "reports" / "cifar10-2.tar.xz"
FOLDER = ROOT / "reports" / "cifar10-2"
SUITE, CONTROL, SYMMETRIC, RPC = "cifar10-2", "cifar10-s-vit", "cifar10-s-symvit", "cifar10-s-rpc-symvit"
MODELS = (CONTROL, SYMMETRIC, RPC, *(f"cifar10-s-{name}-vit" for name in ("bilateral", "twicing", "primal", "rkde")))
# Primal, without its loss, and in all layers.
OF_PRIMAL = ("cifar10-s-primal-vit", "cifar10-s-primal-plain-vit", "cifar10-s-primal-all-vit")
# Trainings of examples/cifar10-2/rates.yaml, one seed each.
RATES = ("0.001", "0.002", "0.004")
# The tests are made once, when all seven models have so many seeds.
NUM_SEEDS, NUM_DRAWS = 12, 1000
# A training has failed whose loss in its last epoch is above so many nats.
FAILED_ABOVE = 2.0
Verdicts = tuple[str, ...]


@dataclass(frozen=True)
class Second:
    """What a folder of results says of the models of the second edition."""

    results: Path

    @cached_property
    def checkpoints(self) -> list[dict[int, str]]:
        """The measured checkpoints of each model by training seed."""
        return self.checkpoints_of(MODELS)

    def checkpoints_of(self, models: Sequence[str]) -> list[dict[int, str]]:
        """Return the measured checkpoints of some models by training seed."""
        measured_ones = {manifest.shard.checkpoint for manifest in FolderStore(self.results).manifests()}
        return [
            {seed: name for name, seed in of.items() if name in measured_ones and seed is not None}
            for of in seeds_of_models(models)
        ]

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """The training seeds that every model has."""
        return tuple(sorted(set.intersection(*({*of} for of in self.checkpoints))))

    @cached_property
    def failed(self) -> list[str]:
        """The measured checkpoints that failed to train, by their histories."""
        names = [of[seed] for of in self.checkpoints for seed in self.seeds]
        histories = [history_path(ROOT / each.weights.uri) for each in find_checkpoints(names)]
        losses = [read_history(each).epochs[-1].loss_nats for each in histories]
        # NaN is not at most the limit.
        return [name for name, loss in zip(names, losses, strict=True) if not loss <= FAILED_ABOVE]

    @cached_property
    def columns(self) -> dict[str, Values]:
        """The values of each primary column, by its label."""
        suite = robench.load_suite(SUITE)
        stored = Stored(suite, FolderStore(self.results), None, suite.seed)
        found = [measured(suite, stored, of[seed], None) for of in self.checkpoints for seed in self.seeds]
        columns = {}
        for column in suite.columns:
            metric = METRICS[column.metric]
            values = values_of_seeds([metric.contributed(each.readings(column)) for each in found])
            assert values is not None
            columns[column.label] = values.reshape(len(MODELS), len(self.seeds), -1)
        return columns


def verdicts(values: Values, num_columns: int) -> Verdicts:
    """Return the verdict on each model but the control, by the test and the interval that the protocol states."""
    by_seed, by_example = values.mean(axis=2), values.mean(axis=1)
    spread, found = pooled([*by_seed]), []
    for place in range(1, len(values)):
        difference = float(by_seed[place].mean() - by_seed[0].mean())
        over_images = float((by_example[place] - by_example[0]).std(ddof=1)) / sqrt(values.shape[2])
        half_width = spread.critical(LEVEL) * hypot(spread.error(place), over_images)
        is_decided = corrected(spread.p_value(difference, place), num_columns) < LEVEL and abs(difference) > half_width
        found.append(("contradicted", "supported")[difference > 0] if is_decided else "undecided")
    return tuple(found)


def stability(values: Values, num_columns: int, num_draws: int = NUM_DRAWS) -> tuple[list[float], list[Verdicts]]:
    """Return the proportion of draws of seeds and images in which each verdict is the same, and verdicts on halves.

    A draw takes as many seeds of each model, and as many images, with replacement. Halves are every second image.
    """
    generator, wanted = np.random.default_rng(0), verdicts(values, num_columns)
    same = np.zeros(len(wanted))
    for _ in range(num_draws):
        seeds = generator.integers(0, values.shape[1], values.shape[:2])
        images = generator.integers(0, values.shape[2], values.shape[2])
        drawn = values[np.arange(len(values))[:, None], seeds][:, :, images]
        same += [each == verdict for each, verdict in zip(verdicts(drawn, num_columns), wanted, strict=True)]
    return (same / num_draws).tolist(), [verdicts(values[:, :, half::2], num_columns) for half in (0, 1)]


def add(results: Path, archive: Path = ARCHIVE) -> None:
    """Add a folder's results to the committed ones: of all models that have all examples of the suite."""
    store = FolderStore(results)
    suites, complete = {SUITE: robench.load_suite(SUITE)}, Table("", "cifar10-s-", SUITE).complete(store)
    add_records(archived({SUITE: {*complete}}, suites, store, list(store.manifests())), archive)


def write(folder: Path = FOLDER, archive: Path = ARCHIVE) -> None:
    """Write the page and the figure; equal results and releases give equal bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    with unpacked(archive) as results:
        second = Second(results)
        (folder / "README.md").write_text("\n".join([*page(second), ""]))
        if len(second.seeds) < NUM_SEEDS:
            return
        chosen = [
            "--suite",
            SUITE,
            *options(MODELS[1:]),
            "--control",
            CONTROL,
            "--results",
            str(results),
            "--width",
            "6.75",
        ]
        run("figure", "seeds", *chosen, "--output", str(folder / "gains.svg"))


def command(second: Second) -> list[str]:
    """Return the arguments of the comparison that is the protocol's test."""
    seeds = ",".join(map(str, second.seeds))
    return ["compare", *MODELS[1:], "--control", CONTROL, "--suite", SUITE, "--seeds", seeds]


def page(second: Second) -> Iterator[str]:
    """Yield the lines of the page."""
    yield "# CIFAR-10, second edition"
    yield ""
    yield "Written by `make cifar10-2`: seven mechanisms by the tests of [the"
    yield "protocol](../../docs/protocols/cifar10-2.md), which were stated before any number here was measured."
    yield ""
    if len(second.seeds) < NUM_SEEDS:
        yield f"Training seeds of all models so far: {len(second.seeds)}. Tests are made once there are {NUM_SEEDS}."
        return
    if second.failed:
        yield f"Failed trainings, to be left out as the protocol says before any test: {', '.join(second.failed)}."
        return
    yield "No training failed by the protocol's rule."
    yield ""
    yield run(*command(second), "--results", str(second.results), "--format", "md").strip()
    yield ""
    costs = [f"{name.removeprefix('cifar10-s-')} {relative_cost(name, CONTROL)}" for name in MODELS[1:]]
    yield f"Multiply-adds of a pass, beside those of softmax: {', '.join(costs)}."
    yield ""
    yield "## RPC beside symmetric attention"
    yield ""
    yield from of_pair(second.columns)
    yield ""
    yield "## Do verdicts hold?"
    yield ""
    yield from held(second.columns)
    yield ""
    yield f"The proportion of {NUM_DRAWS:,} bootstrap draws of seeds and images in which a verdict is the same, and the"
    yield "verdicts on every second image and on the others, where one differs."
    yield ""
    yield "![Differences from softmax](gains.svg)"
    yield from is_it_the_mechanism(second)


def is_it_the_mechanism(second: Second) -> Iterator[str]:
    """Yield what the controls say that are trained; all of it is exploratory."""
    if min(map(len, second.checkpoints_of(OF_PRIMAL))) > 1:
        yield from ("", "## Primal without its loss, and in all layers", "")
        chosen = ["--control", CONTROL, "--suite", SUITE, "--all-seeds", "--results", str(second.results)]
        yield run("compare", *OF_PRIMAL, *chosen, "--format", "md").strip()
    if rates := [*of_rates()]:
        yield from ("", "## Peak rates", "", *rates, "")
        yield "Percentage of 5,000 training images that were held out, after the last epoch of one seed (standard"
        yield "error 0.7), and the best of each less the best of softmax."


def of_rates(folder: Path = ROOT / "examples" / "cifar10-2") -> Iterator[str]:
    """Yield a table of held-out accuracy by peak rate, from the histories of all trainings; nothing if some lack."""
    names = [name.removeprefix("cifar10-s-") for name in MODELS]
    paths = {name: [folder / f"{name}-rate-{rate}.history.json" for rate in RATES] for name in names}
    if not all(path.exists() for of in paths.values() for path in of):
        return
    scores = {name: [100 * held_out_accuracy(path) for path in of] for name, of in paths.items()}
    yield f"| model | {' | '.join(RATES)} | best, less softmax's |"
    yield "|---|" + "---:|" * (len(RATES) + 1)
    for name, of in scores.items():
        yield f"| {name} | {' | '.join(f'{each:.1f}' for each in of)} | {max(of) - max(scores[names[0]]):+.1f} |"


def held_out_accuracy(history: Path) -> float:
    """Return the accuracy on held-out images after the last epoch of a training."""
    scores = read_history(history).epochs[-1].validation
    assert scores is not None  # every epoch is scored on them
    return scores.top1_accuracy


def of_pair(columns: Mapping[str, Values]) -> Iterator[str]:
    """Yield a table of RPC beside symmetric attention, by Welch's test with Holm's correction over columns."""
    yield "| column | RPC | symmetric | difference | p (Welch, Holm) |"
    yield "|---|---:|---:|---:|---:|"
    sides = [
        [100 * values[MODELS.index(name)].mean(axis=1) for name in (RPC, SYMMETRIC)] for values in columns.values()
    ]
    p_values = holm([float(ttest_ind(*pair, equal_var=False).pvalue) for pair in sides])
    for label, (rpc, symmetric), p_value in zip(columns, sides, p_values, strict=True):
        means = rpc.mean(), symmetric.mean()
        yield f"| {label} | {means[0]:.1f} | {means[1]:.1f} | {means[0] - means[1]:+.1f} | {p_value:.2g} |"


def held(columns: Mapping[str, Values]) -> Iterator[str]:
    """Yield a table of how often each verdict holds."""
    names = [name.removeprefix("cifar10-s-") for name in MODELS[1:]]
    yield f"| column | {' | '.join(names)} |"
    yield "|---|" + "---:|" * len(names)
    for label, values in columns.items():
        proportions, halves = stability(values, len(columns))
        cells = [
            f"{name}, {100 * proportion:.0f} %{_differing(name, of_halves)}"
            for name, proportion, *of_halves in zip(verdicts(values, len(columns)), proportions, *halves, strict=True)
        ]
        yield f"| {label} | {' | '.join(cells)} |"


def _differing(verdict: str, of_halves: Sequence[str]) -> str:
    return "" if {*of_halves} == {verdict} else f" ({' / '.join(of_halves)})"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        add(Path(sys.argv[1]))
    write()
