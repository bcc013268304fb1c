"""Declarations from assignments such as ``gpus_per_worker=0.5``, as a command line has them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypeVar, get_args, get_type_hints

from pydantic import ValidationError

from robench.core.errors import UsageError
from robench.declare.schema import construct
from robench.declare.values import UNREADABLE, show
from robench.declare.yaml_source import plain_scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robench.declarations.base import DeclarationBase

T = TypeVar("T", bound="DeclarationBase")


def assigned(declared: type[T], assignments: Sequence[str], option: str) -> T:
    """Return a declaration with the fields that texts of the form ``NAME=VALUE`` give it.

    Values are read as in YAML files, except that those of text fields need no quotes.

    Args:
        declared: class of the declaration.
        assignments: one a field.
        option: what the assignments were given by, for messages.

    Raises:
        UsageError: an assignment has another form, no such field, or an invalid value; all fields are listed.
    """
    hints = get_type_hints(declared)
    names = [field.name for field in dataclasses.fields(declared)]  # type: ignore[arg-type]  # as all declarations are
    known = f"it has {', '.join(names)}" if names else "it has none"
    values: dict[str, object] = {}
    for text in assignments:
        name, mark, value = text.partition("=")
        if not mark:
            raise UsageError(f"{option} {show(text)} must be NAME=VALUE; executor {declared.kind}: {known}")
        if name not in names:
            raise UsageError(f"{option}: executor {declared.kind} has no field {show(name)}; {known}")
        if name in values:
            raise UsageError(f"{option} gives {name} twice; leave one out")
        values[name] = value if str in (hints[name], *get_args(hints[name])) else plain_scalar(value)
        if values[name] is UNREADABLE:
            raise UsageError(f"{option} {name} must be a plain number or word, got {show(value)}")
    try:
        return construct(declared, values)
    except ValidationError as error:
        problems = (f"{'.'.join(map(str, each['loc']))} {each['msg']}".strip() for each in error.errors())
        raise UsageError(*(f"{option}: executor {declared.kind}: {problem}" for problem in problems)) from None
