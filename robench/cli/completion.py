"""Completion of names in shells: suites, models, datasets and conditions.

Click calls these functions when a shell asks for completions. Nothing may be printed or raised then, so that names that
cannot be read (a broken registry file, an unknown suite) are left out.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem

from robench.core.errors import RobenchError
from robench.core.files import is_file_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    import click


def complete_suites(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return shipped suites, or let the shell complete the path of a file."""
    if is_file_name(incomplete) or incomplete.startswith((".", "~")):
        return [CompletionItem(incomplete, type="file")]
    from robench.declare import shipped_suites

    return beginning_with(incomplete, shipped_suites()) or [CompletionItem(incomplete, type="file")]


def complete_models(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return entries of the registry and of registry files; further training seeds after an ``@``."""
    from robench.declare import shipped_registry

    names: list[str] = []
    for path in (shipped_registry(), *given_registries(context)):
        with suppress(RobenchError):
            names += _names_of_models(path, seeds="@" in incomplete)
    return beginning_with(incomplete, names)


def complete_datasets(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return datasets, also of registry files."""
    from robench.declare import find_datasets

    with suppress(RobenchError):
        return beginning_with(incomplete, find_datasets(given_registries(context)))
    return []


def complete_conditions(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the conditions of the suites that stand before on the command line."""
    from robench.declare import find_suite

    given = context.params.get("suites") or context.params.get("suite") or ()
    names: list[str] = []
    for suite in [given] if isinstance(given, str) else given:
        with suppress(RobenchError):
            names += [condition.name for condition in find_suite(suite).conditions]
    return beginning_with(incomplete, names)


def _names_of_models(path: Path, *, seeds: bool) -> Iterable[str]:
    """Yield the names in a registry file, whose entries are not read otherwise, since that takes longer."""
    from robench.declare.yaml_source import read_yaml

    document = read_yaml(path)
    for name in document.mapping_at("checkpoints"):
        yield str(name)
        places = range(len(document.list_at("checkpoints", name, "seeds"))) if seeds else ()
        yield from (f"{name}@{document.at('checkpoints', name, 'seeds', index, 'seed')}" for index in places)


def given_registries(context: click.Context) -> Sequence[Path]:
    """Return the registry files before on the command line."""
    found: Sequence[Path] = context.params.get("registries") or ()
    return found


def beginning_with(incomplete: str, names: Iterable[str]) -> list[CompletionItem]:
    """Return completions of the names that begin so and are printable."""
    # A shell would read other characters as part of its own syntax, and no name has any.
    shown = (name for name in dict.fromkeys(names) if name.startswith(incomplete) and name.isprintable())
    return [CompletionItem(name) for name in shown]
