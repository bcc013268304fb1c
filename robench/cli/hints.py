"""Commands that messages suggest, with the options of the command that prints them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from robench.core.files import is_file_name

if TYPE_CHECKING:
    pass

# Options that say which measurements a command is about, by their parameters.
_REPEATED = {
    "suites": "--suite",
    "dataset": "--dataset",
    "all_examples": "--all-examples",
    "registries": "--registry",
    "seed": "--seed",
    "all_seeds": "--all-seeds",
    "precision": "--precision",
    "results": "--results",
}


def run_command(*further: str, suite: str | None = None) -> str:
    """Return the ``robench run`` that measures what the current command lacks, with ``further`` words at the end.

    ``suite`` is the only suite to name, as given; None means all suites of the current command.
    """
    return shlex.join(["robench", "run", *_repeated(suite), "--model", "NAME", *further])


def same_command(*further: str, suite: str | None = None) -> str:
    """Return the current command for the same measurements, with further words at the end."""
    context = click.get_current_context()
    models = [word for model in context.params.get("models", ()) for word in ("--model", model)]
    return shlex.join([*context.command_path.split(), *_repeated(suite), *models, *further])


def _repeated(suite: str | None) -> list[str]:
    """Return the options of the current command that belong in every command about the same measurements."""
    context = click.get_current_context()
    words: list[str] = []
    for name, flag in _REPEATED.items():
        value = context.params.get(name)
        if name == "suites" and suite is not None:
            value = (suite,)
        # A default, here a folder's name, was made absolute too.
        if value in (None, False) or context.get_parameter_source(name) is ParameterSource.DEFAULT:
            continue
        if value is True:
            words.append(flag)
            continue
        for each in value if isinstance(value, tuple) else (value,):
            text = shown(each) if isinstance(each, str | Path) else str(each)
            # Without a suffix or a slash it would be the name of a shipped suite.
            is_lost = name == "suites" and is_file_name(str(each)) and not is_file_name(text)
            words += [flag, f"./{text}" if is_lost else text]
    return words


def shown(given: str | Path) -> str:
    """Return a name as it is, and an absolute path relative to the current folder if it is below it.

    >>> shown("digits-adv"), shown(Path.cwd() / "mine.yaml")
    ('digits-adv', 'mine.yaml')
    """
    path = Path(given)
    try:
        return str(path.relative_to(Path.cwd())) if path.is_absolute() else str(given)
    except (OSError, ValueError):
        return str(given)
