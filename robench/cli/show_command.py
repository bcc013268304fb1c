"""``robench show``: everything known about one model, suite, attack, dataset or attention."""

from __future__ import annotations

import json
from pathlib import Path

import click
import yaml

from robench.cli.catalogue import CATALOGUE
from robench.cli.options import json_option, registry_option
from robench.core.errors import UnknownNameError


@click.command("show")
@click.argument("name")
@registry_option
@json_option
def command(name: str, registries: tuple[Path, ...], as_json: bool) -> int:
    """Show everything known about NAME, whatever kind of thing it is."""
    entries = [(kind, entry) for kind, listed in CATALOGUE.items() for entry in listed(registries)]
    found = [{"is_one_of": kind, **entry} for kind, entry in entries if entry["name"] == name]
    if not found:
        raise UnknownNameError("name", name, [str(entry["name"]) for _, entry in entries])
    if as_json:
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        click.echo(
            "---\n".join(yaml.safe_dump(entry, sort_keys=False, allow_unicode=True) for entry in found), nl=False
        )
    return 0
