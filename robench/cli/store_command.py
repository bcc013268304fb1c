"""``robench store``: whole results folders, verified and merged."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from robench.cli.options import AbsolutePath, json_option, results_option
from robench.cli.terminal import out, out_json
from robench.core.errors import UsageError
from robench.store import FolderStore
from robench.store.merging import merge_stores, verify_store

_SHOWN = 10


@click.group("store")
def command() -> None:
    """Verify results folders, and merge those of several machines."""


@command.command("verify")
@results_option
@json_option
def verify(results: Path, as_json: bool) -> int:
    """Read every file of the results folder and compare it with its seal.

    Damaged files are set aside in its folder 'damaged'; the next run measures their shards again. Exits with 1 if there
    were any.
    """
    if not results.is_dir():
        raise UsageError(f"there is no results folder {results}; name one with --results")
    found = verify_store(FolderStore(results))
    if as_json:
        out_json({"sound": found.counts, "damaged": [str(path) for path in found.damaged]})
    else:
        out(f"sound: {_counted(found.counts)}", f"damaged: {len(found.damaged)}", *_listed(found.damaged))
    return 1 if found.damaged else 0


@command.command("merge")
@click.argument("sources", nargs=-1, required=True, type=AbsolutePath(), metavar="FOLDER...")
@results_option
@json_option
def merge(sources: tuple[Path, ...], results: Path, as_json: bool) -> int:
    """Copy the results in each FOLDER into the results folder, byte for byte; what it has already stays.

    A shard that two folders have with other outcomes is a conflict: the first stays. Exits with 1 if there were
    conflicts or damaged files.
    """
    merged = merge_stores(FolderStore(results), [FolderStore(source) for source in sources])
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


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in counts.items())


def _listed(paths: tuple[Path, ...]) -> list[str]:
    more = len(paths) - _SHOWN
    return [f"  {path}" for path in paths[:_SHOWN]] + ([f"  and {more} more"] if more > 0 else [])
