"""Names and commands on the command line: completion in shells, patterns such as ``digits-*``, and suggested commands.

Click calls the functions of completion when a shell asks for it. Nothing may be printed or raised then, so that names
that cannot be read (a broken registry file, an unknown suite) are left out. Patterns have ``*``, ``?`` and ``[...]``,
as in file names. Messages suggest commands with the options of the command that prints them.
"""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from robench.cli.terminal import say
from robench.core.checkpoint import SEED_MARK
from robench.core.errors import RobenchError, UnknownNameError, UsageError
from robench.core.files import is_file_name, open_regular
from robench.core.protocols import Store
from robench.core.suite import Suite

_WILD = "*?["
# Before a condition, or a pattern of some, that is left out.
_WITHOUT = "!"


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
        # Anything may be wrong with a file that is not checked.
        with suppress(Exception):
            names += _names_of_models(path, seeds="@" in incomplete)
    return beginning_with(incomplete, names)


def complete_datasets(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return datasets, also of registry files."""
    from robench.declare import find_datasets

    with suppress(RobenchError):
        return beginning_with(incomplete, find_datasets(given_registries(context)))
    return []


def complete_conditions(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the conditions of the suites given earlier on the command line."""
    from robench.declare import find_suite

    names: list[str] = []
    for suite in context.params.get("suites") or ():
        with suppress(RobenchError):
            names += [condition.name for condition in find_suite(suite).conditions]
    return beginning_with(incomplete, names)


def _names_of_models(path: Path, *, seeds: bool) -> Iterable[str]:
    """Yield the names in a registry file, which libyaml reads ten times as fast as the reader that checks it."""
    import yaml

    with open_regular(path) as file:
        entries = yaml.load(file, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))["checkpoints"]
    for name, entry in entries.items():
        yield from (name, *(f"{name}@{each['seed']}" for each in (entry.get("seeds", ()) if seeds else ())))


def given_registries(context: click.Context) -> Sequence[Path]:
    """Return the registry files before on the command line."""
    found: Sequence[Path] = context.params.get("registries") or ()
    return found


def beginning_with(incomplete: str, names: Iterable[str]) -> list[CompletionItem]:
    """Return completions of the names that begin so and are printable."""
    # A shell would read other characters as part of its own syntax, and no name has any.
    shown = (name for name in dict.fromkeys(names) if name.startswith(incomplete) and name.isprintable())
    return [CompletionItem(name) for name in shown]


def expanded(names: Iterable[str], known: Callable[[], Iterable[str]], noun: str = "model") -> list[str]:
    """Return names with each pattern replaced by what it matches; in order, each once.

    Further training seeds (``digits-vit@1``) match only patterns with an ``@``. Names are returned even if unknown;
    ``known`` is called only if there is a pattern, and ``noun`` is for messages.

    Raises:
        UnknownNameError: a pattern matches nothing.

    >>> expanded(["b", "a*", "a1"], lambda: ["a1", "a2", "a1@3", "b"])
    ['b', 'a1', 'a2']
    """
    found: dict[str, None] = {}
    listed: list[str] | None = None
    for name in names:
        if not set(_WILD) & set(name):
            found[name] = None
            continue
        listed = list(known()) if listed is None else listed
        # Results of other programs may have names with such characters.
        matched = [name] if name in listed else _matched(name, listed)
        if not matched:
            raise _no_match(noun, name, listed)
        found |= dict.fromkeys(matched)
    return list(found)


def only_conditions(suites: Sequence[Suite], names: Sequence[str]) -> tuple[Suite, ...]:
    """Return the suites with the conditions that names or patterns match; without names, as they are.

    After a ``!``, as in ``!snow*``, they leave conditions out, of the others named or else of all.

    Raises:
        UnknownNameError: a name matches no condition of any suite.
        UsageError: a suite has none of the conditions, or no column that reads them alone.
    """
    if not names:
        return tuple(suites)
    known = list(dict.fromkeys(condition.name for suite in suites for condition in suite.conditions))
    left_out = [name[1:] for name in names if name.startswith(_WITHOUT)]
    taken = [name for name in names if not name.startswith(_WITHOUT)] or known
    chosen, removed = (set(expanded(each, lambda: known, "condition")) for each in (taken, left_out))
    for name in sorted((chosen | removed).difference(known)):
        raise UnknownNameError("condition", name, known)
    chosen -= removed
    for suite in suites:
        if chosen.isdisjoint(condition.name for condition in suite.conditions):
            raise UsageError(
                f"suite {suite.name!r} has none of the conditions {', '.join(names)}; leave one of them out"
            )
    return tuple(suite.only([each.name for each in suite.conditions if each.name in chosen]) for suite in suites)


def models_of_registry(names: Sequence[str], registries: Sequence[Path]) -> list[str]:
    """Return names of models with patterns replaced by the entries of the registry that match; see ``expanded``."""
    from robench.declare import read_registries

    return expanded(names, lambda: read_registries(registries))


def model_of_registry(name: str, registries: Sequence[Path]) -> str:
    """Return the only model that a name or pattern matches; raises UsageError for several matches."""
    found = models_of_registry([name], registries)
    if len(found) > 1:
        shown = ", ".join(found[:3]) + (", ..." if len(found) > 3 else "")
        raise UsageError(f"{name!r} matches {len(found)} models ({shown}), but this command takes one")
    return found[0]


def models_of_results(names: Sequence[str], store: Store) -> list[str]:
    """Return names of models with patterns replaced by the models with results that they match; see ``expanded``."""

    def known() -> list[str]:
        headers = [*(each.shard for each in store.manifests()), *(each.shard for each in store.failures())]
        return sorted({header.checkpoint for header in headers})

    return expanded(names, known, "model with results")


def _matched(pattern: str, known: Iterable[str]) -> list[str]:
    return [name for name in known if (SEED_MARK in pattern or SEED_MARK not in name) and fnmatchcase(name, pattern)]


def _no_match(noun: str, pattern: str, known: Sequence[str]) -> UnknownNameError:
    """Return the error with a pattern that does match, if a literal beginning is misspelt, or a similar name."""
    start = min(pattern.index(character) for character in _WILD if character in pattern)
    beginnings = {name[:length] for name in known for length in range(max(start - 1, 1), start + 2)}
    close = get_close_matches(pattern[:start], sorted(beginnings), n=5)
    others = [f"{beginning}{pattern[start:]}" for beginning in close]
    matching = [other for other in others if _matched(other, known)]
    return UnknownNameError(noun, pattern, matching[:1] or known)


# Options that say which measurements a command is about, by their parameters.
_REPEATED = {
    "suites": "--suite",
    "dataset": "--dataset",
    "only": "--condition",
    "all_examples": "--all-examples",
    "registries": "--registry",
    "seed": "--seed",
    "all_seeds": "--all-seeds",
    "precision": "--precision",
    "results": "--results",
}


def run_command(*further: str, suite: str | None = None, model: str = "NAME") -> str:
    """Return the ``robench run`` that measures what the current command lacks, with ``further`` words at the end.

    ``suite`` is the only suite to name, as given; None means all suites of the current command.
    """
    return shlex.join(["robench", "run", *_repeated(suite), "--model", model, *further])


def say_limited(limited: Mapping[str, int], suite: str | None = None) -> None:
    """Print which models were left out because they were measured with a limit, and the command that shows them."""
    for limit in sorted(set(limited.values())):
        models = [model for model, each in limited.items() if each == limit]
        was, again = "was" if len(models) == 1 else "were", same_command("--limit", str(limit), suite=suite)
        say(f"{', '.join(models)} {was} measured with --limit {limit}; add it: {again}")


def same_command(*further: str, suite: str | None = None, command: str | None = None) -> str:
    """Return the current command, or ``command``, for the same measurements, with further words at the end."""
    context = click.get_current_context()
    path = context.command_path.split() if command is None else ["robench", command]
    models = [word for model in context.params.get("models", ()) for word in ("--model", model)]
    return shlex.join([*path, *_repeated(suite), *models, *further])


def _repeated(suite: str | None) -> list[str]:
    """Return the options of the current command that belong in every command about the same measurements."""
    context = click.get_current_context()
    words: list[str] = []
    for name, flag in _REPEATED.items():
        is_given = name == "suites" and suite is not None
        value = (suite,) if is_given else context.params.get(name)
        # A default, here a folder's name, was made absolute too.
        is_default = not is_given and context.get_parameter_source(name) is ParameterSource.DEFAULT
        if is_default or value in (None, False):
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
