"""``robench show``: everything known about one model, suite or plug-in."""

from __future__ import annotations

from pathlib import Path

import click
import yaml

from robench.cli.catalogue import CATALOGUE, Entry
from robench.cli.completion import complete_anything
from robench.cli.options import json_option, registry_option
from robench.cli.terminal import out_document, out_json
from robench.core.errors import UnknownNameError


@click.command("show")
@click.argument("name", shell_complete=complete_anything)
@registry_option
@json_option
def command(name: str, registries: tuple[Path, ...], as_json: bool) -> int:
    """Show everything known about NAME, of any kind."""
    entries = [(kind, entry) for kind, listed in CATALOGUE.items() for entry in listed(registries)]
    found = [{"is_one_of": kind, **entry} for kind, entry in entries if entry["name"] == name]
    if not found:
        raise UnknownNameError("name", name, [str(entry["name"]) for _, entry in entries])
    if as_json:
        out_json(found)
    else:
        out_document("---\n".join(map(_yaml, found)))
    return 0


def _yaml(entry: Entry) -> str:
    text = yaml.safe_dump(entry, sort_keys=False, allow_unicode=True)
    # YAML does not escape bidi marks and the like unless it escapes everything outside ASCII.
    is_inert = text.replace("\n", "").isprintable()
    return text if is_inert else yaml.safe_dump(entry, sort_keys=False, allow_unicode=False)
