"""Settings of attention mechanisms at which tests run: a few in ``make test``, all in tests/slow."""

from collections.abc import Iterable
from dataclasses import fields

from robench.attention.base import AttentionBase
from robench.core.declared import Declaration
from robench.core.identity import to_plain


def title(declaration: Declaration) -> str:
    """Return its fields as an id of a test."""
    plain = to_plain(declaration)
    assert isinstance(plain, dict)
    return "-".join(str(value) for name, value in plain.items() if name != "layers")


def one_per_form(declarations: Iterable[AttentionBase]) -> list[AttentionBase]:
    """Return the last of all declarations that differ in numbers alone: formulas and switches choose code."""
    found = {}
    for declaration in declarations:
        values = [getattr(declaration, field.name) for field in fields(declaration)]
        found[declaration.kind, *(str(value) for value in values if isinstance(value, str | bool))] = declaration
    return list(found.values())


def one_per_kind(declarations: Iterable[AttentionBase]) -> list[AttentionBase]:
    """Return the last declaration of each kind, which has the most iterations where there are any."""
    return list({declaration.kind: declaration for declaration in declarations}.values())
