"""``robench status``: coverage of each suite, from the store alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from robench.cli.options import (
    dataset_option,
    json_option,
    option,
    registry_option,
    results_option,
    seed_option,
    suite_option,
)
from robench.cli.terminal import out, out_json, out_table
from robench.declare import find_suite, find_suites, shipped_suites
from robench.reports import coverages_by_model, needs
from robench.store import FolderStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robench.core.records import Failure, Record
    from robench.core.suite import Suite

COLUMNS = ("suite", "model", "condition", "kept", "missing", "failed_shards", "seconds")


@click.command("status")
@suite_option(required=False)
@dataset_option
@registry_option
@option("--failures", "show_failures", is_flag=True, help="Also print each failure's message and traceback.")
@results_option
@seed_option
@json_option
def command(
    suites: tuple[str, ...],
    dataset: str | None,
    registries: tuple[Path, ...],
    show_failures: bool,
    results: Path,
    seed: int | None,
    as_json: bool,
) -> int:
    """Show how much of each suite is measured.

    Without --suite these are the shipped ones that name their datasets or, with --dataset, those that name none.
    """
    store = FolderStore(results)
    rows = [row for suite in _suites(suites, registries, dataset) for row in _rows(suite, store, seed)]
    if as_json:
        out_json(rows)
        return 0
    out_table(COLUMNS, [["?" if row[column] is None else str(row[column]) for column in COLUMNS] for row in rows])
    if show_failures:
        for failure in store.failures():
            # Indented, so that no line of a traceback can be mistaken for another failure.
            traceback = [f"  {line}" for line in failure.traceback.rstrip().splitlines()]
            out("", f"{failure.shard.title}: {failure.error}", *traceback)
    return 0


def _suites(names: Sequence[str], registries: Sequence[Path], dataset: str | None) -> tuple[Suite, ...]:
    if not names:
        shipped = {name: find_suite(name).lacks_dataset for name in shipped_suites()}
        names = [name for name, lacks_dataset in shipped.items() if lacks_dataset == (dataset is not None)]
    return find_suites(names, registries, dataset)


def _rows(suite: Suite, store: FolderStore, seed: int | None) -> list[dict[str, str | int | float | None]]:
    is_of_suite = needs(suite, seed=suite.seed if seed is None else seed)
    records = list(store.records(is_of_suite))
    failures = [failure for failure in store.failures() if is_of_suite(failure.shard)]
    rows: list[dict[str, str | int | float | None]] = []
    for model, coverages in coverages_by_model(suite, records, failures, seed=seed).items():
        for condition in suite.conditions:
            key, coverage = condition.perturbation_key, coverages[condition.name]
            failed = [failure for failure in failures if _is_of(failure, model, key)]
            seconds = sum(record.provenance.seconds for record in records if _is_of(record, model, key))
            values = (
                suite.name,
                model,
                condition.name,
                coverage.num_in,
                coverage.missing,
                len(failed),
                round(seconds, 1),
            )
            rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows


def _is_of(result: Record | Failure, model: str, perturbation_key: str) -> bool:
    return result.shard.checkpoint == model and result.shard.perturbation_key == perturbation_key
