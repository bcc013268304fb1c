"""``robench table``: prints papers' tables with the measured numbers and verdicts."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from robench.cli.options import AbsolutePath, option, registry_option, results_option
from robench.cli.terminal import out, out_document
from robench.core.errors import StoreUnwritableError, UsageError
from robench.core.files import write_whole
from robench.declare import find_datasets, find_suite, load_published, published_tables, read_registries
from robench.papers import (
    FORMATS,
    Basis,
    archived,
    authors_models,
    files_of,
    manifest_of,
    measured_models,
    models_by_suite,
    num_measured,
    reports_for,
    table_of,
)
from robench.papers.archive_file import SUFFIX, packed, unpacked
from robench.store import FolderStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from robench.core.published import PublishedTable
    from robench.core.records import Manifest, Record
    from robench.papers import PaperTable

_NAME = re.compile(r"([a-z0-9-]+):([1-9][0-9]*)")


@click.command("table")
@click.argument("names", nargs=-1, metavar="PAPER:NUMBER...")
@option("--all", "every", is_flag=True, help="Every table of every paper.")
@results_option
@registry_option
@option(
    "--format",
    "format_name",
    type=click.Choice(sorted(FORMATS)),
    default="text",
    show_default=True,
    help="How tables are written.",
)
@option("--json", "as_json", is_flag=True, help="Short for --format json.")
@option(
    "--output",
    type=AbsolutePath(),
    metavar="FOLDER",
    help="Write each table there in Markdown and JSON, with a manifest, and print how much is measured.",
)
@option(
    "--archive",
    type=AbsolutePath(),
    metavar="FILE",
    help="Add the results behind the tables to this archive (.tar.xz), reduced to the columns that they need.",
)
def command(
    names: tuple[str, ...],
    every: bool,
    results: Path,
    registries: tuple[Path, ...],
    format_name: str,
    as_json: bool,
    output: Path | None,
    archive: Path | None,
) -> int:
    """Print papers' tables with the measured numbers from stored results, such as rpc:1.

    Each number has a verdict or, if it is not measured, the command that measures it. No model, data or GPU is needed.
    --results may be an archive too.
    """
    with unpacked(results) if _is_archive(results) else nullcontext(results) as folder:
        return _tables(names, every, folder, registries, "json" if as_json else format_name, output, archive)


def _is_archive(path: Path) -> bool:
    return path.name.endswith(SUFFIX)


def _tables(
    names: tuple[str, ...],
    every: bool,
    results: Path,
    registries: tuple[Path, ...],
    format_name: str,
    output: Path | None,
    archive: Path | None,
) -> int:
    published = _asked(names, every)
    models = models_by_suite(published)
    datasets = find_datasets(registries)
    suites = {name: find_suite(name, datasets) for name in sorted(models)}
    checkpoints = read_registries(registries)
    store = FolderStore(results)
    manifests = list(store.manifests())
    of_authors = authors_models(checkpoints.values(), manifests)
    measured = measured_models(models, suites, manifests, of_authors)
    if archive is not None:
        _add(archived(measured, suites, store, manifests), archive)
        return 0
    basis = Basis(
        reports=reports_for(measured, suites, store),
        suites=suites,
        checkpoints=checkpoints,
        of_authors=of_authors,
        registries=registries,
    )
    tables = [table_of(each, basis) for each in published]
    if output is None:
        render = FORMATS[format_name]
        for table in tables:
            out_document(render(table))
    else:
        _write(tables, basis, results, manifests, output)
    return 0


def _asked(names: tuple[str, ...], every: bool) -> list[PublishedTable]:
    """Return the requested printed tables, each once.

    Raises:
        UsageError: no table is named, or a name is malformed.
        UnknownNameError: there is no such table.
    """
    if every == bool(names):
        found = "both" if names else "neither"
        raise UsageError(f"name tables, such as rpc:1, or give --all, got {found}; there are {_existing()}")
    keys = list(published_tables()) if every else [_key(name) for name in dict.fromkeys(names)]
    return [load_published(paper, number) for paper, number in keys]


def _key(name: str) -> tuple[str, int]:
    parts = _NAME.fullmatch(name)
    if parts is None:
        raise UsageError(f"a table is PAPER:NUMBER, such as rpc:1, got {name!r}; there are {_existing()}")
    return parts[1], int(parts[2])


def _existing() -> str:
    numbers: dict[str, list[int]] = {}
    for paper, number in published_tables():
        numbers.setdefault(paper, []).append(number)
    return ", ".join(f"{paper}:{min(each)} to {paper}:{max(each)}" for paper, each in numbers.items())


def _add(records: Iterator[Record], archive: Path) -> None:
    """Add records to an archive, which is made where there is none; one that it has stays as it is."""
    if not _is_archive(archive):
        raise UsageError(f"--archive must be a file ending in {SUFFIX}, got {archive.name!r}")
    kept = unpacked(archive) if archive.exists() else TemporaryDirectory(prefix="robench-archive-")
    with kept as folder:
        store = FolderStore(Path(folder))
        count = 0
        for record in records:
            store.put(record)
            count += 1
        content = packed(Path(folder))
    try:
        write_whole(archive, content)
    except OSError as error:
        raise StoreUnwritableError(f"cannot write the archive to {archive}: {error.strerror}") from error
    out(f"{count} files of results are in {archive}, {len(content):,} bytes")


def _write(tables: list[PaperTable], basis: Basis, results: Path, manifests: list[Manifest], output: Path) -> None:
    published = {f"{paper}:{number}": path for (paper, number), path in published_tables().items()}
    files = files_of(tables, manifest_of(tables, published, basis.suites, results, manifests))
    try:
        for name, text in files.items():
            write_whole(output / name, text.encode())
    except OSError as error:
        raise StoreUnwritableError(f"cannot write tables to {output}: {error.strerror}") from error
    measured, printed = num_measured(tables)
    out(f"{measured:,} of {printed:,} printed numbers are measured; {len(tables)} tables in {output}")
