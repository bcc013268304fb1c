"""``robench store`` and ``robench status``: results folders, and how much of each suite they have."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import count
from pathlib import Path

import click

from robench.cli.names import run_command, same_command
from robench.cli.options import (
    AbsolutePath,
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
from robench.cli.progress import steps_shown
from robench.cli.report_command import holds_nothing, say_moved
from robench.cli.selection import Selection, selecting
from robench.cli.terminal import out, out_json, out_table, say
from robench.core.declared import DatasetDeclaration
from robench.core.errors import DeclarationError, RobenchError, UsageError
from robench.core.suite import Suite
from robench.declare import find_datasets, find_suite, find_suites, read_registries, shipped_suites
from robench.evaluation.actions import audits_of
from robench.reports import Holding, Listing, holdings_of, unused_in, without_shared
from robench.scheduling.display import duration
from robench.scheduling.estimates import Estimates
from robench.store import FolderStore
from robench.store.upkeep import check_exists, compact_store, merge_stores, move_aside, verify_store

_SHOWN = 10
# A suite and a model that run anywhere, for advice where no suite is asked for.
_EXAMPLE = {"suite": "digits-adv", "model": "digits-vit"}
Values = dict[str, str | int | float | None]


@click.group("store")
def command() -> None:
    """Verify results folders, merge those of several machines, pack them, and move aside unused results."""


@command.command("verify")
@results_option
@json_option
def verify(results: Path, as_json: bool) -> int:
    """Read every file of the results folder, compare it with its seal, and records with each other.

    Damaged and contradictory files are set aside in its folder 'damaged'; the next run measures their shards again.
    Exits with 1 if there were any.
    """
    store = FolderStore(results)
    check_exists(store)
    for suite in map(find_suite, shipped_suites()):
        store.expect([*suite.conditions, *audits_of(suite)])
    with _shown("verifying", "files") as on_file:
        found = verify_store(store, on_file)
    if as_json:
        out_json({"sound": found.counts, "damaged": [str(path) for path in found.damaged]})
    else:
        out(f"sound: {_counted(found.counts)}", f"damaged: {len(found.damaged)}", *_listed(found.damaged))
    return 1 if found.damaged else 0


@command.command("compact")
@results_option
@json_option
def compact(results: Path, as_json: bool) -> int:
    """Put the records of each measurement into one file, as most file systems are slow with many small ones.

    Reports and all else that reads the folder stay the same. Measurements with a gap before their last shard, or shards
    of different sizes, are left as they are. Runs may go on meanwhile.
    """
    store = FolderStore(results)
    check_exists(store)
    with _shown("packing", "measurements") as on_measurement:
        found = compact_store(store, on_measurement)
    if as_json:
        out_json({"packed": found.num_packed, "files": found.num_files, "left": found.num_left})
    else:
        out(
            f"packed: {found.num_files} files of {found.num_packed} measurements into {found.num_packed}",
            f"left as they are: {found.num_left} measurements with gaps or shards of different sizes",
        )
    return 0


@command.command("merge")
@click.argument("sources", nargs=-1, required=True, type=AbsolutePath(), metavar="FOLDER...")
@results_option
@json_option
def merge(sources: tuple[Path, ...], results: Path, as_json: bool) -> int:
    """Copy the results in each FOLDER into the results folder, byte for byte; what it has already stays.

    A shard that two folders have with other outcomes is a conflict: the first stays. Exits with 1 if there were
    conflicts or damaged files.
    """
    with _shown("merging", "files") as on_file:
        merged = merge_stores(FolderStore(results), [FolderStore(source) for source in sources], on_file)
    if as_json:
        plain = asdict(merged)
        out_json({**plain, "damaged": [str(path) for path in merged.damaged]})
    else:
        out(
            f"copied: {_counted(merged.copied)}",
            f"kept already: {_counted(merged.known)}",
            f"conflicts (the first record stays): {len(merged.conflicts)}",
            *(f"  {title}" for title in merged.conflicts[:_SHOWN]),
            f"damaged: {len(merged.damaged)}",
            *_listed(merged.damaged),
        )
    return 1 if merged.conflicts or merged.damaged else 0


@command.command("gc")
@suite_option(required=False)
@registry_option
@option("--apply", "is_applied", is_flag=True, help="Move them to the folder 'unused' of the results folder.")
@results_option
@json_option
def gc(suites: tuple[str, ...], registries: tuple[Path, ...], is_applied: bool, results: Path, as_json: bool) -> int:
    """List measurements that no registry and no suite needs any more; with --apply move them aside.

    Needed are the conditions of the shipped suites and of those given by --suite, of models of the shipped registry and
    of files given by --registry, with their present weights. Nothing is deleted.
    """
    store = FolderStore(results)
    check_exists(store)
    listing = Listing(store)
    known = [*shipped_for(listing, find_datasets(registries), None), *find_suites(suites, registries)]
    found = unused_in(listing, known, read_registries(registries))
    if as_json:
        out_json([asdict(each) for each in found])
    elif found:
        rows = [[each.model, each.dataset, each.condition, each.reason, each.key] for each in found]
        out_table(["model", "dataset", "condition", "why it is not needed", "measurement"], rows)
    if is_applied:
        moved = move_aside(store, [each.key for each in found])
        say(f"moved {len(moved)} folders to {results / 'unused'}")
    else:
        say(f"{len(found)} measurements are not needed{'; --apply moves them aside' if found else ''}")
    return 0


@contextmanager
def _shown(description: str, noun: str) -> Iterator[Callable[[], None]]:
    """Yield a callback for each step, whose number is not known before."""
    with steps_shown(description, noun) as on_progress:
        numbers = count(1)
        yield lambda: on_progress(next(numbers), None)


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in counts.items())


def _listed(paths: tuple[Path, ...]) -> list[str]:
    more = len(paths) - _SHOWN
    return [f"  {path}" for path in paths[:_SHOWN]] + ([f"  and {more} more"] if more > 0 else [])


@click.command("status")
@selecting(
    (
        *(suite_option(required=False), dataset_option, registry_option, all_examples_option),
        *(results_option, seed_option, precision_option),
    )
)
@option("--all", "show_all", is_flag=True, help="All shipped suites, also those without results of their own.")
@option("--failures", "show_failures", is_flag=True, help="Also print each failure's message and traceback.")
@json_option
def status_command(selection: Selection, show_all: bool, show_failures: bool, as_json: bool) -> int:
    """Show what the results folder holds: a row per suite and model with results there.

    A shipped suite with results only under conditions that another one shares, such as clean examples, is left out
    unless --all is given. With --suite there is a row per condition of these suites, with the seconds that one worker
    needs for the missing shards, by the times of the stored results. Without any results the exit code is 1.
    """
    # Mistakes in the arguments are reported before anything about the results.
    asked, store = selection.found_suites(), selection.store()
    if holds_nothing(store):
        if as_json:
            out_json([])
        say(f"No results in {store.path}: measure some with '{run_command(**({} if asked else _EXAMPLE))}'.")
        say_moved(store, asked)
        return 1
    listing = Listing(store)
    rows = (
        [row for suite in asked for row in _rows_by_condition(suite, listing, selection)]
        if asked
        else _rows_by_suite(listing, selection, show_all=show_all)
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


def _rows_by_suite(listing: Listing, selection: Selection, *, show_all: bool) -> list[Values]:
    """Return a row for each shipped suite and model, and print how many results are in none of them."""
    shipped = shipped_for(listing, find_datasets(selection.registries), selection.dataset)
    suites = [suite.whole() if selection.all_examples else suite for suite in shipped]
    found = [holding for suite in suites for holding in _holdings(suite, listing, selection)]
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
    """Yield the shipped suites that name their datasets, and others on the given dataset or those in the store.

    Raises:
        UsageError: a dataset is given, and no suite can be measured on it.
        UnknownNameError: there is no dataset of the given name.
    """
    measured = sorted({each.shard.dataset.name for each in listing.manifests} & datasets.keys())
    refusals: list[RobenchError] = []
    num_found = 0
    for name in shipped_suites():
        suite = find_suite(name)
        if not suite.lacks_dataset:
            if dataset is None:
                yield suite
            continue
        for each in measured if dataset is None else [dataset]:
            # Not every suite can be measured on every dataset.
            try:
                yield find_suite(name, datasets, each)
                num_found += 1
            except (DeclarationError, UsageError) as error:
                refusals.append(error)
    if dataset is not None and not num_found:
        raise refusals[0]


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


def _holdings(suite: Suite, listing: Listing, selection: Selection) -> list[Holding]:
    return holdings_of(suite, listing, seed=selection.seed, precision=selection.precision)


def _seconds_left(suite: Suite, holding: Holding) -> dict[str, float | None]:
    """Return the seconds that one worker needs for the missing examples of a model, by condition; None if unknown.

    They are those of the kind of device of the model's latest result.
    """
    records = [record for coverage in holding.coverages.values() for record in coverage.records]
    latest = max(records, key=lambda each: each.provenance.finished_at, default=None)
    conditions = {each.name: each for each in suite.conditions}
    estimates = Estimates()
    for name, coverage in holding.coverages.items():
        for record in coverage.records:
            if latest is not None and record.provenance.device == latest.provenance.device:
                count = record.shard.stop - record.shard.start
                estimates.add(name, holding.model, conditions[name], record.provenance.seconds, count)
    left: dict[str, float | None] = {}
    for name, coverage in holding.coverages.items():
        found = estimates.of(name, holding.model, conditions[name])
        left[name] = 0.0 if coverage.missing == 0 else None
        if coverage.missing and found is not None:
            left[name] = coverage.missing * found.seconds
    return left


def _rows_by_condition(suite: Suite, listing: Listing, selection: Selection) -> Iterator[Values]:
    for holding in _holdings(suite, listing, selection):
        left = _seconds_left(suite, holding)
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
