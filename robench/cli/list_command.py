"""``robench list``: names of models, suites and plug-ins, by kind."""

from __future__ import annotations

from pathlib import Path

import click

from robench.cli.catalogue import CATALOGUE
from robench.cli.options import json_option, registry_option
from robench.cli.terminal import out_json, out_table


@click.command("list")
@click.argument("kind", type=click.Choice(list(CATALOGUE)))
@registry_option
@json_option
def command(kind: str, registries: tuple[Path, ...], as_json: bool) -> int:
    """List all models, suites, or plug-ins of a family, including those of other distributions."""
    entries = CATALOGUE[kind](registries)
    if as_json:
        out_json(entries)
        return 0
    columns = ("name", "summary")
    out_table(columns, [[str(entry[column]) for column in columns] for entry in entries])
    return 0
