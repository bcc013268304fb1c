"""``robench leaderboard``: one table over one or several suites, as a page or in another format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from robench.cli.hints import run_command
from robench.cli.options import (
    AbsolutePath,
    all_examples_option,
    all_seeds_option,
    dataset_option,
    limit_option,
    model_option,
    option,
    registry_option,
    results_option,
    seed_option,
    suite_option,
)
from robench.cli.report_command import chosen_names
from robench.cli.terminal import out_document, say
from robench.core.errors import UsageError
from robench.core.files import write_whole
from robench.declare import find_suites, read_registries
from robench.leaderboard import MANIFEST_NAME, RENDERERS, SUFFIXES, leaderboard_of, render_manifest
from robench.store import FolderStore

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "leaderboard"


@click.command("leaderboard")
@suite_option(required=True)
@dataset_option
@model_option(required=False)
@registry_option
@limit_option
@all_examples_option
@option(
    "--format",
    "formats",
    type=click.Choice(sorted(RENDERERS)),
    multiple=True,
    default=("html",),
    show_default=True,
    help="Format of the table; several go into a folder.",
)
@option(
    "--output",
    type=AbsolutePath(),
    metavar="FILE|FOLDER",
    help=f"File to write, or existing folder for {NAME}.html and the like; default: standard output.",
)
@results_option
@seed_option
@all_seeds_option
def command(
    suites: tuple[str, ...],
    dataset: str | None,
    models: tuple[str, ...],
    registries: tuple[Path, ...],
    limit: int | None,
    all_examples: bool,
    formats: tuple[str, ...],
    output: Path | None,
    results: Path,
    seed: int | None,
    all_seeds: bool,
) -> int:
    """Write one table over one or several suites from kept results; no model, data or GPU is needed.

    The default is one HTML page that needs no network: columns sort, rows are filtered and compared, and each number
    shows what it was measured on.
    """
    names = tuple(dict.fromkeys(formats))
    paths = _paths(output, names)
    store = FolderStore(results)
    board = leaderboard_of(
        find_suites(suites, registries, dataset, all_examples=all_examples),
        store,
        models=chosen_names(models, registries, store, all_seeds=all_seeds),
        limit=limit,
        seed=seed,
        checkpoints=read_registries(registries),
        average_seeds=all_seeds,
    )
    texts = [RENDERERS[name](board) for name in names]
    for text, path in zip(texts, paths, strict=True):
        _put(text, path)
    if output is not None and _is_folder(output):
        files = {path.name: text for text, path in zip(texts, paths, strict=True) if path is not None}
        _put(render_manifest(board, files), output / MANIFEST_NAME)
    if not board.rows:
        say(f"No results for {board.title} in {results}: measure them with '{run_command()}'.")
    return 0


def _paths(output: Path | None, formats: Sequence[str]) -> list[Path | None]:
    """Return the file of each format; None is standard output.

    Raises:
        UsageError: several formats are for one file or for standard output.
    """
    if output is not None and _is_folder(output):
        return [output / f"{NAME}{SUFFIXES[name]}" for name in formats]
    if len(formats) > 1:
        raise UsageError("several formats need an existing folder; create one and name it with --output FOLDER")
    return [output]


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        # Such as a name that is too long, which writing reports.
        return False


def _put(text: str, path: Path | None) -> None:
    if path is None:
        out_document(text)
        return
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror}); choose another file with --output") from error
    say(f"wrote {path}")
