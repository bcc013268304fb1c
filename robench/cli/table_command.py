"""``robench table``: prints papers' tables with the measured numbers and verdicts."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import click

from robench.cli.options import format_option, option, path_option, registry_option, results_option
from robench.cli.terminal import out, out_document, out_encoding
from robench.core.errors import UsageError
from robench.core.files import write_whole, writing
from robench.costs.stored import stored_costs
from robench.declare import published_tables
from robench.papers import (
    FORMATS,
    Measured,
    PaperTable,
    TwinTable,
    archived,
    existing_tables,
    files_of,
    find_published,
    manifest_of,
    measured_of_tables,
    tables_of,
    twin_tables_of,
)
from robench.papers.archive import add_records, is_archive, unpacked
from robench.papers.signs import encodable
from robench.store import FolderStore


@click.command("table")
@click.argument("names", nargs=-1, metavar="PAPER:NUMBER...")
@option("--all", "every", is_flag=True, help="Every table of every paper.")
@option("--twins", "of_twins", is_flag=True, help="Twins of the tables' models on small data, in place of the tables.")
@results_option
@registry_option
@format_option(sorted(FORMATS), "tables")
@path_option(
    "--output",
    "FOLDER",
    "Write each table there in Markdown and JSON, with a manifest, and print how much is measured.",
)
@path_option(
    "--archive",
    "FILE",
    "Add the results behind the tables to this archive (.tar.xz), reduced to the columns that they need.",
)
def command(
    names: tuple[str, ...],
    every: bool,
    of_twins: bool,
    results: Path,
    registries: tuple[Path, ...],
    format_name: str,
    output: Path | None,
    archive: Path | None,
) -> int:
    """Print papers' tables with the measured numbers from stored results, such as rpc:1.

    Each number has the sign of its verdict, explained below; unmeasured ones have the command that measures them.
    No model, data or GPU is needed. --results may be an archive too.
    """
    if every == bool(names):
        found = "both" if names else "neither"
        raise UsageError(f"name tables, such as rpc:1, or give --all, got {found}; there are {existing_tables()}")
    with unpacked(results) if is_archive(results) else nullcontext(results) as folder:
        published, store = find_published(names), FolderStore(folder)
        measured = measured_of_tables(published, store, registries)
        if archive is not None:
            records = archived(measured.models, measured.suites, store, measured.manifests)
            count, num_bytes = add_records(records, archive)
            out(f"{count} files of results are in {archive}, {num_bytes:,} bytes")
            return 0
        tables: Sequence[PaperTable | TwinTable]
        if of_twins:
            tables = twin_tables_of(published, measured, store, registries)
            lacking = [] if every else sorted({each.name for each in published} - {each.name for each in tables})
            if lacking:
                raise UsageError(f"no model of {', '.join(lacking)} has a twin on small data; leave out --twins")
        else:
            tables = tables_of(published, measured, store, registries, stored_costs(folder))
        if output is not None:
            _write(tables, measured, folder, output)
            return 0
    for table in tables:
        out_document(encodable(table.render(format_name), out_encoding()))
    return 0


def _write(tables: Sequence[PaperTable | TwinTable], measured: Measured, results: Path, output: Path) -> None:
    published = {f"{paper}:{number}": path for (paper, number), path in published_tables().items()}
    manifest = manifest_of(tables, published, measured.suites, results, measured.manifests)
    with writing(output):
        for name, text in files_of(tables, manifest).items():
            write_whole(output / name, text.encode())
    noun = "printed numbers" if "printed" in manifest else "numbers of twins"
    count = manifest.get("printed", manifest.get("twins"))
    out(f"{manifest['measured']:,} of {count:,} {noun} are measured; {len(tables)} tables in {output}")
