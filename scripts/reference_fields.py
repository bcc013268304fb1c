"""Fields of declarations as tables: name, values, default and meaning, read off the classes that check YAML.

Meanings are the lines below ``Attributes:`` in the docstrings of a class and its base classes.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Mapping
from fractions import Fraction
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import annotated_types

from robench.core.identity import to_plain
from robench.declarations.base import Argument
from robench.declare.schema import FAMILIES

SCALARS = {
    bool: "`true` or `false`",
    int: "whole number",
    float: "number",
    str: "text",
    Fraction: "fraction such as `8/255`, or number",
    Argument: "text, number, `true`, `false` or `null`",
}
BOUNDS = (
    (annotated_types.Ge, "ge", "at least"),
    (annotated_types.Gt, "gt", "above"),
    (annotated_types.Le, "le", "at most"),
    (annotated_types.Lt, "lt", "below"),
    (annotated_types.MinLen, "min_length", "at least"),
    (annotated_types.MaxLen, "max_length", "at most"),
)
LENGTHS = (annotated_types.MinLen, annotated_types.MaxLen)
# A line that opens a field: `name: meaning`, or `first, second: meaning`.
OPENING = re.compile(r"^(?P<names>\w+(?:, \w+)*): (?P<text>.*)")
# Within a meaning, the beginning of another field's: `... ``name``: meaning`.
WITHIN = re.compile(r"(?:^|[.;] )``(?P<name>\w+)``: ")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FieldRow:
    """Field of a declaration as a row of a table, in Markdown.

    Attributes:
        values: type, choices and bounds.
        default: default as in YAML; empty for required fields.
    """

    name: str
    values: str
    default: str
    meaning: str

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """Return the cells of the row."""
        return f"`{self.name}`", self.values, self.default or "required", self.meaning


def rows_of(declared: type) -> list[FieldRow]:
    """Return the fields of a dataclass: required ones first, then the class's own."""
    hints, meanings = get_type_hints(declared, include_extras=True), meanings_of(declared)
    fields = dataclasses.fields(declared)
    own = set(vars(declared).get("__annotations__", {}))
    ordered = sorted(fields, key=lambda field: (not _is_required(field), field.name not in own))
    return [
        FieldRow(
            name=field.name,
            values=values_of(hints[field.name], field.name),
            default="" if _is_required(field) else _default(field),
            meaning=meanings.get(field.name, ""),
        )
        for field in ordered
    ]


def meanings_of(declared: type) -> dict[str, str]:
    """Return the meaning of each field that a class or a base class of it documents, in Markdown."""
    found: dict[str, str] = {}
    names = {field.name for field in dataclasses.fields(declared)}
    for cls in reversed(declared.__mro__):
        if "__doc__" in vars(cls):
            found |= _attributes(inspect.cleandoc(cls.__doc__ or ""), names)
    return {name: markdown(text) for name, text in found.items() if name in names}


def summary_of(declared: type) -> str:
    """Return the paragraphs of a class's docstring before its attributes, in Markdown."""
    before = re.split(r"^(?:Attributes|Raises):$", inspect.cleandoc(declared.__doc__ or ""), flags=re.MULTILINE)[0]
    return markdown(before, keeps_paragraphs=True)


def markdown(text: str, *, keeps_paragraphs: bool = False) -> str:
    """Return reStructuredText's inline markup as Markdown's, on one line unless paragraphs are kept."""
    separator = "\n\n" if keeps_paragraphs else " "
    paragraphs = (" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))
    return separator.join(paragraphs).replace("``", "`")


def table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a table in Markdown; vertical bars in cells are escaped."""
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def fields_table(declared: type) -> str:
    """Return the table of a declaration's fields, or a sentence if it has none."""
    rows = [row.cells for row in rows_of(declared)]
    return table(("field", "values", "default", "meaning"), rows) if rows else "It has no fields.\n"


def values_of(hint: Any, name: str = "") -> str:
    """Return a type with its bounds in words; ``name`` is the field's, which says the family of a declaration.

    Any: annotations have no common type.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _bounded(values_of(arguments[0], name), arguments[1:])
    if hint in SCALARS:
        return SCALARS[hint]
    if origin is Literal:
        return _either([f"`{choice}`" for choice in arguments])
    if origin in (Union, UnionType):
        others = [values_of(each, name) for each in arguments if each is not NoneType]
        return _either([*others, *(["`null`"] if NoneType in arguments else [])])
    if origin is tuple:
        items = [values_of(each, name) for each in arguments if each is not Ellipsis]
        return f"list: {items[0]}" if Ellipsis in arguments else f"list of {len(items)}: {items[0]}"
    if origin is Mapping:
        return f"mapping: {values_of(arguments[0], name)} to {values_of(arguments[1], name)}"
    if name in FAMILIES and not dataclasses.is_dataclass(hint):
        return f"{FAMILIES[name].noun}, by its `{FAMILIES[name].tag}`"
    return f"mapping, fields of {_spaced(hint.__name__.removesuffix('Entry'))}"


def _bounded(values: str, marks: tuple[object, ...]) -> str:
    wanted = [
        f"{words} {getattr(mark, field):,}{' of them' if cls in LENGTHS else ''}"
        for cls, field, words in BOUNDS
        for mark in marks
        if isinstance(mark, cls)
    ]
    return f"{values}; {', '.join(wanted)}" if wanted else values


def _either(choices: list[str]) -> str:
    return " or ".join(filter(None, (", ".join(choices[:-1]), choices[-1])))


def _spaced(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def _is_required(field: dataclasses.Field[object]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _default(field: dataclasses.Field[Any]) -> str:
    value = field.default_factory() if field.default is dataclasses.MISSING else field.default
    plain = to_plain(value)
    if isinstance(plain, dict) and "kind" in plain:
        return f"`{plain['kind']}`"
    return {None: "`null`", True: "`true`", False: "`false`", "": "empty text"}.get(
        value if value is None or isinstance(value, bool | str) else "other", f"`{plain}`"
    )


def _attributes(docstring: str, fields: set[str]) -> dict[str, str]:
    """Return the entries of the section ``Attributes``, which ends with its indentation."""
    section = re.search(r"^Attributes:\n((?:    .*\n?|\n)+)", docstring, re.MULTILINE)
    found: dict[str, str] = {}
    names: list[str] = []
    for line in inspect.cleandoc("\n" + section[1]).splitlines() if section else ():
        if opening := OPENING.match(line):
            names = opening["names"].split(", ")
            found |= dict.fromkeys(names, opening["text"])
        else:
            found |= {name: f"{found[name]} {line.strip()}" for name in names}
    for name, text in list(found.items()):
        starts = [each for each in WITHIN.finditer(text) if each["name"] in fields]
        found[name] = text[: starts[0].start()] if starts else text
        ends = [*(each.start() for each in starts[1:]), len(text)]
        found |= {each["name"]: text[each.end() : end] for each, end in zip(starts, ends, strict=False)}
    return found
