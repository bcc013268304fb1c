"""``robench status``: what a results folder holds, from the store alone."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from robench.cli.durations import duration
from robench.cli.hints import run_command, same_command
from robench.cli.options import (
    all_examples_option,
    dataset_option,
    json_option,
    option,
    precision_option,
    registry_option,
    results_option,
    seed_option,
    suite_option,
)
from robench.cli.report_command import holds_nothing
from robench.cli.terminal import out, out_json, out_table, say
from robench.core.errors import DeclarationError, UsageError
from robench.declare import find_datasets, find_suite, find_suites, shipped_suites
from robench.papers.cost import seconds_left
from robench.reports import Listing, holdings_of, without_shared
from robench.store import FolderStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from robench.core.declared import DatasetDeclaration
    from robench.core.suite import Suite
    from robench.reports import Holding

Values = dict[str, str | int | float | None]


@click.command("status")
@suite_option(required=False)
@dataset_option
@registry_option
@all_examples_option
@option("--all", "show_all", is_flag=True, help="All shipped suites, also those without results of their own.")
@option("--failures", "show_failures", is_flag=True, help="Also print each failure's message and traceback.")
@results_option
@seed_option
@precision_option
@json_option
def command(
    suites: tuple[str, ...],
    dataset: str | None,
    registries: tuple[Path, ...],
    all_examples: bool,
    show_all: bool,
    show_failures: bool,
    results: Path,
    seed: int | None,
    precision: str,
    as_json: bool,
) -> int:
    """Show what the results folder holds: a row per suite and model with results there.

    A shipped suite of which there are only conditions that another one shares, such as clean examples, is left out
    unless --all is given. With --suite there is a row per condition of these suites, with the seconds
    that one worker needs for what is missing, by those that the stored results took. Without any results the exit
    code is 1.
    """
    # What is wrong with the arguments is told before anything about the results.
    asked = find_suites(suites, registries, dataset, all_examples=all_examples)
    store = FolderStore(results)
    if holds_nothing(store):
        if as_json:
            out_json([])
        say(f"No results in {results}: measure them with '{run_command()}'.")
        return 1
    listing = Listing(store)
    rows = (
        [row for suite in asked for row in _rows_by_condition(suite, listing, seed, precision)]
        if asked
        else _rows_by_suite(listing, registries, dataset, seed, precision, all_examples=all_examples, show_all=show_all)
    )
    if as_json:
        out_json(rows)
        return 0
    if rows:
        columns = list(rows[0])
        out_table(columns, [["?" if row[column] is None else str(row[column]) for column in columns] for row in rows])
        if asked:
            _say_what_is_left(rows)
    if show_failures:
        for failure in listing.failures:
            # Indented, so that no line of a traceback can be mistaken for another failure.
            traceback = [f"  {line}" for line in failure.traceback.rstrip().splitlines()]
            out("", f"{failure.shard.title}: {failure.error}", *traceback)
    return 0


def _rows_by_suite(
    listing: Listing,
    registries: Sequence[Path],
    dataset: str | None,
    seed: int | None,
    precision: str,
    *,
    all_examples: bool,
    show_all: bool,
) -> list[Values]:
    """Return a row for each shipped suite and model, and print how many results are in none of them."""
    shipped = shipped_for(listing, find_datasets(registries), dataset)
    suites = [suite.whole() if all_examples else suite for suite in shipped]
    found = [holding for suite in suites for holding in holdings_of(suite, listing, seed=seed, precision=precision)]
    chosen = found if show_all else without_shared(found)
    rows = [_row(holding) for holding in chosen]
    if show_all:
        held = {(each.suite, each.dataset) for each in found}
        rows += [_empty_row(each) for each in suites if (each.name, each.given_dataset) not in held]
    elif hidden := {each.suite for each in found} - {each.suite for each in chosen}:
        one = len(hidden) == 1
        say(
            f"{len(hidden)} further suite{' has' if one else 's have'} only results that these share, or audits; "
            f"'{same_command('--all')}' lists {'it' if one else 'them'}."
        )
    _say_what_is_beside(listing, found)
    return rows


def _say_what_is_beside(listing: Listing, holdings: Sequence[Holding]) -> None:
    known = {key for holding in holdings for key in holding.measurements}
    beside = {each.shard.measurement_key: each.shard.checkpoint for each in listing.manifests}
    models = sorted({model for key, model in beside.items() if key not in known})
    if models:
        count = len(beside.keys() - known)
        say(
            f"{count} measurement{'s' * (count != 1)} of {', '.join(models)} {'are' if count != 1 else 'is'} of no "
            "suite above: of a suite in a file (--suite FILE), on a dataset of a registry file (--registry FILE), "
            "with another seed, in another precision, or of an audit or transfer."
        )


def shipped_for(listing: Listing, datasets: Mapping[str, DatasetDeclaration], dataset: str | None) -> Iterator[Suite]:
    """Yield the shipped suites: those that name their datasets, and others on the given dataset or those in the store.

    Raises:
        UsageError: a dataset is given, and no suite can be measured on it.
        UnknownNameError: there is no dataset of the given name.
    """
    measured = sorted({each.shard.dataset.name for each in listing.manifests} & datasets.keys())
    for name in shipped_suites():
        suite = find_suite(name)
        if not suite.lacks_dataset:
            if dataset is None:
                yield suite
            continue
        if dataset is not None:
            yield find_suite(name, datasets, dataset)
            continue
        for each in measured:
            # Not every suite can be measured on every dataset.
            with suppress(DeclarationError, UsageError):
                yield find_suite(name, datasets, each)


def _row(holding: Holding) -> Values:
    return {
        "suite": holding.suite,
        "dataset": holding.dataset or "",
        "model": holding.model,
        "conditions": len(holding.coverages),
        "complete": holding.num_complete,
        "kept": holding.num_in,
        "missing": holding.missing,
        "failed_shards": holding.num_failed,
        "seconds": round(holding.seconds, 1),
    }


def _empty_row(suite: Suite) -> Values:
    names = {"suite": suite.name, "dataset": suite.given_dataset or "", "model": ""}
    counts = {"conditions": len(suite.conditions), "complete": 0, "kept": 0, "missing": None}
    return {**names, **counts, "failed_shards": 0, "seconds": 0.0}


def _rows_by_condition(suite: Suite, listing: Listing, seed: int | None, precision: str) -> Iterator[Values]:
    for holding in holdings_of(suite, listing, seed=seed, precision=precision):
        left = seconds_left(suite, holding)
        for condition, coverage in holding.coverages.items():
            yield {
                "suite": suite.name,
                "model": holding.model,
                "condition": condition,
                "kept": coverage.num_in,
                "missing": coverage.missing,
                "failed_shards": len(coverage.failures),
                "seconds": round(sum(record.provenance.seconds for record in coverage.records), 1),
                "seconds_left": None if left[condition] is None else round(left[condition] or 0.0, 1),
            }


def _say_what_is_left(rows: Sequence[Values]) -> None:
    """Print the time that each model of each suite needs, from the seconds of what is measured."""
    of_model: dict[tuple[object, object], list[Values]] = {}
    for row in rows:
        of_model.setdefault((row["suite"], row["model"]), []).append(row)
    for (suite, model), theirs in of_model.items():
        known = sum(float(row["seconds_left"] or 0.0) for row in theirs)
        num_unknown = sum(row["seconds_left"] is None for row in theirs)
        if num_unknown:
            conditions = f"{num_unknown} condition{'s' * (num_unknown != 1)} of unknown time"
            say(f"{model} under {suite}: {f'about {duration(known)} and ' if known else ''}{conditions} left")
        elif known:
            say(f"{model} under {suite}: about {duration(known)} left on one worker")
