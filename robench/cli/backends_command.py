"""``robench backends``: libraries whose attacks robench can run, and environments for those that need their own."""

from __future__ import annotations

import click

from robench.attacks.backends.installed import LIBRARIES, RELEASES, check_installed, environment_of, install, release_of
from robench.cli.options import json_option
from robench.cli.terminal import out, out_json, out_table, say
from robench.core.errors import UnknownNameError, UsageError


@click.group("backends")
def command() -> None:
    """List libraries of attacks, and install those that need an environment of their own."""


@command.command("list")
@json_option
def list_backends(as_json: bool) -> int:
    """List the libraries: package, installed version, and the command that installs it."""
    entries = [
        {"name": name, "package": package, "version": _version_of(name, package), "install": line}
        for name, (package, line) in LIBRARIES.items()
    ]
    if as_json:
        out_json(entries)
        return 0
    rows = [[str(entry["name"]), entry["version"] or "not installed", str(entry["install"])] for entry in entries]
    out_table(["backend", "version", "install"], rows)
    return 0


@command.command("install")
@click.argument("name")
def install_backend(name: str) -> int:
    """Install backend NAME into an environment of its own, below ROBENCH_BACKENDS or ~/.cache/robench/backends.

    pip downloads its packages, by their digests; robench's own torch serves it. Exits with 2 if that fails.
    """
    if name not in LIBRARIES:
        raise UnknownNameError("backend", name, LIBRARIES)
    if name not in RELEASES:
        raise UsageError(f"backend {name} is installed beside robench: {LIBRARIES[name][1]}")
    say(f"installing {name} {RELEASES[name]} into {environment_of(name)}")
    out(f"{name} {RELEASES[name]} is in {install(name)}")
    return 0


def _version_of(name: str, package: str) -> str | None:
    try:
        check_installed(name)
    except UsageError:
        return None
    return release_of(name)[package]
