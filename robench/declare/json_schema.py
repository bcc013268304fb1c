"""JSON Schemas (draft 2020-12) of suite, registry and leaderboard files, from the declarations that validate them.

Editors complete and check files with them. They hold the shape alone: fields, types, bounds and choices of robench's
own members. Names that plug-ins may add (kinds, metrics, datasets) are open, relations between fields are not checked,
and text such as ``8/255`` has no bounds; ``robench validate`` checks all of it.
"""

import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import annotated_types

from robench.attacks.base import BoundedAttack
from robench.core.checkpoint import Weights
from robench.core.plugins import USER_CODE, Plugins
from robench.declarations.base import Argument, DeclarationBase
from robench.declare.boards import LeaderboardFile
from robench.declare.fields import FRACTION_PATTERN, NAME_PATTERN, Name, ReadBy, WeightsEntry
from robench.declare.members import TARGET, metric_name
from robench.declare.registry import CheckpointEntry, RegistryEntry
from robench.declare.schema import FAMILIES, Family, longest_of
from robench.declare.shipped import MERGED
from robench.declare.suites import SuiteEntry
from robench.declare.sweeps import SweepEntry
from robench.metrics import METRICS

Schema = dict[str, Any]
DRAFT = "https://json-schema.org/draft/2020-12/schema"
FILES: Mapping[str, tuple[type, str]] = {
    "suite": (SuiteEntry, "Suite of robench: conditions, and the metrics of its report"),
    "registry": (RegistryEntry, "Registry of robench: checkpoints and datasets by name"),
    "leaderboard": (LeaderboardFile, "Leaderboard of robench: title, first columns, order of rows and note"),
}
_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
# An attribute, or several, at the start of a line of the section.
_ENTRY = re.compile(r"([a-z_][a-z0-9_]*(?:, [a-z_][a-z0-9_]*)*): (.*)")
_NULL: Schema = {"type": "null"}


def json_schema(kind: str) -> Schema:
    """Return the JSON Schema of files of a kind, a key of ``FILES``, as a new JSON value."""
    declared, title = FILES[kind]
    builder = _Builder()
    whole = builder.of_class(declared)
    if kind == "registry":
        # A registry declares something.
        whole["anyOf"] = [{"required": [each.name]} for each in dataclasses.fields(declared)]
    return {"$schema": DRAFT, "title": title, **whole, "$defs": dict(sorted(builder.definitions.items()))}


class _Builder:
    """Schemas of annotations; those of classes and families become definitions, each once."""

    def __init__(self) -> None:
        self.definitions: dict[str, Schema] = {}

    def of_class(self, declared: type, *, sweeps: bool = False, tags: tuple[str, ...] = ()) -> Schema:
        """Return the schema of a mapping with the fields of a dataclass, and the tags that name its kind."""
        properties = dict.fromkeys(tags, True) | self._properties(declared)
        fixed = _fixed_by_a_choice(declared)
        required = [
            each.name
            for each in dataclasses.fields(declared)
            if each.default is each.default_factory is dataclasses.MISSING and each.name not in fixed
        ]
        schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
        if issubclass(declared, BoundedAttack):
            is_required = "epsilon" in required
            required = [name for name in required if name != "epsilon"]
            if sweeps:
                schema |= self._sweep(properties, is_required=is_required)
        if declared is CheckpointEntry:
            inherited = [name for name in required if name != "weights"]
            whole = [{"required": inherited}, {"required": ["of"]}, {"required": ["like"]}]
            schema["anyOf"] = [{"required": ["weights"], "anyOf": whole}, {"required": ["smoothed"]}]
            required = []
            schema |= self._partial_with_like(properties)
        if required:
            schema["required"] = required
        return schema

    def _properties(self, declared: type) -> Schema:
        hints, docs = get_type_hints(declared, include_extras=True), field_docs(declared)
        names = [field.name for field in dataclasses.fields(declared)]
        return {name: self.of(hints[name], name) | _described(docs.get(name)) for name in names}

    def _sweep(self, properties: Schema, *, is_required: bool) -> Schema:
        """Add the fields of a sweep; return that one budget or several are given, or none if it is not required."""
        own = self._properties(SweepEntry)
        properties |= own
        several, *others = own
        given = [{"required": ["epsilon"]}, {"required": [several]}]
        either = given if is_required else [*given, {"not": {"anyOf": given}}]
        return {"oneOf": either, "dependentRequired": {name: [several] for name in others}}

    def _partial_with_like(self, properties: Schema) -> Schema:
        """Replace the fields whose rest an entry with ``like`` takes; return that they are whole in other entries."""
        whole = {name: properties[name] for name in MERGED}
        properties |= dict.fromkeys(MERGED, True)
        parts = {name: self._family(name) for name in ("attention", "residual")}
        partial = {"architecture": {"type": "object", "properties": parts}, "training": {"type": ["object", "null"]}}
        return {"if": {"required": ["like"]}, "then": {"properties": partial}, "else": {"properties": whole}}

    # Any: annotations have no common type.
    def of(self, hint: Any, name: str, marks: tuple[object, ...] = ()) -> Schema:
        """Return the schema of an annotation of the field ``name``."""
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self.of(arguments[0], name, (*marks, *arguments[1:]))
        if any(isinstance(mark, ReadBy) and mark.read is metric_name for mark in marks):
            return _metric()
        if hint in _SCALARS:
            names = {"pattern": NAME_PATTERN} if set(get_args(Name)[1:]) & set(marks) else {}
            return _SCALARS[hint](_bounds_of(marks)) | names
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin in (Union, UnionType):
            return {"anyOf": [self.of(each, name, () if each is NoneType else marks) for each in arguments]}
        if origin is tuple:
            return self._list(arguments, name, marks)
        if origin is Mapping:
            return self._mapping(arguments, name, marks)
        return self._of_type(hint, name)

    def _of_type(self, hint: type, name: str) -> Schema:
        if hint is NoneType:
            return dict(_NULL)
        if issubclass(hint, DeclarationBase) and not dataclasses.is_dataclass(hint):
            return self._family(name)
        declared = WeightsEntry if hint is Weights else hint
        return self._defined(declared.__name__, lambda: self.of_class(declared))

    def _list(self, entries: tuple[Any, ...], name: str, marks: tuple[object, ...]) -> Schema:
        if entries[-1] is not Ellipsis:
            prefix = [self.of(each, name) for each in entries]
            return {"type": "array", "prefixItems": prefix, "minItems": len(prefix), "maxItems": len(prefix)}
        shortest = max((mark.min_length for mark in marks if isinstance(mark, annotated_types.MinLen)), default=0)
        return {
            "type": "array",
            "items": self.of(entries[0], name),
            "minItems": shortest,
            "maxItems": longest_of(marks),
        }

    def _mapping(self, arguments: tuple[Any, ...], name: str, marks: tuple[object, ...]) -> Schema:
        key, item = arguments
        names = {"propertyNames": {"pattern": NAME_PATTERN}} if key == Name else {}
        values = self.of(item, name)
        return {"type": "object", **names, "additionalProperties": values, "maxProperties": longest_of(marks)}

    def _family(self, name: str) -> Schema:
        return self._defined(name, lambda: self._family_of(FAMILIES[name]))

    def _family_of(self, family: Family) -> Schema:
        """Return the schema of a member of a family; what an unknown kind takes is its plug-in's."""
        tags = tuple(tag for tag in (family.tag, family.alias) if tag is not None)
        members = family.members.builtin if isinstance(family.members, Plugins) else family.members
        kinds: Schema = {"anyOf": [{"enum": sorted(members)}, {"type": "string"}]}
        chosen: list[Schema] = []
        for kind, declared in sorted(members.items()):
            key = f"{family.noun}:{kind}{':sweep' if family.sweeps else ''}"
            then = self._defined(key, lambda each=declared: self._member(each, family, tags))  # type: ignore[misc]  # mypy infers no type of a lambda with a default
            for tag in tags:
                is_kind = {"properties": {tag: {"const": kind}}, "required": [tag]}
                chosen.append({"if": is_kind, "then": then})
        if family.untagged is not None:
            kind = next(kind for kind, declared in members.items() if declared is family.untagged)
            key = f"{family.noun}:{kind}"
            chosen.append({"if": {"not": {"required": [family.tag]}}, "then": {"$ref": _pointer(key)}})
        schema: Schema = {"type": "object", "properties": dict.fromkeys(tags, kinds), "allOf": chosen}
        if family.untagged is None:
            schema |= {"oneOf": [{"required": [tag]} for tag in tags]} if len(tags) > 1 else {"required": list(tags)}
        return schema

    def _member(self, declared: type[DeclarationBase], family: Family, tags: tuple[str, ...]) -> Schema:
        text = (declared.__doc__ or "").partition("\n\n")[0]
        return _described(" ".join(text.split())) | self.of_class(declared, sweeps=family.sweeps, tags=tags)

    def _defined(self, name: str, build: Callable[[], Schema]) -> Schema:
        """Return a reference to a definition, which is built once."""
        if name not in self.definitions:
            # Families may contain themselves.
            self.definitions[name] = {}
            self.definitions[name] = build()
        return {"$ref": _pointer(name)}


def _pointer(name: str) -> str:
    return f"#/$defs/{name.replace('~', '~0').replace('/', '~1').replace(' ', '%20')}"


def _fixed_by_a_choice(declared: type) -> set[str]:
    """Return the fields that may be left out with one of the values of another field."""
    if not issubclass(declared, DeclarationBase):
        return set()
    hints = get_type_hints(declared)
    choices = {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Literal}
    return {each for name, values in choices.items() for value in values for each in declared.implied_by({name: value})}


def _bounds_of(marks: tuple[object, ...]) -> Schema:
    return {
        keyword: float(limit) if isinstance(limit, Fraction) else limit
        for mark in marks
        for name, keyword in _BOUNDS.items()
        if (limit := getattr(mark, name, None)) is not None
    }


def _metric() -> Schema:
    own = {"type": "object", "properties": {"kind": {"const": USER_CODE}, TARGET: {"type": "string"}}}
    target = {**own, "required": ["kind", TARGET], "additionalProperties": False}
    return {"anyOf": [{"enum": sorted(METRICS.builtin)}, {"type": "string"}, target]}


def _described(text: str | None) -> Schema:
    return {"description": text} if text else {}


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


_SCALARS: Mapping[object, Callable[[Schema], Schema]] = {
    bool: lambda bounds: {"type": "boolean"},
    int: lambda bounds: {"type": "integer", **bounds},
    float: lambda bounds: {"type": "number", **bounds},
    str: lambda bounds: {"type": "string"},
    Fraction: lambda bounds: {
        "anyOf": [{"type": "number", **bounds}, {"type": "string", "pattern": f"^{FRACTION_PATTERN}$"}]
    },
    Argument: lambda bounds: {"type": ["string", "number", "boolean", "null"]},
}
