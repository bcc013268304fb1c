"""``robench new``: the files of a working plug-in, to be changed by its author."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from robench.cli.options import AbsolutePath, json_option, option
from robench.cli.plugin_templates import (
    FAMILIES,
    NewPlugin,
    checkout_above,
    own_checkout,
    plugin_as_distribution,
    plugin_in_repository,
)
from robench.cli.terminal import out, out_json
from robench.core.errors import UsageError


@click.command("new")
@click.argument("family", type=click.Choice(FAMILIES))
@click.argument("name")
@option("--in-repository", is_flag=True, help="Write into robench's own checkout; the default inside it.")
@option("--output", type=AbsolutePath(), metavar="DIR", help="Write a distribution into DIR; default: robench-NAME.")
@json_option
def command(family: str, name: str, in_repository: bool, output: Path | None, as_json: bool) -> int:
    """Write the files of a working plug-in: in robench's repository, or as a distribution of its own.

    The new plug-in computes something simple and passes its contract check at once. Change it from there.

    \b
    robench new attack my-attack --output my-attack
    """  # noqa: D301  # click keeps the lines after a real \b as they are
    if in_repository and output is not None:
        raise UsageError("--in-repository and --output exclude each other: give one of them")
    checkout = None if output is not None else checkout_above(Path.cwd())
    if in_repository and checkout is None:
        checkout = own_checkout()
        if checkout is None:
            raise UsageError("--in-repository needs a checkout of robench: run this in one, or give --output DIR")
    if checkout is not None:
        plugin = plugin_in_repository(family, name, checkout)
    else:
        plugin = plugin_as_distribution(family, name, output or Path.cwd() / f"robench-{name}")
    plugin.write()
    steps = _steps(plugin, checkout is not None)
    if as_json:
        out_json({"family": family, "kind": plugin.kind, **_paths(plugin), "by_hand": plugin.by_hand, "next": steps})
        return 0
    out(*(f"wrote {plugin.root / path}" for path in plugin.files))
    out(*(f"added to {plugin.root / path}" for path in plugin.changed))
    out(*(f"add by hand to {plugin.root / path}: {line}" for path, line in plugin.by_hand))
    out("", "Next:", *(f"- {step}" for step in steps))
    return 0


def _paths(plugin: NewPlugin) -> dict[str, list[str]]:
    written, changed = ([str(plugin.root / path) for path in paths] for paths in (plugin.files, plugin.changed))
    return {"written": written, "changed": changed}


def _steps(plugin: NewPlugin, in_repository: bool) -> list[str]:
    """Return the next steps of the author."""
    if in_repository:
        return [
            f"test it: python -m pytest {' '.join(plugin.tests)} -k {shlex.quote(plugin.kind)}",
            "change the declaration, the implementation and their docstrings",
            *plugin.steps,
            "make generated",
        ]
    folder = shlex.quote(str(plugin.root))
    return [
        f"install it: pip install --editable {folder}",
        f"test it: python -m pytest {folder}/tests",
        "change the declaration, the implementation and their docstrings",
        f"name it {plugin.usage}",
    ]
