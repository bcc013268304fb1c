"""``robench table``: prints papers' tables with the measured numbers and verdicts."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import click

from robench.cli.options import device_speed_option, format_option, path_option
from robench.cli.paper_tables import ChosenTables, choosing_tables, print_tables
from robench.cli.style_options import LATEX, style_options
from robench.cli.terminal import out
from robench.core.files import write_whole, writing
from robench.core.rendered import Style
from robench.declare import published_tables
from robench.papers import (
    FORMATS,
    Measured,
    PaperTable,
    TwinTable,
    archived,
    files_of,
    manifest_of,
)
from robench.papers.archive import add_records, is_archive, unpacked
from robench.store import FolderStore


@click.command("table")
@choosing_tables
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
@device_speed_option
@style_options(LATEX)
def command(
    chosen: ChosenTables,
    format_name: str,
    output: Path | None,
    archive: Path | None,
    device_speed: float | None,
    style: Style,
) -> int:
    """Print papers' tables with the measured numbers from stored results, such as rpc:1.

    Each number has the sign of its verdict, explained below; unmeasured ones have the command that measures them.
    No model, data or GPU is needed. --results may be an archive too.
    """
    results = chosen.results
    with unpacked(results) if is_archive(results) else nullcontext(results) as folder:
        measured = chosen.measured(folder)
        if archive is not None:
            store = FolderStore(folder)
            records = archived(measured.models, measured.suites, store, measured.manifests)
            count, num_bytes = add_records(records, archive)
            out(f"{count} files of results are in {archive}, {num_bytes:,} bytes")
            return 0
        tables = chosen.tables(measured, folder, device_speed)
        if output is not None:
            _write(tables, measured, folder, output)
            return 0
    print_tables(tables, format_name, style)
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
