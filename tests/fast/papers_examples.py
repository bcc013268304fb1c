"""Small printed tables, reports made by hand, and a store of outcomes made by hand, for tests of papers' tables."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from math import log

from robench import declare
from robench.core.checkpoint import Checkpoint
from robench.core.columns import Outcomes
from robench.core.flags import Flag
from robench.core.records import Provenance, Record
from robench.core.report import Cell, Estimate, Report, Row
from robench.core.shard import DatasetIdentity, Measurement, Shard
from robench.core.suite import Suite
from robench.declare.printed import PublishedCell, PublishedRow, PublishedTable, PublishedTwin
from robench.papers.basis import AuthorsWeights, Basis
from robench.tasks.classification import ClassificationOutcome

CLEAN = "clean/top1_accuracy"
FLAG = Flag(
    name="single step beats iterations", source="s", value=0.1, limit=0.0, is_raised=True, finding="it does",
    advice="try",
)  # fmt: skip
THEIRS = {"symvit": AuthorsWeights(checkpoint="symvit", known="by checksum")}
TWIN = PublishedTwin(model="digits-symvit", suite="digits-shift", condition="clean", metric="top1_accuracy")


# Files that come with robench are read once.
suite: Callable[[str], Suite] = cache(declare.find_suite)
registry: Callable[[], Mapping[str, Checkpoint]] = cache(declare.read_registries)
load_published: Callable[[str, int], PublishedTable] = cache(declare.load_published)


def shipped_tables() -> dict[tuple[str, int], PublishedTable]:
    return {key: load_published(*key) for key in declare.published_tables()}


def printed(
    text: str = "70.44", model: str | None = "symvit", *, row: str = "Ours", column: str = "Clean", **changes
) -> PublishedCell:
    fields = {"suite": "imagenet-shift", "condition": "clean", "metric": "top1_accuracy", "unit": "%"} | changes
    return PublishedCell(row=row, column=column, printed=text, model=model, **fields)


def table_with(*cells: PublishedCell | None, columns: tuple[str, ...] = ("Clean",), runs: int = 5) -> PublishedTable:
    """A table of as many cells a row as there are columns."""
    width = len(columns)
    rows = [cells[start : start + width] for start in range(0, len(cells), width)]
    return PublishedTable(
        paper="mine",
        number=1,
        title="A table",
        source="Me 2024",
        text="mine.txt",
        caption_line=1,
        runs=runs,
        columns=columns,
        rows=tuple(
            PublishedRow(
                label=next(cell.row for cell in row if cell is not None), lines=("a",), line=1, cells=tuple(row)
            )
            for row in rows
        ),
    )


def cell_of(
    value: float, low: float | None = None, high: float | None = None, of_seeds: tuple[float, ...] = ()
) -> Cell:
    estimate = Estimate(value=value, low=low, high=high, num_examples=50_000, of_seeds=of_seeds)
    return Cell(estimate=estimate, num_examples=50_000, missing=0)


def report_with(model: str, cells: Mapping[str, Cell], name: str = "imagenet-shift", **changes) -> dict[str, Report]:
    of_suite = suite(name)
    row = Row(model=model, cells=dict(cells), **changes)
    return {
        name: Report(suite=name, version=1, seed=0, columns=of_suite.columns, rows=(row,), provenance={"seed": "0"})
    }


def basis_with(reports: Mapping[str, Report] | None = None, **changes) -> Basis:
    suites = {name: suite(name) for name in ("imagenet-shift", "imagenet-c", "imagenet-adv-rpc", "digits-shift")}
    return Basis(reports=reports or {}, suites=suites, checkpoints=registry(), **changes)


def outcome(number: int, correct: bool, *, has_class: bool = True) -> ClassificationOutcome:
    confidence = 0.5 + 0.4 * (number % 7) / 7
    return ClassificationOutcome(
        example_id=f"e{number}",
        linf=0.0,
        l2=0.0,
        l1=0.0,
        num_queries=1,
        num_gradients=0,
        target=number % 10,
        prediction=number % 10 if correct else (number + 1) % 10,
        correct_top1=correct and has_class,
        correct_top5=has_class,
        confidence=confidence,
        loss_nats=(-log(confidence) if correct else 3.0 + number) if has_class else None,
    )


def records(
    suite_name: str, model: str, num_wrong: int = 3, digest: str | None = None, shard_size: int = 7
) -> Iterator[Record]:
    """Records of every condition of a suite of small datasets: the first ``num_wrong`` examples are wrong."""
    found = registry()[model] if model in registry() else replace(registry()[model.partition("@")[0]], name=model)
    own = hashlib.sha256(model.encode()).hexdigest() if "@" in model else (found.weights.sha256 or "0").ljust(64, "0")
    for condition in suite(suite_name).conditions:
        size = 20
        measurement = Measurement(
            checkpoint=found,
            condition=condition,
            weights_digest=digest or own,
            dataset=DatasetIdentity(name=condition.dataset.name, fingerprint=condition.dataset.name, num_examples=size),
            seed=0,
            batch_size=suite(suite_name).batch_size,
        )
        for start in range(0, size, shard_size):
            stop = min(start + shard_size, size)
            has_class = not condition.dataset.is_out_of_distribution
            yield Record(
                shard=Shard(measurement=measurement, start=start, stop=stop).header,
                outcomes=Outcomes.of(
                    [outcome(each, each >= num_wrong, has_class=has_class) for each in range(start, stop)]
                ),
                provenance=Provenance(
                    device="cpu", versions={"torch": "2"}, seconds=1.0, finished_at=f"2026-01-01T00:00:{start:02d}"
                ),
            )
