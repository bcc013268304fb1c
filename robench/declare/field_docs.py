"""Descriptions of fields from the docstrings of their classes."""

from __future__ import annotations

import inspect
import re

# An attribute, or several, at the start of a line of the section.
_ENTRY = re.compile(r"([a-z_][a-z0-9_]*(?:, [a-z_][a-z0-9_]*)*): (.*)")


def field_docs(declared: type) -> dict[str, str]:
    """Return the description of each field under ``Attributes:`` of a class or its bases, in one line.

    >>> class Example:
    ...     '''Summary.
    ...
    ...     Attributes:
    ...         mean, std: per channel; in
    ...             pixel units.
    ...     '''
    >>> field_docs(Example)
    {'mean': 'per channel; in pixel units.', 'std': 'per channel; in pixel units.'}
    """
    found: dict[str, str] = {}
    for base in reversed(declared.__mro__):
        found |= _of_text(inspect.cleandoc(base.__doc__ or ""))
    return found


def _of_text(text: str) -> dict[str, str]:
    _, heading, section = text.partition("Attributes:\n")
    found: dict[str, str] = {}
    if not heading:
        return found
    names: list[str] = []
    for line in section.splitlines():
        if line and not line.startswith(" "):
            break
        content = line.strip()
        is_first = line.startswith("    ") and not line.startswith("     ")
        if is_first and (entry := _ENTRY.fullmatch(content)):
            names = entry[1].split(", ")
            content = entry[2]
            found |= dict.fromkeys(names, "")
        found |= {name: f"{found[name]} {content}".strip() for name in names}
    return found
