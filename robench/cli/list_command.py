"""``robench list``: names of models, suites and plug-ins, by kind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from robench.cli.catalogue import CATALOGUE
from robench.cli.options import json_option, option, registry_option
from robench.cli.terminal import out_json, out_table

if TYPE_CHECKING:
    from collections.abc import Sequence


_COLUMNS = ("name", "summary")
# Smaller families are shorter as they are.
_LEAST_FOLDED = 5


@click.command("list")
@click.argument("kind", type=click.Choice(list(CATALOGUE)))
@option("--all", "show_all", is_flag=True, help="A row for each member of a large family such as imagenet-c/TYPE/1.")
@registry_option
@json_option
def command(kind: str, show_all: bool, registries: tuple[Path, ...], as_json: bool) -> int:
    """List all models, suites, or plug-ins of a family, including those of other distributions.

    Families of many names that differ after a slash are one row each, unless --all is given; --json has every name.
    """
    entries = CATALOGUE[kind](registries)
    if as_json:
        out_json(entries)
        return 0
    rows = [tuple(str(entry[column]) for column in _COLUMNS) for entry in entries]
    out_table(_COLUMNS, rows if show_all else _folded(rows))
    return 0


def _folded(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return one row for each large family of names with the same beginning, in place of its first member."""
    families: dict[str, list[str]] = {}
    for name, _ in rows:
        if "/" in name:
            families.setdefault(name.partition("/")[0], []).append(name)
    large = {family: names for family, names in families.items() if len(names) >= _LEAST_FOLDED}
    folded: dict[str, tuple[str, ...]] = {}
    for name, summary in rows:
        names = large.get(name.partition("/")[0], []) if "/" in name else []
        if names:
            folded[_pattern(names)] = (_pattern(names), f"{len(names)}, {names[0]} to {names[-1]}; --all lists them")
        else:
            folded[name] = (name, summary)
    return list(folded.values())


def _pattern(names: Sequence[str]) -> str:
    """Return the parts that all names share, with ``*`` for the others.

    >>> _pattern(["imagenet-c/fog/1", "imagenet-c/fog/2"])
    'imagenet-c/fog/*'
    """
    parts = [name.split("/") for name in names]
    length = min(map(len, parts))
    shared = [each[0] if len(set(each)) == 1 else "*" for each in zip(*(part[:length] for part in parts), strict=True)]
    return "/".join(shared)
