"""``robench schema``: JSON Schemas of suite and registry files, for editors and other programs."""

from __future__ import annotations

import click

from robench.cli.terminal import out_json
from robench.declare.json_schema import FILES, json_schema


@click.command("schema")
@click.argument("kind", type=click.Choice(list(FILES)))
def command(kind: str) -> int:
    """Print the JSON Schema (draft 2020-12) of suite or registry files.

    Editors check and complete files with it; 'robench validate' checks more. The first line of a file names it:
    # yaml-language-server: $schema=suite.json
    """
    out_json(json_schema(kind))
    return 0
