"""Declarations in words: models in one line, and the types of fields as YAML files write them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from fractions import Fraction
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from robench.core.budgets import spelling_of
from robench.declarations.base import DeclarationBase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from robench.core.checkpoint import Checkpoint


def summary_of(checkpoint: Checkpoint) -> str:
    """Return backbone, mechanisms with their settings, variants of training, seed, data and source of a model."""
    training = checkpoint.training
    variant = getattr(training, "variant", "")
    parts = (
        ", ".join(_parts_of(checkpoint.architecture)),
        variant,
        f"seed {training.seed}" if checkpoint.seed_of is not None and training is not None else "",
        checkpoint.training_data,
        checkpoint.source,
    )
    return "; ".join(part for part in parts if part)


def _parts_of(architecture: object) -> Iterator[str]:
    """Yield the kind of a backbone, its first member, others that are not the default, and settings given in words."""
    yield str(getattr(architecture, "kind", ""))
    # The first member, attention, is what most entries differ in.
    is_first = True
    for name, value, is_default in _fields_of(architecture):
        if isinstance(value, DeclarationBase):
            settings = ", ".join(
                f"{below} {_shown(setting)}" for below, setting, is_usual in _fields_of(value) if not is_usual
            )
            if settings or not is_default or is_first:
                yield f"{name} {value.kind}{f' ({settings})' if settings else ''}"
            is_first = False
        elif isinstance(value, str | bool) and not is_default:
            yield f"{name} {_shown(value)}"


def _fields_of(declaration: object) -> list[tuple[str, object, bool]]:
    """Return name and value of each field, and whether the value is the default one."""
    if not dataclasses.is_dataclass(declaration):
        return []
    found = []
    for field in dataclasses.fields(declaration):
        default: object = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        value = getattr(declaration, field.name)
        found.append((field.name, value, value == default))
    return found


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return "+".join(map(_shown, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, DeclarationBase):
        return value.kind
    if isinstance(value, Fraction):
        return spelling_of(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


# Any: annotations have no common type.
def type_in_words(hint: Any) -> str:
    """Return the values that a field of an annotated type takes in a file.

    >>> type_in_words(tuple[Fraction, ...]), type_in_words(Literal["best", "last"] | None)
    ('list of fraction', 'best | last | null')
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return type_in_words(arguments[0])
    if origin is Literal:
        return " | ".join(map(str, arguments))
    if origin in (Union, UnionType):
        return " | ".join(map(type_in_words, arguments))
    if origin is tuple:
        items = dict.fromkeys(type_in_words(each) for each in arguments if each is not Ellipsis)
        return f"list of {' or '.join(items)}"
    if origin is Mapping:
        return f"mapping from {type_in_words(arguments[0])} to {type_in_words(arguments[1])}"
    return _of_class(hint)


def _of_class(hint: Any) -> str:
    if hint is NoneType:
        return "null"
    if hint is Fraction:
        return "fraction"
    if not isinstance(hint, type):
        return str(hint)
    if issubclass(hint, DeclarationBase):
        return "mapping with kind"
    return "mapping" if dataclasses.is_dataclass(hint) else hint.__name__
