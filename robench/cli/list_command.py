"""``robench list``: what there is, by kind."""

from __future__ import annotations

import json
from pathlib import Path

import click
from tabulate import tabulate

from robench.cli.catalogue import CATALOGUE
from robench.cli.options import json_option, registry_option


@click.command("list")
@click.argument("kind", type=click.Choice(list(CATALOGUE)))
@registry_option
@json_option
def command(kind: str, registries: tuple[Path, ...], as_json: bool) -> int:
    """List all models, suites, attacks, datasets or attentions."""
    entries = CATALOGUE[kind](registries)
    if as_json:
        click.echo(json.dumps(entries, indent=2, ensure_ascii=False))
        return 0
    columns = ("name", "summary")
    rows = [[str(entry[column]) for column in columns] for entry in entries]
    click.echo(tabulate(rows, headers=columns, tablefmt="plain", disable_numparse=True))
    return 0
