"""Papers' tables that a command is about, and their numbers in a results folder; of ``table`` and ``reproduce``."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import click

from robench.cli.options import gathered, limit_option, option, registry_option, results_option
from robench.cli.terminal import out_document, out_encoding
from robench.core.errors import UsageError
from robench.core.rendered import PLAIN_STYLE, Style
from robench.costs.stored import stored_costs
from robench.declare.printed import PublishedCell, PublishedTable
from robench.papers import (
    Measured,
    PaperTable,
    TwinTable,
    existing_tables,
    find_published,
    measured_of_tables,
    tables_of,
    twin_tables_of,
)
from robench.papers.forecast import Forecast
from robench.papers.selection import chosen_cells, part_of, part_of_twins
from robench.papers.signs import encodable
from robench.reproduction.hours import with_hours
from robench.reproduction.weights import Reproduced
from robench.store import FolderStore

CHOOSING = (
    option("--all", "every", is_flag=True, help="Every table of every paper."),
    option("--rows", multiple=True, metavar="LABEL|PATTERN", help="Only rows of this label or model, such as 'RPC*'."),
    option("--columns", multiple=True, metavar="NAME|PATTERN", help="Only these columns, such as 'IN-R*'."),
    option("--twin", "of_twins", is_flag=True, help="Twins of the models, on small data that come with robench."),
)
OPTIONS = (
    click.argument("names", nargs=-1, metavar="PAPER:NUMBER..."),
    *(*CHOOSING, limit_option, results_option, registry_option),
)


@dataclass(frozen=True, kw_only=True)
class ChosenTables:
    """Values of the options that say which tables, rows and columns a command is about, and where their numbers are.

    Raises:
        UsageError: neither names nor ``every`` are given, or both.
    """

    names: tuple[str, ...]
    every: bool
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    of_twins: bool
    limit: int | None
    results: Path
    registries: tuple[Path, ...]

    def __post_init__(self) -> None:
        if self.every == bool(self.names):
            found = "both" if self.names else "neither"
            raise UsageError(f"name tables, such as rpc:1, or give --all, got {found}; there are {existing_tables()}")

    @cached_property
    def published(self) -> list[PublishedTable]:
        """Return the printed tables."""
        return find_published(self.names)

    @cached_property
    def cells(self) -> list[PublishedCell]:
        """Return the chosen printed numbers."""
        return chosen_cells(self.published, self.rows, self.columns)

    def check_twins(self) -> None:
        """Refuse a named table without twins, if twins are chosen. Raises UsageError: there is one."""
        lacking = sorted(each.name for each in self.published if all(cell.twin is None for cell in each.cells))
        if self.of_twins and lacking and not self.every:
            raise UsageError(f"no model of {', '.join(lacking)} has a twin on small data; leave out --twin")

    def measured(self, folder: Path) -> Measured:
        """Return the measurements of the tables in a results folder, those of reproduced weights included."""
        registries = (*self.registries, *Reproduced(folder).registries)
        return measured_of_tables(self.published, FolderStore(folder), registries, limit=self.limit)

    def tables(
        self, measured: Measured, folder: Path, device_speed: float | None = None
    ) -> Sequence[PaperTable | TwinTable]:
        """Return the chosen parts of the tables; with a speed, the hours of unmeasured numbers.

        Raises:
            UsageError: a named table has no twins.
        """
        store = FolderStore(folder)
        if self.of_twins:
            self.check_twins()
            twins = twin_tables_of(self.published, measured, store, self.registries)
            return [part_of_twins(each, self.cells) for each in twins] if self.rows or self.columns else twins
        tables = tables_of(self.published, measured, store, self.registries, stored_costs(folder))
        if device_speed is not None:
            forecast = Forecast(flops_per_second=device_speed)
            tables = [
                with_hours(table, published, measured.suites, measured.checkpoints, forecast)
                for table, published in zip(tables, self.published, strict=True)
            ]
        return [part_of(each, self.cells) for each in tables] if self.rows or self.columns else tables


def print_tables(tables: Sequence[PaperTable | TwinTable], format_name: str, style: Style = PLAIN_STYLE) -> None:
    """Print tables in a style, with signs that the encoding of stdout has."""
    for table in tables:
        out_document(encodable(replace(table, style=style).render(format_name), out_encoding()))


choosing_tables = gathered("chosen", ChosenTables, OPTIONS)
