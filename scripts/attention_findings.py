"""Writes reports/cifar10/attention.md from reports/cifar10.tar.xz (``make cifar10``): attacks that know attention.

The questions, columns and tests, which were fixed before seeds 1 and 2 were measured (settings were chosen on training
images, and seed 0 was known):

1. Does an attack that knows attention find more than plain PGD of the same threat model, steps and place? Per image the
   mean over training seeds, the difference of both, and a permutation of their signs over images; two-sided, Holm's
   correction over all mechanisms and attacks. Intervals are over images, for these seeds.
2. Which mechanism is more robust than softmax under all attacks of a threat model? Welch's test over training seeds,
   Holm's correction over both threat models and all pairs.

``ROBENCH_DATA=DATA python scripts/attention_findings.py transfer`` measures attention-transfer.md; needs the images.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from cifar10_findings import ARCHIVE, FOLDER, MODELS, PAIRS, gains_table, options, run
from gains import gains_of, summary_of
from result_tables import Table

import robench
from robench.comparison.compare import compare_models
from robench.comparison.evidence import holm
from robench.comparison.permutation import NUM_DRAWS
from robench.core.checkpoint import entry_name
from robench.papers.archive import unpacked
from robench.reports.build import measured
from robench.reports.results import Stored
from robench.store import FolderStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

SUITE = "cifar10-attention-aware"
# Attacks that know attention, each with the plain one of the same threat model and place.
BESIDE = {
    "mechanism": "pgd",
    "distance": "pgd",
    "attention-fool": "patch-attention",
    "patch-fool": "patch-attention",
}
IN_PATCH = ("patch-random", "patch-gradient", "patch-attention", "attention-fool", "patch-fool")
ADVERSARIAL = ("cifar10-adversarial-vit", "cifar10-adversarial-rpc-symvit", "cifar10-adversarial-twicing-vit")
TRANSFERS = {"cifar10-transfer": ("mi", "pna", "tgr"), SUITE: ("patch-attention", "patch-fool")}


@dataclass(frozen=True)
class Verdicts:
    """Whether each model of a folder of results is right about each image under each condition.

    Attributes:
        complete: models that have results on all images of the suite.
    """

    stored: Stored
    complete: tuple[str, ...]

    def names(self, entry: str) -> list[str]:
        """Return the training seeds of an entry that have results."""
        return [name for name in self.complete if entry_name(name) == entry]

    def right(self, entry: str, condition: str) -> NDArray[np.float64]:
        """Return the proportion of seeds that are right about each image, (N,)."""
        return np.mean([self._right(name, condition) for name in self.names(entry)], axis=0)

    def right_under_all(self, entry: str, conditions: Sequence[str]) -> list[float]:
        """Return the accuracy of each seed under all of some conditions together."""
        names = self.names(entry)
        return [float(np.all([self._right(name, each) for each in conditions], axis=0).mean()) for name in names]

    def _right(self, name: str, condition: str) -> NDArray[np.bool_]:
        suite = robench.load_suite(SUITE)
        column = next(each for each in suite.columns if each.conditions == (condition,))
        (outcomes,) = measured(suite, self.stored, name, None).readings(column).measured
        return outcomes.column("correct_top1")


def found_more(verdicts: Verdicts, entries: Sequence[str]) -> Iterator[str]:
    """Yield the table of question 1: accuracy under plain PGD, and the difference of each attack beside it."""
    tested = {}
    for entry in entries:
        for attack, plain in BESIDE.items():
            tested[entry, attack] = difference(verdicts.right(entry, attack), verdicts.right(entry, plain))
    corrected = dict(zip(tested, holm([p_value for *_, p_value in tested.values()]), strict=True))
    yield f"| | seeds | clean | pgd | {' | '.join(each for each, plain in BESIDE.items() if plain == 'pgd')} | " + (
        f"patch-attention | {' | '.join(each for each, plain in BESIDE.items() if plain != 'pgd')} |"
    )
    yield "|---|---:|" + "---:|" * (3 + len(BESIDE))
    for entry in entries:
        cells = [str(len(verdicts.names(entry)))]
        for condition in ("clean", "pgd", "mechanism", "distance", "patch-attention", "attention-fool", "patch-fool"):
            if condition not in BESIDE:
                cells.append(f"{100 * verdicts.right(entry, condition).mean():.1f}")
                continue
            value, low, high, _ = tested[entry, condition]
            p_value = corrected[entry, condition]
            text = f"{100 * value:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"
            cells.append(f"{text}, p = {p_value:.2g}" if p_value < 1 else text)
        yield f"| {entry.removeprefix('cifar10-')} | {' | '.join(cells)} |"


def difference(one: NDArray[np.float64], other: NDArray[np.float64]) -> tuple[float, float, float, float]:
    """Return the mean difference over images, its 95 % interval by resampled images, and the two-sided p-value."""
    changes, generator = one - other, np.random.default_rng(0)
    value = float(changes.mean())
    weights = generator.dirichlet(np.ones(len(changes)), size=2000)
    low, high = np.quantile(weights @ changes, [0.025, 0.975])
    signs = generator.choice([-1.0, 1.0], size=(NUM_DRAWS, len(changes)))
    drawn = np.abs((signs * changes).mean(1))
    p_value = (1 + int((drawn >= abs(value) - 1e-12).sum())) / (1 + NUM_DRAWS)
    return value, float(low), float(high), p_value


def in_one_patch(verdicts: Verdicts, entries: Sequence[str]) -> Iterator[str]:
    """Yield the accuracy of each mechanism under each attack in a patch and under all of them, over seeds."""
    yield f"| | clean | {' | '.join(IN_PATCH)} | all | each seed under all |"
    yield "|---|" + "---:|" * (3 + len(IN_PATCH))
    for entry in entries:
        alone = [f"{100 * verdicts.right(entry, each).mean():.1f}" for each in ("clean", *IN_PATCH)]
        under_all = verdicts.right_under_all(entry, ("clean", *IN_PATCH))
        seeds = ", ".join(f"{100 * each:.1f}" for each in under_all)
        yield f"| {entry.removeprefix('cifar10-')} | {' | '.join(alone)} | {100 * np.mean(under_all):.1f} | {seeds} |"


def page(results: FolderStore) -> Iterator[str]:
    """Yield the lines of the page."""
    suite = robench.load_suite(SUITE)
    complete = Table(SUITE, "cifar10-", SUITE).complete(results)
    verdicts = Verdicts(Stored(suite, results, None, suite.seed), tuple(complete))
    entries = [each for each in (*MODELS, *ADVERSARIAL) if verdicts.names(each)]
    num_tests = len(entries) * len(BESIDE)
    yield "# CIFAR-10: attacks that know attention"
    yield ""
    yield f"Written by `make cifar10` from results of the suite `{SUITE}` (first 200 test images); the questions and"
    yield "tests are in `scripts/attention_findings.py`, and [docs/cifar10.md](../../docs/cifar10.md) has the answers."
    yield "Numbers are accuracies in per cent, means over training seeds."
    yield ""
    yield "## Do they find more than plain PGD?"
    yield ""
    yield "Differences to plain PGD of the same threat model, in points: `mechanism` and `distance` to `pgd`, the"
    yield f"others to `patch-attention`. Intervals (95 %) are over images; p is corrected over {num_tests}."
    yield ""
    yield from found_more(verdicts, entries)
    yield ""
    yield "## One patch of 4 x 4 pixels"
    yield ""
    yield from in_one_patch(verdicts, entries)
    yield ""
    yield "## Gains over softmax"
    yield ""
    columns = [each for each in suite.columns if each.metric == "robust_accuracy" and len(each.conditions) > 2]
    comparisons = []
    for pair in PAIRS:
        seeds = [verdicts.names(each) for each in pair]
        if min(map(len, seeds)) > 1:
            comparisons.append(compare_models([suite], results, *(each[0] for each in seeds), seeds=seeds))
    gains = gains_of(comparisons, {f"{SUITE}/{column.key}" for column in columns})
    yield f"{summary_of(gains).capitalize()}, at 5 % over all that were tested (Welch's tests, Holm's correction)."
    yield ""
    yield from gains_table(gains)


def write() -> None:
    """Write the page of the committed results."""
    with unpacked(ARCHIVE) as results:
        (FOLDER / "attention.md").write_text("\n".join([*page(FolderStore(results)), ""]))


def write_transfer() -> None:
    """Measure each model on the examples that attacks make on each other one, and write them; needs the images."""
    lines = [
        "# Examples of attacks that know attention, transferred",
        "",
        "Accuracy in per cent of each model (rows) on examples that an attack makes on one (columns), first 200 test",
        "images, seed 0; the diagonal is the attack itself. Attacks in a patch leave an image once it is fooled.",
    ]
    for suite, conditions in TRANSFERS.items():
        for condition in conditions:
            command = ["transfer", "--suite", suite, "--condition", condition, *options(MODELS), "--format", "md"]
            lines += ["", f"## {condition}", "", run(*command)]
    (FOLDER / "attention-transfer.md").write_text("\n".join(lines))


if __name__ == "__main__":
    {(): write, ("transfer",): write_transfer}[tuple(sys.argv[1:])]()
