"""Types of declared fields in the words of YAML files."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from fractions import Fraction
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from robench.declarations.base import DeclarationBase


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
