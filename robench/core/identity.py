"""Stable identities: a declaration has the same key on every machine and in every release.

Fields at their default are left out, so that a field added later changes no existing key. A declaration whose
implementation changed its numbers raises its class variable ``version``, which is part of the key. Keys of another
distribution's declarations contain its name; those of the user's own code contain its digest.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from fractions import Fraction

from robench.core.providers import is_own, provider_of

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]


def to_plain(value: object) -> Plain:
    """Convert a declaration to JSON values: dataclasses become mappings, fractions become text such as ``8/255``.

    Raises:
        TypeError: the value has no stable identity (a function, a tensor, an open file).
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain_dataclass(value)
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): to_plain(item) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_plain(item) for item in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise TypeError(f"{value!r} of type {type(value).__name__} has no stable identity")


def key_of(value: object) -> str:
    """Return 32 hexadecimal digits that change if and only if the plain form of ``value`` changes."""
    text = json.dumps(to_plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _plain_dataclass(value: object) -> dict[str, Plain]:
    plain: dict[str, Plain] = {}
    for name in ("kind", "version"):
        marker = getattr(type(value), name, None)
        if isinstance(marker, (str, int)) and (name, marker) != ("version", 1):
            plain[name] = marker
    for field in dataclasses.fields(value):  # type: ignore[arg-type]  # to_plain has checked it
        item = getattr(value, field.name)
        if not _is_default(field, item):
            plain[field.name] = to_plain(item)
    # Only dataclasses with an implementation are declarations.
    if not is_own(type(value)) and hasattr(type(value), "implemented") and (provider := provider_of(value)):
        plain |= provider.identity
    return plain


def _is_default(field: dataclasses.Field[object], item: object) -> bool:
    if field.default is not dataclasses.MISSING:
        # 1 is not True, but a fraction is the same number however it is written.
        are_fractions = isinstance(item, Fraction) and isinstance(field.default, Fraction)
        return (are_fractions or type(item) is type(field.default)) and item == field.default
    if field.default_factory is not dataclasses.MISSING:
        return item == field.default_factory()
    return False
