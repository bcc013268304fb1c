"""``robench store``: whole results folders, verified, merged and tidied."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import click

from robench.cli.options import AbsolutePath, json_option, option, registry_option, results_option, suite_option
from robench.cli.progress import steps_shown
from robench.cli.status_command import shipped_for
from robench.cli.terminal import out, out_json, out_table, say
from robench.declare import find_datasets, find_suites, read_registries
from robench.reports import Listing, unused_in
from robench.store import FolderStore
from robench.store.upkeep import check_exists, compact_store, merge_stores, move_aside, verify_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SHOWN = 10


@click.group("store")
def command() -> None:
    """Verify results folders, merge those of several machines, pack them, and move aside what is no longer used."""


@command.command("verify")
@results_option
@json_option
def verify(results: Path, as_json: bool) -> int:
    """Read every file of the results folder and compare it with its seal.

    Damaged files are set aside in its folder 'damaged'; the next run measures their shards again. Exits with 1 if there
    were any.
    """
    store = FolderStore(results)
    check_exists(store)
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
            f"conflicts, of which the first stays: {len(merged.conflicts)}",
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
