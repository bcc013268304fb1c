"""Shell-style patterns in names of models, such as ``digits-*``: ``*``, ``?`` and ``[...]``, as in file names."""

from __future__ import annotations

from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from robench.core.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from robench.core.protocols import Store

_WILD = "*?["
# Separates the name of an entry from one of its further training seeds.
_SEED = "@"


def expanded(names: Iterable[str], known: Callable[[], Iterable[str]], noun: str = "model") -> list[str]:
    """Return names with each pattern replaced by what it matches; in order, each once.

    Further training seeds (``digits-vit@1``) match only patterns with an ``@``.

    Args:
        names: names, returned as they are even if unknown, and patterns.
        known: function that returns the names to match, called only if there is a pattern.
        noun: noun for messages.

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


def models_of_registry(names: Sequence[str], registries: Sequence[Path]) -> list[str]:
    """Return names of models with patterns replaced by the entries of the registry that they match.

    Raises:
        UnknownNameError: a pattern matches nothing.
        UsageError, DeclarationError: a registry file cannot be read.
    """
    # Imported here, so that help is fast.
    from robench.declare import read_registries

    return expanded(names, lambda: read_registries(registries))


def model_of_registry(name: str, registries: Sequence[Path]) -> str:
    """Return the only model that a name or pattern stands for; raises like ``models_of_registry``.

    Raises:
        UsageError: it stands for several.
    """
    found = models_of_registry([name], registries)
    if len(found) > 1:
        shown = ", ".join(found[:3]) + (", ..." if len(found) > 3 else "")
        raise UsageError(f"{name!r} matches {len(found)} models ({shown}), but this command takes one")
    return found[0]


def models_of_results(names: Sequence[str], store: Store) -> list[str]:
    """Return names of models with patterns replaced by the models with results that they match.

    Raises:
        UnknownNameError: a pattern matches nothing.
        StoreError: a file cannot be read, or is of a later robench.
    """

    def known() -> list[str]:
        headers = [*(each.shard for each in store.manifests()), *(each.shard for each in store.failures())]
        return sorted({header.checkpoint for header in headers})

    return expanded(names, known, "model with results")


def _matched(pattern: str, known: Iterable[str]) -> list[str]:
    return [name for name in known if (_SEED in pattern or _SEED not in name) and fnmatchcase(name, pattern)]


def _no_match(noun: str, pattern: str, known: Sequence[str]) -> UnknownNameError:
    """Return the error with a pattern that does match, if a literal beginning is misspelt, or a similar name."""
    start = min(pattern.index(character) for character in _WILD if character in pattern)
    beginnings = {name[:length] for name in known for length in range(max(start - 1, 1), start + 2)}
    close = get_close_matches(pattern[:start], sorted(beginnings), n=5)
    others = [f"{beginning}{pattern[start:]}" for beginning in close]
    matching = [other for other in others if _matched(other, known)]
    return UnknownNameError(noun, pattern, matching[:1] or known)
