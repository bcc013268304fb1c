"""Writes the tables of committed results in reports/cifar10.md, control.md, series.md and the others.

``python scripts/results_pages.py NAME RESULTS`` first adds the results of a folder to the archive of that page: of
published models under its suites, a file for each measurement. A measurement that is there already stays as it is. Then
it writes that page alone.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from many_to_one import AskedAgain, ManyToOne
from result_tables import Attacks, Gains, Printed, Selection, Table, minutes_of, seconds_of, shown

from robench.papers.archive import add_records, archived, unpacked
from robench.reports import report_of_store
from robench.store import FolderStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from robench.core.report import Row

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Page:
    """Tables of an archive of results, as a page of reports or a part of one.

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
    compared: tuple[AskedAgain | Attacks | Gains | ManyToOne | Selection, ...] = ()

    @property
    def path(self) -> Path:
        """Return the file of the page."""
        return ROOT / "reports" / f"{self.name}.md"

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
            over = "Student's t intervals over training seeds" if is_of_seeds else "intervals over examples"
            yield from (f"{table.title}, suite `{table.suite}`, with 95 % {over}:", "")
            yield f"| | {' | '.join(self._headings(table, report.rows))} |"
            yield "|---|" + "---:|" * len(report.rows)
            for column in filter(table.shows, report.columns):
                cells = [shown(row.cells[column.key].estimate) for row in report.rows]
                yield f"| {column.label} | {' | '.join(cells)} |"
            yield ""
        for compared in self.compared:
            yield from compared.lines(results)
        if self.shows_minutes:
            yield from minutes_of({table.suite: seconds_of(results, table) for table in self.tables})

    def _headings(self, table: Table, rows: Sequence[Row]) -> Iterator[str]:
        counts = [max(1, len(row.seeds)) for row in rows]
        for row, count in zip(rows, counts, strict=True):
            of_seeds = f" ({count} {'seed' if count == 1 else 'seeds'})" if len({*counts}) > 1 else ""
            yield (row.model.removeprefix(table.prefix) or row.model) + of_seeds


_SERIES = {"japanese-vowels": "JapaneseVowels", "basic-motions": "BasicMotions"}
_CIFAR10 = ("vit", "symvit", "rpc-symvit", "bilateral-vit", "twicing-vit", "primal-vit", "rkde-vit")
_ATTACKED = {
    "japanese-vowels": ("JapaneseVowels: accuracy in per cent under attacks, first 100 series", 100),
    "basic-motions": ("BasicMotions: accuracy in per cent under attacks", None),
}
_TOKENS = {"listops-short": "short ListOps", "digits-pixels": "digits by pixels", "sotu-bytes": "addresses by bytes"}
_TRANSFORMER = "japanese-vowels-transformer"
# Stated in docs/texts-results.md before they were measured.
_SST2 = (("sst2-swap", "clean"), ("sst2-swap", "swap-10"), ("sst2-search", "synonyms-delete-200"))
_POLICIES = tuple(f"pendulum-{name}" for name in ("softmax", "primal-s16", "rpc", "twicing", "linear", "cloning"))
_S, _ETA, _FORMS = (20, 30, 40), ("0", "0.1", "0.2", "0.5"), ("independent", "dependent")
# Rows of RKDE's table 4, and the ends of the names of their entries.
_RKDE_4 = {
    "Transformer": "transformer",
    "FourierFormer": "fourierformer",
    "Transformer-RKDE (Huber)": "rkde-huber",
    "Transformer-SPKDE": "spkde",
    "Transformer-MoM": "mom",
    "FourierFormer-MoM": "fourierformer-mom",
}


def _entries_of_primal(dataset: str) -> dict[str, str]:
    """Return the entries of a set in tables 1 and 3 of Primal-Attention, by headings."""
    both = {f"Primal, s = {s}, η = {eta}": f"{dataset}-primal-s{s}-eta{eta}" for s, eta in product(_S, _ETA)}
    return both | {f"a layer each, data-{each}": f"{dataset}-primal-trans-{each}" for each in _FORMS}


def _printed_of_primal(row: str, column: str) -> tuple[Printed, Printed]:
    """Return the numbers of a set in tables 1 and 3 of Primal-Attention, by its names there."""
    settings = {f"Primal, s = {s}": [("primal:1", f"{row}, s = {s}", f"η = {eta}") for eta in _ETA] for s in _S}
    forms = {"Primal and softmax, a layer each": [("primal:3", f"data-{each}", column) for each in _FORMS]}
    return Printed(("η = 0", *_ETA[1:]), settings), Printed(("data-independent", "data-dependent"), forms)


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
                Table(
                    "Accuracy in per cent under attacks that know attention, and in one patch of 4 x 4 pixels",
                    "cifar10-",
                    "cifar10-attention-aware",
                ),
                *(Table(each, "cifar10-", f"cifar10-{each}", is_shown=False) for each in ("adaptive", "libraries")),
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
                *(Table(title, f"{name}-small-", "series-adv", name, n) for name, (title, n) in _ATTACKED.items()),
                *(
                    Table(f"{title}: mean error and accuracies under corruptions", f"{name}-small-", "series-c", name)
                    for name, title in _SERIES.items()
                ),
                *(Table(f"Accuracy on {title} in per cent", f"{name}-", name) for name, title in _TOKENS.items()),
                Table("Accuracy on longer ListOps in per cent", "listops-long-", "listops-short-length"),
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
            printed=_printed_of_primal("JapaneseVowels", "JPN Vowels"),
            compared=(Gains(_TRANSFORMER, "uea-japanese-vowels", _entries_of_primal("japanese-vowels")),),
        ),
        Page(
            "series",
            (Table("UWaveGestureLibrary", "uwave-gesture-library-", "uea-uwave-gesture-library", is_shown=False),),
            marker="uwave-gesture-library",
            uses_main_archive=True,
            printed=(
                Printed(("accuracy",), {name: [("rkde:4", name, "UWave")] for name in _RKDE_4}),
                *_printed_of_primal("UWaveGestureLibrary", "UWave GestureLib."),
            ),
            compared=(
                Selection(
                    {row: f"uwave-gesture-library-{name}" for row, name in _RKDE_4.items()}
                    | _entries_of_primal("uwave-gesture-library")
                ),
            ),
        ),
        Page(
            "texts",
            (
                Table("SST-2, 872 sentences, accuracy in per cent under word swap", "sst2-", "sst2-swap"),
                Table("SST-2, first 200 sentences, accuracy in per cent under searches", "sst2-", "sst2-search"),
                Table("SST-5, 2,210 sentences, accuracy in per cent under word swap", "sst5-", "sst5-swap"),
            ),
            compared=(
                ManyToOne("sst2-", "sst2-softmax", _SST2),
                AskedAgain("sst2-pro", "sst2-softmax", "sst2-search", "typos-delete-200"),
                ManyToOne("sst5-", "sst5-softmax", (("sst5-swap", "clean"), ("sst5-swap", "swap-10"))),
            ),
        ),
        Page(
            "certificates",
            (
                Table(
                    "Smoothed models, in per cent: 200 images certified, 100 attacked", "cifar10-", "cifar10-certified"
                ),
            ),
        ),
        Page(
            "control",
            (
                Table("100 episodes of Pendulum-v1", "pendulum-", "pendulum"),
                Table("100 attacked episodes", "pendulum-", "control-adv"),
                Table("100 disturbed episodes", "pendulum-", "control-shift"),
            ),
            compared=(
                *(
                    Attacks(
                        models=_POLICIES,
                        suite="control-adv",
                        plain=f"random-{epsilon}",
                        others=(f"mad-{epsilon}", f"context-{epsilon}"),
                        metrics=("mean_return",),
                    )
                    for epsilon in ("0.1", "0.2")
                ),
            ),
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
    for page in [PAGES[sys.argv[1]]] if len(sys.argv) > 1 else PAGES.values():
        page.path.write_text(page.text(page.path.read_text()))
