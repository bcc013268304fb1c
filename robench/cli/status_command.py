"""``robench status``: how much of each suite is measured, from the store alone."""

from __future__ import annotations

import json
from pathlib import Path

import click
from tabulate import tabulate

from robench.cli.options import json_option, option, results_option, seed_option, suite_option
from robench.declare import find_suite, shipped_suites
from robench.reports import build_report, needs
from robench.store import FolderStore

COLUMNS = ("suite", "model", "condition", "kept", "missing", "failed_shards", "seconds")


@click.command("status")
@suite_option(required=False)
@option("--failures", "show_failures", is_flag=True, help="Also print each failure's message and traceback.")
@results_option
@seed_option
@json_option
def command(suites: tuple[str, ...], show_failures: bool, results: Path, seed: int | None, as_json: bool) -> int:
    """Say how much of each suite is measured; of all shipped suites unless --suite names some."""
    store = FolderStore(results)
    rows = [row for name in dict.fromkeys(suites or shipped_suites()) for row in _rows(name, store, seed)]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return 0
    table = [["?" if row[column] is None else str(row[column]) for column in COLUMNS] for row in rows]
    click.echo(tabulate(table, headers=COLUMNS, tablefmt="plain", disable_numparse=True))
    if show_failures:
        for failure in store.failures():
            click.echo(f"\n{failure.shard.title}: {failure.error}\n{failure.traceback}".rstrip())
    return 0


def _rows(suite_name: str, store: FolderStore, seed: int | None) -> list[dict[str, str | int | float | None]]:
    suite = find_suite(suite_name)
    is_of_suite = needs(suite)
    records = list(store.records(is_of_suite))
    failures = [failure for failure in store.failures() if is_of_suite(failure.shard)]
    names = sorted({result.shard.checkpoint for result in (*records, *failures)})
    # A limit beyond every dataset: rows of limited runs count here like all others.
    report = build_report(suite, records, failures, models=names, seed=seed, limit=2**62)
    rows: list[dict[str, str | int | float | None]] = []
    for row in report.rows:
        for condition in suite.conditions:
            cell = row.cells[f"{condition.name}/{suite.columns[0].metric}"]
            mine = [
                result.shard.checkpoint == row.model and result.shard.condition == condition.name for result in failures
            ]
            seconds = sum(
                record.provenance.seconds
                for record in records
                if record.shard.checkpoint == row.model and record.shard.condition == condition.name
            )
            values = (
                suite.name,
                row.model,
                condition.name,
                cell.num_examples,
                cell.missing,
                sum(mine),
                round(seconds, 1),
            )
            rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows
